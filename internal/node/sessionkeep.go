package node

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

// This file is what is kept of a Session for the case that its client comes back: its pushes,
// and, once the connection is lost, the Session itself, which is then reserved. How another
// Session takes it over is in sessionresume.go.

const opResume = "resume"

// keep is what a Session has that can be resumed, or that has resumed another one. Others
// have none.
//
// With a token each push gets the next number and is kept, in one step with its way into the
// connection's queue: so the numbers have the order in which the client gets the pushes, and
// what it has not got when its connection is lost is kept, or counted as lost.
//
// Invariant: the Session ends once. finish, by whoever calls it first, says why, and the
// later one of it and the connection's end does it.
//
// mu is taken under the Session's mu, never the other way round, and above that of the
// Session's sessionOut. Nobody holds those of two Sessions.
type keep struct {
	session *sessionConn

	mu      sync.Mutex
	token   string // empty: pushes are neither numbered nor kept
	last    uint64 // the latest push's number
	lost    uint64 // that of the latest push that had to be delivered and is not kept any more
	pushes  []keptPush
	bytes   int
	holding bool // the Session resumes another one: its pushes wait in held
	choked  bool // more came than may wait there
	held    []keptPush
	waiting int // bytes of held

	cut      bool // nothing goes into the connection any more: it is lost, or another Session resumes this one
	taken    bool // another Session resumes this one
	closed   bool // the connection's end was told
	finished bool
	done     bool        // the Session has ended
	until    clock.Mono  // when it ends, if it is reserved
	why      *Disconnect // that it ends, and is not resumed any more
}

// keptPush is a push as it was encoded. Its number is in there.
type keptPush struct {
	frame  *buf.Buf
	number uint64
	class  session.PushClass
	key    session.PushKey // of NewestPerKey
	unsent bool            // it certainly did not go out
}

func (e *keptPush) size() int { return len(e.frame.Bytes()) + engine.MessageCost }

func (e *keptPush) options() *PushOptions { return &PushOptions{Class: e.class, Key: e.key.Key} }

// keptPushOf takes the frame. Nothing of actor and how is kept, which may be views.
func keptPushOf(frame *buf.Buf, actor string, how *PushOptions) keptPush {
	e := keptPush{frame: frame}
	if how != nil {
		e.class = how.Class
		if e.class == session.NewestPerKey {
			e.key = session.PushKey{Actor: strings.Clone(actor), Key: strings.Clone(how.Key)}
		}
	}
	return e
}

// keeps are those of a node.
type keeps struct {
	mu       sync.Mutex
	tokens   map[string]*keep
	reserved map[*keep]struct{}
	bytes    int64 // of all kept pushes
}

func (k *keeps) add(token string, of *keep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tokens == nil {
		k.tokens, k.reserved = map[string]*keep{}, map[*keep]struct{}{}
	}
	k.tokens[token] = of
}

func (k *keeps) find(token string) *keep {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tokens[token]
}

func (k *keeps) remove(token string, of *keep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.tokens, token)
	delete(k.reserved, of)
}

// reserve makes it one of the reserved, if the node has room for one more.
func (k *keeps) reserve(of *keep) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.reserved) >= reservedMax || k.bytes > keptBytesMax {
		return false
	}
	k.reserved[of] = struct{}{}
	return true
}

func (k *keeps) release(of *keep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.reserved, of)
}

// count adds bytes and reports whether the node keeps too many.
func (k *keeps) count(bytes int) (crowded bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes += int64(bytes)
	return k.bytes > keptBytesMax
}

func (k *keeps) look() (reserved int, bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.reserved), k.bytes
}

// sweep ends the reserved Sessions whose time is over.
func (k *keeps) sweep(now clock.Mono) {
	k.mu.Lock()
	all := make([]*keep, 0, len(k.reserved))
	for of := range k.reserved {
		all = append(all, of)
	}
	k.mu.Unlock()
	for _, of := range all {
		of.finishDue(now)
	}
}

// keeping returns the Session's keep, which is made when it is needed first.
func (s *sessionConn) keeping() (*keep, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keep.Load()
	switch {
	case s.port.grace <= 0:
		return nil, errNoGrace
	case s.closed:
		return nil, errSessionClosed
	case k == nil:
		k = &keep{session: s}
		s.keep.Store(k)
	}
	return k, nil
}

