package node

import (
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// This file is the Session owner's part of the move of a bound Actor.

// sessionWay is the way between a Session and an Actor that moves or has moved: the core
// that decides, and what waits. It is one for all values of its binding.
//
// The Session's mu guards it, and is held from a step until its effects are done: so what
// the core says of packets is true for the link that they are sent on, where a confirmed
// seal lies behind them.
type sessionWay struct {
	session *sessionConn
	id      string // of the Actor
	route   session.Route
	left    *linkConn // of the owner before; nil: this node
	held    []heldPacket
	kept    []keptFrame
	last    func(*sessionConn, *sessionBinding) // what its owner ends it with, which is heard behind what is kept
	confirm func(*Error)                        // answers a seal that is to be confirmed later
	tries   uint64                              // submissions that waited for credit
	moving  bool                                // it is counted in the Session and known to the node
	over    bool                                // its binding is over, while the Session goes on
}

// keptFrame is a frame for the client.
type keptFrame struct {
	*buf.Buf
	how PushOptions
}

// heldPacket is a packet that waits for the end of a move. It is a copy: what it came in
// may hold many others.
type heldPacket struct {
	session.Packet
	owner    *buf.Buf
	size     int
	corr     uint64         // of a request, which waits in the node's own table meanwhile
	request  *clientRequest // whoever takes it from there ends it
	deadline clock.Mono
}

// movingWays are the ways of a node's Sessions whose Actors move.
type movingWays struct{ lockedSet[*sessionWay] }

// sweep closes the Sessions that have waited too long for the end of a move (SB-04).
func (m *movingWays) sweep(now clock.Mono) {
	for _, w := range m.all() {
		w.session.mu.Lock()
		if at, ok := w.route.NextDeadline(); ok && now.Reached(at) {
			w.step(now, session.RouteEvent{Kind: session.RouteTick}, nil)
		}
		w.session.mu.Unlock()
	}
}

// lost tells the ways that lead over the link, or did so, that it is lost.
func (m *movingWays) lost(l *linkConn) {
	for _, w := range m.all() {
		w.session.mu.Lock()
		if b := w.binding(); b != nil && b.link == l {
			w.step(clock.Now(), session.RouteEvent{Kind: session.RouteLost}, nil)
		} else if b != nil && w.left == l && w.route.Leaving() {
			w.step(clock.Now(), session.RouteEvent{Kind: session.RouteLostLate}, nil)
		}
		w.session.mu.Unlock()
	}
}

// binding returns the binding whose way it is, if it still is one.
func (w *sessionWay) binding() *sessionBinding {
	if b := w.session.routes.Load().byActor[w.id]; b != nil && b.way == w {
		return b
	}
	return nil
}

// step gives the event to the core and does what it says. The answer is what it says of a
// packet or a push, or why it refuses a seal, which is the caller's. next is the binding
// that a commit brings.
func (w *sessionWay) step(now clock.Mono, ev session.RouteEvent, next *sessionBinding) (answer session.RouteEffect) {
	s, n := w.session, w.session.node
	w.route.Step(now, ev)
	var effects [2]session.RouteEffect
	for _, e := range w.route.Effects(effects[:0]) {
		switch e.Kind {
		case session.RouteSwap:
			w.left = w.binding().link
			s.replace(next)
			s.notify(&Notice{Kind: NoticeMoved, Actor: next.ref, Type: next.typ})
		case session.RouteSubmit:
			if ev.Kind != session.RouteSubmitted { // else submit goes on with the next one itself
				w.submit(credit{})
			}
		case session.RouteShowKept:
			for _, k := range w.kept {
				_ = s.queueFrame(k.Buf, w.id, &k.how) // a Session that is over, or is closed for it, needs it no more
			}
			w.kept = nil
		case session.RouteClose:
			n.counters.sessionsCutOff.Add(1)
			n.log.Warn().Uint64("session", s.id).Str("actor", clip(w.id)).Stringer("reason", e.Why).Msg("a session is closed because its actor moves")
			w.drop(errSessionClosed)
			closeSession(s, session.TransportError, e.Why.String())
		case session.RouteIgnored:
			n.updateIgnored(s.id, w.id, e.Why.String())
		case session.RouteGone:
			n.tooLate(next, s.id)
		case session.RouteSealed:
			w.answer(nil)
		default:
			answer = e
		}
	}
	w.hear()
	w.count()
	return answer
}

// hear does what the Actor's owner has ended the binding with, once all that was pushed
// before is on its way to the client.
func (w *sessionWay) hear() {
	if w.last == nil || w.route.Leaving() || w.over || w.session.closed {
		return
	}
	f := w.last
	w.last = nil
	if b := w.binding(); b != nil {
		f(w.session, b)
	}
}

// answer ends the seal that is waited for.
func (w *sessionWay) answer(err *Error) {
	if w.confirm != nil {
		w.confirm(err)
		w.confirm = nil
	}
}

// count keeps the Session and the node informed whether there is more to be looked at than
// the binding.
func (w *sessionWay) count() {
	moving := !w.route.Calm() && !w.session.closed && !w.over
	switch {
	case moving == w.moving:
		return
	case moving:
		w.session.moving.Add(1)
		w.session.node.moving.add(w)
	default:
		w.session.moving.Add(-1)
		w.session.node.moving.remove(w)
	}
	w.moving = moving
}

// updateIgnored notes that an update about a bound Actor has changed nothing.
func (n *Node) updateIgnored(session uint64, actor, why string) {
	n.counters.updatesIgnored.Add(1)
	left, ok := n.said.updateIgnored.Take(clock.Now())
	if !ok {
		return
	}
	n.log.Warn().Uint64("session", session).Str("actor", clip(actor)).Str("reason", why).Int64("left_out", left).
		Msg("an update about a bound actor came too late or for nothing")
}

// replace makes next a route of the Session in the place of the present binding of that
// Actor. mu is held.
func (s *sessionConn) replace(next *sessionBinding) {
	old := s.routes.Load()
	before := old.byActor[next.ref.ID]
	routes := &sessionRoutes{byActor: maps.Clone(old.byActor), byType: maps.Clone(old.byType)}
	routes.byActor[next.ref.ID] = next
	if routes.byType[next.typ] == before {
		routes.byType[next.typ] = next
	}
	s.routes.Store(routes)
}

// admits asks the core about a packet for the Actor, and keeps it if it has to wait.
// Without error and not waiting it is to be sent now.
func (w *sessionWay) admits(p *session.Packet, span trace.Span) (waits bool, err *Error) {
	now := clock.Now()
	size := len(p.Name) + len(p.Meta) + len(p.Payload)
	switch w.step(now, session.RouteEvent{Kind: session.RoutePacket, Size: size}, nil).Kind {
	case session.RouteForward:
		return false, nil
	case session.RouteHold:
	default:
		return false, errSessionBusy
	}
	h := heldPacket{owner: buf.Get(size), size: size, deadline: clock.Never}
	rest := h.owner.Bytes()
	part := func(b []byte) []byte {
		n := copy(rest, b)
		b, rest = rest[:n:n], rest[n:]
		return b
	}
	h.Kind, h.Codec, h.Seq = p.Kind, p.Codec, p.Seq
	h.Name, h.Meta, h.Payload = part(p.Name), part(p.Meta), part(p.Payload)
	if p.Kind == session.KindRequest {
		n := w.session.node
		h.deadline = now.Add(n.cfg.RequestTimeout)
		h.request = newClientRequest(w.session, p, w.binding(), span)
		if h.corr, err = n.local.add(h.request, h.deadline); err != nil {
			h.request.finish(result{err: err}) // its place stays, with nothing to be done
			h.request = nil
		}
	}
	w.held = append(w.held, h)
	return true, nil
}

// submit sends what waits, the first before the next, as far as there is credit: paid is
// what the caller has of it. A task waits for more.
func (w *sessionWay) submit(paid credit) {
	defer func() { paid.putBack() }()
	for w.route.Submitting() {
		lacks, err := w.submitFirst(&w.held[0], &paid)
		if lacks.link != nil && w.await(lacks) {
			return
		}
		if lacks.link != nil {
			err = errStopping
		}
		w.endFirst(err)
	}
}

// endFirst takes the first packet out, which was sent, or is refused with err.
func (w *sessionWay) endFirst(err *Error) {
	h := &w.held[0]
	if err != nil {
		w.refuse(h, err)
	}
	size := h.size
	h.owner.Free()
	w.held = slices.Delete(w.held, 0, 1)
	w.step(clock.Now(), session.RouteEvent{Kind: session.RouteSubmitted, Size: size}, nil)
}

// submitFirst sends one packet that waited, or says which credit it lacks.
func (w *sessionWay) submitFirst(h *heldPacket, paid *credit) (lacks credit, err *Error) {
	s, b := w.session, w.binding()
	asks := h.Kind == session.KindRequest
	switch {
	case asks && h.request == nil:
		return credit{}, nil
	case b.lost():
		return credit{}, errBindingLost.of("relay", w.id)
	case b.link == nil:
		return credit{}, s.relayHere(b, &h.Packet, h.owner, h.corr, h.deadline)
	}
	rec := s.packetRecord(b, &h.Packet)
	if lacks = paid.pay(b.link, rec.Size()); lacks.link != nil {
		return lacks, nil
	}
	if asks && s.node.local.take(h.corr) == nil { // it has ended meanwhile
		b.link.gate.PutBack(rec.Size())
		h.request = nil
		return credit{}, nil
	}
	h.corr = 0
	return credit{}, s.sendPaid(b, &rec, h.request, h.deadline)
}

// refuse ends a packet that waited and was not sent.
func (w *sessionWay) refuse(h *heldPacket, err *Error) {
	n := w.session.node
	switch {
	case h.Kind != session.KindRequest:
		n.counters.dropped.Add(1)
	case h.request != nil && (h.corr == 0 || n.local.take(h.corr) != nil):
		h.request.finish(result{err: err})
	}
}

// await has a task wait for credit and go on with what waits then. If none comes, the first
// packet ends, unless it waits for something else meanwhile. It returns false if the node
// stops.
func (w *sessionWay) await(lacks credit) bool {
	s := w.session
	w.tries++
	try := w.tries
	return s.node.tasks.Go(func() {
		err := lacks.link.waitForCredit(s.node.life, lacks.n)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err == nil:
			w.submit(lacks) // which gives it back if nothing, or something else, is to be sent
		case w.tries == try && w.route.Submitting():
			w.endFirst(err)
			w.submit(credit{})
		}
	})
}

