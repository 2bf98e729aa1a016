package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

// This file is how a Session goes on where another one was, whose client has lost its
// connection. Nothing of the old Session is used again: each of its Actors is bound to the
// new one like any other. Only its pushes are sent once more.
//
// Order: what an Actor pushed before it was bound to the new Session is at this node before
// that bind has its answer, as both come in the Actor's turns and by one link; and no Actor
// that moves is bound. So when all are bound, all that the old Session will ever be pushed
// has come, and what they have pushed since waits in the new Session, behind that.

// Resumed tells what a Session has taken over.
type Resumed struct {
	Actors []ActorRef // bound to it now, in the order in which they were bound
	Gone   []ActorRef // whose binding had ended meanwhile
	Pushes int        // that were sent again
}

// ResumeToken returns the Session's token; see the public package.
func (s *SessionContext) ResumeToken() (string, error) {
	token, err := s.conn.resumeToken()
	if err != nil {
		return "", err.of(opResume, s.conn.port.typ.Name)
	}
	return token, nil
}

// Resume goes on where the Session of that token was; see the public package.
func (s *SessionContext) Resume(ctx context.Context, token string, last uint64) (Resumed, error) {
	r, err := s.conn.resume(ctx, token, last)
	if err != nil {
		return Resumed{}, err.of(opResume, s.conn.port.typ.Name)
	}
	return r, nil
}

func (s *sessionConn) resume(ctx context.Context, token string, last uint64) (Resumed, *Error) {
	n := s.node
	k, err := s.keeping()
	if err != nil {
		return Resumed{}, err
	}
	if !k.hold() {
		return Resumed{}, errResumes
	}
	old := n.keeps.find(token)
	if old == nil || !old.seize() {
		_, _ = k.letGo(nil, 0) // it fails if the Session is over
		return Resumed{}, errNoReserve
	}
	n.keeps.release(old)
	if !old.covers(last) {
		old.finish(Disconnect{Code: ConnectionLost, Text: errPushesLost.Text})
		_, _ = k.letGo(nil, 0) // it fails if the Session is over
		return Resumed{}, errPushesLost
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.RequestTimeout)
	defer cancel()
	ok := false
	defer func() { // also if the turn's goroutine is ended
		if !ok {
			old.finish(Disconnect{Code: ConnectionLost, Text: "it was not resumed"})
			k.giveUp()
			closeSession(s, session.TransportError, "the session could not be resumed")
		}
	}()
	r, err := s.rebindAll(ctx, old.session)
	if err != nil {
		return Resumed{}, err
	}
	pushes, why := old.yield()
	switch {
	case why != nil:
		freeAll(pushes)
		return Resumed{}, fail(errkind.Unavailable, "", "", "the session has ended meanwhile: %v", why)
	case !old.covers(last): // what came meanwhile has driven out too much
		freeAll(pushes)
		return Resumed{}, fail(errkind.Unavailable, "", "", "meanwhile so much was pushed that what the client has not got is not kept any more")
	}
	if r.Pushes, err = k.letGo(pushes, last); err != nil {
		return Resumed{}, err
	}
	ok = true
	n.counters.sessionsResumed.Add(1)
	old.finish(Disconnect{Code: SessionResumed})
	return r, nil
}

// hold has the Session's pushes wait, unless they do.
func (k *keep) hold() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holding || k.cut || k.done {
		return false
	}
	k.holding = true
	return true
}

// seize takes a Session for one that resumes it: once, and only if it is not over. One whose
// client was faster than the news that its connection is lost is closed.
func (k *keep) seize() bool {
	k.mu.Lock()
	if s := k.session; k.holding || k.taken || k.done || k.finished || k.why != nil || s.final.Load() || s.replacement.Load() != nil {
		k.mu.Unlock()
		return false
	}
	half := !k.cut
	k.taken, k.cut = true, true
	k.mu.Unlock()
	if half {
		const text = "its client has come back"
		closeConn(k.session.conn, session.ServerDrain, session.WordReplaced, engine.CloseReason{Code: engine.Replaced, Text: text})
	}
	return true
}

// covers reports whether all pushes that had to be delivered behind that one are kept.
func (k *keep) covers(last uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return last <= k.last && last >= k.lost
}