// resumeToken returns what another Session resumes this one with.
func (s *sessionConn) resumeToken() (string, *Error) {
	k, err := s.keeping()
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.done || k.cut:
		return "", errSessionClosed
	case k.token == "":
		var b [16]byte
		rand.Read(b[:])
		k.token = hex.EncodeToString(b[:])
		s.node.keeps.add(k.token, k)
	}
	return k.token, nil
}

// push sends a push to the client, or keeps it for when that is back.
func (k *keep) push(p *session.Packet, actor string, how *PushOptions) *Error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.done || k.why != nil:
		return errSessionClosed
	case k.choked:
		return errSessionSlow
	case !k.holding:
		return k.send(p, actor, how)
	}
	if err := k.fits(p); err != nil {
		return err
	}
	frame, err := k.session.frame(p)
	if err != nil {
		return err
	}
	e := keptPushOf(frame, actor, how)
	if k.waiting+e.size() > k.session.port.keepBytes && len(k.held) > 0 {
		k.choked = true // whoever resumes sees it and closes the Session
		frame.Free()
		return errSessionSlow
	}
	k.held = append(k.held, e)
	k.waiting += e.size()
	return nil
}

// fits refuses a push whose number would have no room. mu is held.
func (k *keep) fits(p *session.Packet) *Error {
	if k.token == "" || len(p.Meta) <= session.MetadataMax-session.PushNumberSize {
		return nil
	}
	return fail(errkind.InvalidOperation, opPush, "", "the metadata of %d bytes has no room for the push's number; it may have %d", len(p.Meta), session.MetadataMax-session.PushNumberSize)
}

// send numbers a push, keeps it and sends it, unless the client is away. mu is held.
func (k *keep) send(p *session.Packet, actor string, how *PushOptions) *Error {
	if err := k.fits(p); err != nil {
		return err
	}
	s, q, number := k.session, *p, uint64(0)
	if k.token != "" {
		number = k.last + 1
	}
	q.Meta = withPushNumber(slices.Clone(p.Meta), number) // else the compiler has each push allocate, also those that are not kept
	frame, err := s.frame(&q)
	if err != nil {
		return err
	}
	if number == 0 {
		return s.queueAs(frame, actor, how)
	}
	e := keptPushOf(frame.Ref(), actor, how)
	e.number, k.last = number, number
	if k.cut {
		frame.Free()
		e.unsent = true
	} else if err = s.queueAs(frame, actor, how); err != nil {
		if s.final.Load() {
			e.frame.Free()
			return err
		}
		e.unsent = true // the connection is lost, and its end will be told
	}
	k.pushes = append(k.pushes, e)
	k.count(e.size())
	if k.why != nil {
		return errSessionClosed
	}
	return nil
}

// count adds the bytes of a push, and lets the oldest go if there are too many. mu is held.
func (k *keep) count(size int) {
	s := k.session
	k.bytes += size
	crowded := s.node.keeps.count(size)
	for len(k.pushes) > 1 && (crowded || k.bytes > s.port.keepBytes) {
		e := k.pushes[0]
		k.pushes[0] = keptPush{}
		k.pushes = k.pushes[1:]
		k.bytes -= e.size()
		crowded = s.node.keeps.count(-e.size())
		e.frame.Free()
		if e.class != session.MustDeliver {
			continue
		}
		if k.lost = e.number; e.unsent {
			k.overdue(Disconnect{Code: ConnectionLost, Text: "more was pushed than is kept for a client that is away"})
		}
	}
}

// overdue has the sweeper end a reserved Session, or whoever resumes it give up. mu is held.
func (k *keep) overdue(why Disconnect) {
	if k.why == nil {
		k.why, k.until = &why, 0
	}
}