// drop ends all that waits: the Session or the binding is over.
func (w *sessionWay) drop(err *Error) {
	w.answer(errBindingOver)
	for i := range w.held {
		w.refuse(&w.held[i], err)
		w.held[i].owner.Free()
	}
	for _, frame := range w.kept {
		frame.Free()
	}
	w.held, w.kept, w.last = nil, nil, nil
}

// end is for the Session's end. mu is held, and closed is set.
func (w *sessionWay) end() {
	w.step(clock.Now(), session.RouteEvent{Kind: session.RouteClosed}, nil)
	w.drop(errSessionClosed)
}

// abandon is end for a binding that is over while its Session goes on, and that is replaced
// by one without a way. err is for what waits.
func (w *sessionWay) abandon(err *Error) {
	w.over = true
	w.step(clock.Now(), session.RouteEvent{Kind: session.RouteClosed}, nil)
	w.drop(err)
}

// pushMoving is pushFrom while an Actor of the Session moves.
func (s *sessionConn) pushMoving(id string, key bindingKey, how *PushOptions, p *session.Packet) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.routes.Load().byActor[id]
	if b == nil || b.gen != key.gen || b.ended || b.way == nil && b.link != key.link {
		return errBindingStale
	}
	w, ev := b.way, session.RouteEvent{Kind: session.RouteShown}
	switch {
	case w == nil:
		return s.writeAs(p, id, how)
	case b.link == key.link:
	case w.route.Leaving() && w.left == key.link:
		ev.Kind = session.RouteShownLate
	default:
		return errBindingStale
	}
	frame, err := s.frame(p)
	if err != nil {
		return err
	}
	ev.Size = len(frame.Bytes())
	return w.show(ev, frame, how)
}