// yield returns the kept pushes, which are the caller's now. Nothing is kept any more. why is
// not nil if the Session ends otherwise than by being resumed.
func (k *keep) yield() (pushes []keptPush, why *Disconnect) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pushes, why = k.pushes, k.why
	k.overdue(Disconnect{Code: SessionResumed}) // what is pushed from now on is refused
	k.session.node.keeps.count(-k.bytes)
	k.pushes, k.bytes = nil, 0
	return pushes, why
}

// giveUp drops what waits, of a Session that is about to be closed.
func (k *keep) giveUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	freeAll(k.held)
	k.holding, k.choked, k.held, k.waiting = false, true, nil, 0
}

// letGo sends the pushes behind that number, and then what waited. It frees all.
func (k *keep) letGo(pushes []keptPush, last uint64) (sent int, err *Error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	held := k.held
	k.holding, k.held, k.waiting = false, nil, 0
	defer freeAll(pushes)
	defer freeAll(held)
	switch {
	case k.done || k.cut:
		return 0, errSessionClosed
	case k.choked:
		return 0, errSessionSlow
	}
	for i, e := range append(slices.Clip(pushes), held...) {
		old := i < len(pushes)
		if old && e.number <= last {
			continue
		}
		p, bad := session.Decode(e.frame.Bytes())
		if bad != nil {
			return sent, &Error{Kind: errkind.InternalFailure, Err: bad}
		}
		p.Meta = withPushNumber(p.Meta, 0)
		if err := k.send(&p, e.key.Actor, e.options()); err != nil {
			return sent, err
		}
		if old {
			sent++
		}
	}
	return sent, nil
}

func freeAll(pushes []keptPush) {
	for _, e := range pushes {
		e.frame.Free()
	}
}

// rebindAll binds the old Session's Actors to this one.
func (s *sessionConn) rebindAll(ctx context.Context, old *sessionConn) (r Resumed, err *Error) {
	old.mu.Lock()
	var all []*sessionBinding
	for _, b := range old.routes.Load().byActor {
		all = append(all, b)
	}
	old.mu.Unlock()
	slices.SortFunc(all, func(a, b *sessionBinding) int { return cmp.Compare(a.gen, b.gen) })
	for _, b := range all {
		ref, bound, err := s.rebind(ctx, old, b)
		switch {
		case err != nil:
			return Resumed{}, err
		case bound:
			r.Actors = append(r.Actors, ref)
		default:
			r.Gone = append(r.Gone, ref)
		}
	}
	return r, nil
}

// rebind binds an Actor of the old Session to this one, once it does not move any more. It is
// not bound, without error, if the old Session's binding has ended.
func (s *sessionConn) rebind(ctx context.Context, old *sessionConn, b *sessionBinding) (ref ActorRef, bound bool, err *Error) {
	for wait := createWaitMin; ; wait = min(2*wait, createWaitMax) {
		now, moves, over := old.presently(b)
		err := errBindingMoves
		if ref = now.ref; over {
			return ref, false, nil
		} else if !moves {
			err = s.bind(ctx, ref)
		}
		switch {
		case err == nil:
			return ref, true, nil
		case err.Kind == errkind.InvalidOperation || err.Kind == errkind.NotFound: // another incarnation
			return ref, false, nil
		case err.Kind != errkind.Unavailable && err.Kind != errkind.CapacityExceeded || s.isClosed():
			return ref, false, err
		}
		if !s.waits(ctx, wait) {
			return ref, false, fromContext(ctx, opResume, ref.ID)
		}
	}
}

// presently returns the binding as it is now, and whether its Actor moves or it is over.
func (s *sessionConn) presently(b *sessionBinding) (now *sessionBinding, moves, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.routes.Load().byActor[b.ref.ID]
	if now == nil || now.gen != b.gen {
		return b, false, true
	}
	return now, now.moves(), now.over()
}

func (s *sessionConn) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// waits pauses the turn, if it is one, and reports whether ctx goes on.
func (s *sessionConn) waits(ctx context.Context, d time.Duration) (ok bool) {
	blocking(ctx, func() { ok = pause(ctx, d) })
	return ok
}