// withPushNumber returns the metadata with that number; 0: with none.
func withPushNumber(meta session.Metadata, number uint64) session.Metadata {
	if _, there := meta.Lookup(session.PushNumberKey); !there && number == 0 {
		return meta
	}
	pairs := make([]session.Pair, 0, meta.Len()+1)
	for k, v := range meta.All() {
		if string(k) != session.PushNumberKey {
			pairs = append(pairs, session.Pair{Key: string(k), Value: string(v)})
		}
	}
	if number > 0 {
		pairs = append(pairs, session.Pair{Key: session.PushNumberKey, Value: strconv.FormatUint(number, 10)})
	}
	if len(pairs) == 0 {
		return nil
	}
	slices.SortFunc(pairs, func(a, b session.Pair) int { return strings.Compare(a.Key, b.Key) })
	block, err := session.AppendMetadata(nil, pairs)
	if err != nil {
		return meta // it is not valid, which is for the encoder to say
	}
	return block
}

// queueFrame is queueAs for a frame that was encoded before its place among the Session's
// messages was known.
func (s *sessionConn) queueFrame(b *buf.Buf, actor string, how *PushOptions) *Error {
	if k := s.keep.Load(); k != nil {
		if p, err := session.Decode(b.Bytes()); err == nil && p.Kind == session.KindSend {
			defer b.Free()
			return k.push(&p, actor, how)
		}
	}
	return s.queueAs(b, actor, how)
}

// meant notes that the Session ends by somebody's will: it is not reserved, or not any more.
func (s *sessionConn) meant(why engine.CloseReason) {
	s.final.Store(true)
	k := s.keep.Load()
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cut {
		k.overdue(disconnectOf(why))
	}
}

// reserves takes the connection's end, and reports whether the Session goes on without it:
// reserved, unless another one resumes it already. why is that of the end, which it may change.
// Loop only. The Session's mu is held, so that its Actors are told that the client is away
// before that it is gone.
func (k *keep) reserves(reason engine.CloseReason, why *Disconnect) (goesOn, reserved bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() { k.closed = true }()
	switch {
	case k.finished:
		*why = *k.why
		return false, false
	case k.taken:
		return true, false
	}
	s := k.session
	may := k.token != "" && !k.holding && !k.choked && s.door == nil && dropped(reason) && !s.final.Load() && !s.node.stopping.Load() && s.replacement.Load() == nil
	if may && !s.node.keeps.reserve(k) {
		s.node.counters.reservesRefused.Add(1)
		may = false
	}
	if !may {
		k.finishes(why)
		return false, false
	}
	k.cut, k.until = true, clock.Now().Add(s.port.grace)
	return true, true
}

// dropped reports whether a connection that ended so was lost, rather than closed. The engine
// has a text for what it calls PeerClosed if a WebSocket's close frame came.
func dropped(r engine.CloseReason) bool {
	switch r.Code {
	case engine.PeerClosed:
		return r.Text == ""
	case engine.TransportError, engine.PeerSilent, engine.OutStalled, engine.OutFull:
		return true
	default:
		return false
	}
}

// replaced takes the news that another Session has an Actor of this one, and reports whether
// that is no reason to tell its application.
func (k *keep) replaced() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cut && !k.taken {
		k.overdue(Disconnect{Code: SessionReplaced})
	}
	return k.cut
}

// finish ends the Session, for why if it does not end for something else, as soon as the
// connection's end is told.
func (k *keep) finish(why Disconnect) {
	k.mu.Lock()
	ends := k.finishes(&why)
	k.mu.Unlock()
	if ends {
		k.session.over(why)
	}
}

// finishDue ends a reserved Session whose time is over.
func (k *keep) finishDue(now clock.Mono) {
	why := Disconnect{Code: ConnectionLost, Text: "the client did not come back in time"}
	k.mu.Lock()
	ends := !k.taken && now.Reached(k.until) && k.finishes(&why)
	k.mu.Unlock()
	if ends {
		k.session.over(why)
	}
}

// finishes reports whether the caller has to end the Session, and for what. mu is held.
func (k *keep) finishes(why *Disconnect) bool {
	if k.why == nil {
		told := *why
		k.why = &told
	}
	*why = *k.why
	ends := k.closed && !k.finished
	k.finished = true
	return ends
}

// end is for the Session's end.
func (k *keep) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done = true
	for _, all := range [...][]keptPush{k.pushes, k.held} {
		for _, e := range all {
			e.frame.Free()
		}
	}
	k.session.node.keeps.count(-k.bytes)
	k.session.node.keeps.remove(k.token, k)
	k.pushes, k.held, k.bytes, k.waiting = nil, nil, 0, 0
}