// show asks the core about a frame for the client, and sends, keeps or drops it.
func (w *sessionWay) show(ev session.RouteEvent, frame *buf.Buf, how *PushOptions) *Error {
	switch w.step(clock.Now(), ev, nil).Kind {
	case session.RouteShow:
		return w.session.queueFrame(frame, w.id, how)
	case session.RouteKeep:
		k := keptFrame{Buf: frame}
		if how != nil {
			k.how = PushOptions{Class: how.Class, Key: strings.Clone(how.Key)}
		}
		w.kept = append(w.kept, k)
		return nil
	default:
		frame.Free()
		return errBindingStale
	}
}

// keepReply has a reply of a new owner wait for the owner before, and reports whether it
// has taken it.
func (r *clientRequest) keepReply(res *result) bool {
	s := r.session
	if s.moving.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.routes.Load().byActor[r.binding.ref.ID]
	if b == nil || b.gen != r.binding.gen || b.way == nil || !b.way.route.Leaving() || res.from != b.link {
		return false
	}
	frame, err := r.frame(*res)
	if err == nil {
		_ = b.way.show(session.RouteEvent{Kind: session.RouteShown, Size: len(frame.Bytes())}, frame, nil) // fails if the Session is over, which needs no reply
	}
	return true
}

// sealing says which binding an Actor's owner wants to have sealed, or has drained.
type sealing struct {
	key        bindingKey // its link is the owner's, at the Session's owner
	id         string
	objGen     uint64
	ownerGen   uint64
	relocation session.Relocation
}

func (m *sealing) event(kind session.RouteEventKind) session.RouteEvent {
	return session.RouteEvent{Kind: kind, Relocation: m.relocation, ObjGen: m.objGen, BindingGen: m.key.gen, OwnerGen: m.ownerGen}
}

// seal holds the packets of that binding back from now on, and confirms that behind the
// last one that was sent, later if the Actor's owner before may still show something.
// NotFound: there is no such binding any more.
func (n *Node) seal(m *sealing, confirm func(*Error)) {
	failpoint.Hit("R03.O.before")
	s := n.session(m.key.session)
	if s == nil {
		confirm(errBindingOver)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.routes.Load().byActor[m.id]
	if s.closed || b == nil || b.ended || b.gen != m.key.gen || b.link != m.key.link || b.ref.ObjectGen != m.objGen {
		confirm(errBindingOver)
		return
	}
	if b.way == nil {
		sealed := *b
		sealed.way = &sessionWay{session: s, id: m.id, route: session.NewRoute(&s.port.moves, m.objGen, b.gen, b.ref.OwnerGen)}
		s.replace(&sealed)
		b = &sealed
	}
	earlier := b.way.confirm // of one that is asked for again, or was given up
	b.way.confirm = confirm
	if e := b.way.step(clock.Now(), m.event(session.RouteSeal), nil); e.Kind == session.RouteSealRefused {
		b.way.confirm = earlier
		confirm(fail(errkind.Unavailable, opMoveSession, m.id, "its session's owner refuses: %v", e.Why))
	}
	failpoint.Hit("R03.O.after")
}

// sourceDrained notes that the owner of that binding shows the client nothing more.
func (n *Node) sourceDrained(m *sealing) {
	s := n.session(m.key.session)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	b := s.routes.Load().byActor[m.id]
	ok := b != nil && b.way != nil && b.gen == m.key.gen
	if ok {
		by := b.link
		if b.way.route.Leaving() && b.way.route.Left() == m.relocation {
			by = b.way.left
		}
		ok = by == m.key.link
	}
	if !ok {
		n.updateIgnored(s.id, m.id, session.RouteOtherBinding.String())
		return
	}
	b.way.step(clock.Now(), m.event(session.RouteDrained), nil)
}

// moveEnded swaps the route of a binding whose Actor has moved, or opens it again if the
// Actor stays, and has what waited submitted before anything else. link is that of who
// tells it, at which the Actor is; cell is the Actor if it is here.
func (n *Node) moveEnded(link *linkConn, cell *objectCell, m *wire.SessionRelocationRoute) {
	failpoint.Hit("R15.O.before")
	next := &sessionBinding{ref: refFromWire(&m.Ref), gen: m.BindingGen, link: link, cell: cell}
	s := n.session(m.Session)
	if s == nil {
		if m.Commit {
			n.tooLate(next, m.Session)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.routes.Load().byActor[next.ref.ID]
	switch {
	case s.closed && m.Commit:
		n.tooLate(next, m.Session)
		return
	case s.closed:
		return
	case b != nil && b.ended && b.gen == m.BindingGen && m.Commit:
		next.unbind(m.Session)
		return
	case b == nil || b.way == nil || b.gen != m.BindingGen || !m.Commit && b.link != link || link != nil && link.mesh != b.mesh(n):
		n.updateIgnored(s.id, next.ref.ID, session.RouteOtherBinding.String())
		return
	}
	next.typ, next.way = b.typ, b.way
	ev := (&sealing{
		key: bindingKey{gen: m.BindingGen}, objGen: next.ref.ObjectGen, ownerGen: next.ref.OwnerGen, relocation: m.Relocation,
	}).event(session.RouteAbort)
	if m.Commit {
		ev.Kind = session.RouteCommit
	}
	b.way.step(clock.Now(), ev, next)
	// That the client is away goes along with the Actor, if its owner knew when it took the
	// state. Of a loss since then it has not heard, so the Actor's owner now is told; a second
	// time does nothing.
	if s.away {
		if b = s.routes.Load().byActor[next.ref.ID]; b.link == link {
			b.tellAway(s.id)
		}
	}
	failpoint.Hit("R15.O.after")
}

// mesh returns that of the Actor, which does not leave it.
func (b *sessionBinding) mesh(n *Node) *mesh {
	if b.link == nil {
		return n.home
	}
	return b.link.mesh
}

// tooLate answers a commit for a Session that is over, which is worth a warning: the client
// has not waited for the Actor, or could not (SB-04).
func (n *Node) tooLate(next *sessionBinding, session uint64) {
	n.updateIgnored(session, next.ref.ID, "the session is over")
	next.unbind(session)
}

// credit is bytes of a link's credit.
type credit struct {
	link *linkConn
	n    int
}

// pay takes the credit for a record from c, or from the link; else it says what lacks.
func (c *credit) pay(l *linkConn, n int) (lacks credit) {
	switch need := (credit{l, n}); {
	case *c == need:
		*c = credit{}
	case !l.gate.TryTake(n):
		return need
	}
	return credit{}
}

// putBack gives back what was not used.
func (c *credit) putBack() {
	if c.link != nil {
		c.link.gate.PutBack(c.n)
		*c = credit{}
	}
}
