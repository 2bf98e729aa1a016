package node

import (
	"context"
	"maps"
	"time"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// This file is how a binding ends other than with its Session: what the Actor's owner tells
// the Session's owner, and what that does.

const opCloseSession = "close session"

// replacement is the end of a Session one of whose Actors was bound to another Session. From
// then on the Session takes no input; it may send until it is closed.
type replacement struct {
	actor    ActorRef
	deadline clock.Mono  // of the callback
	closing  *time.Timer // closes the Session
}

// tie names a binding in what an Actor's owner says of it.
type tie struct {
	key    bindingKey // its link is the owner's; nil: this node
	id     string     // of the Actor
	objGen uint64
}

// tellReplaced tells the owner of a binding's Session that the Actor was bound to another
// Session. Under the Actor's claim, behind its last push.
func (n *Node) tellReplaced(b binding, ref *ActorRef) {
	if l := b.key.link; l != nil {
		l.sendControl(&wire.BindingReplaced{BindingName: b.key.wire(ref)})
		return
	}
	n.bindingReplaced(tie{b.key, ref.ID, ref.ObjectGen})
}

// tellEnded tells the owner of a binding's Session that the Actor is gone. Under its claim.
func (n *Node) tellEnded(b binding, ref *ActorRef) {
	if l := b.key.link; l != nil {
		l.sendControl(&wire.BindingEnded{BindingName: b.key.wire(ref)})
		return
	}
	n.bindingEnded(tie{b.key, ref.ID, ref.ObjectGen})
}

// SessionRef names a Session and its binding to an Actor.
type SessionRef struct {
	RID       string
	Lifecycle uint64
	ID        uint64
	Binding   uint64
}

// Session returns the bound Session's name; false: none is bound.
func (c *Call) Session() (SessionRef, bool) {
	if !c.Bound() {
		return SessionRef{}, false
	}
	key := &c.cell.binding.key
	owner := key.owner(c.cell.node)
	return SessionRef{RID: owner.rid, Lifecycle: owner.lifecycle, ID: key.session, Binding: key.gen}, true
}

// CloseSession asks for the end of the bound Session, behind what was pushed. Asking again
// changes nothing.
func (c *Call) CloseSession(text string) error {
	mustBeInTurn(c.cell != nil)
	ref := &c.cell.ref
	if err := c.fenced(); err != nil {
		return err.of(opCloseSession, ref.ID)
	}
	b := &c.cell.binding
	switch {
	case !b.stands():
		return errNotBound.of(opCloseSession, ref.ID)
	case b.asked:
		return nil
	}
	b.asked = true // one record for each binding, as it waits for no credit
	if l := b.key.link; l != nil {
		l.sendControl(&wire.SessionClose{BindingName: b.key.wire(ref), Text: []byte(text)})
		return nil
	}
	c.cell.node.closeFor(tie{b.key, ref.ID, ref.ObjectGen}, text)
	return nil
}

// bindingRecord takes what an Actor's owner says of a binding; handled is false for other
// records.
func (l *linkConn) bindingRecord(cmd wire.Command, body []byte) (handled bool, err error) {
	named := func(b *wire.BindingName) tie { return tie{l.bindingKey(b), string(b.ID), b.ObjGen} }
	switch cmd {
	case wire.CmdBindingReplaced:
		r, err := wire.DecodeBindingReplaced(body)
		if err != nil {
			return true, err
		}
		l.node.bindingReplaced(named(&r.BindingName))
	case wire.CmdBindingEnded:
		r, err := wire.DecodeBindingEnded(body)
		if err != nil {
			return true, err
		}
		l.node.bindingEnded(named(&r.BindingName))
	case wire.CmdSessionClose:
		r, err := wire.DecodeSessionClose(body)
		if err != nil {
			return true, err
		}
		l.node.closeFor(named(&r.BindingName), string(r.Text))
	default:
		return false, nil
	}
	return true, nil
}

// inForce runs f with the binding that is meant, under its Session's mu, if it is in force
// and the sender is the Actor's owner. While the Actor moves there may be two. A Session that
// is over meanwhile, or has ended the binding, is no news; anything else is noted.
func (n *Node) inForce(m *tie, f func(*sessionConn, *sessionBinding)) {
	s := n.session(m.key.session)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.routes.Load().byActor[m.id]
	switch {
	case s.closed || b == nil:
	case b.ended || b.gen != m.key.gen || b.ref.ObjectGen != m.objGen || b.link != m.key.link && !b.leaves(m.key.link):
		n.updateIgnored(s.id, m.id, session.RouteOtherBinding.String())
	default:
		f(s, b)
	}
}

// lastWord is inForce for a word behind which the Actor's owner says nothing more of the
// binding, or nothing that counts: it waits for what the owner before may still push, as the
// sender's pushes do.
func (n *Node) lastWord(m *tie, f func(*sessionConn, *sessionBinding)) {
	n.inForce(m, func(s *sessionConn, b *sessionBinding) {
		switch w := b.way; {
		case w == nil || !w.route.Leaving() || b.link != m.key.link:
			f(s, b)
		case w.last == nil:
			w.last = f
		}
	})
}

// leaves reports whether l is of the Actor's owner before, which may still send.
func (b *sessionBinding) leaves(l *linkConn) bool {
	return b.way != nil && b.way.route.Leaving() && b.way.left == l
}

// bindingReplaced begins the end of a Session whose Actor was bound to another one: it takes
// no more input, its application is told, and a little later it is closed. Once for a
// Session, of the first Actor that it has lost.
func (n *Node) bindingReplaced(m tie) {
	n.inForce(&m, func(s *sessionConn, b *sessionBinding) {
		if k := s.keep.Load(); k != nil && k.replaced() {
			s.loses(b)
			return
		}
		if s.replacement.Load() != nil {
			return
		}
		n.counters.sessionsTaken.Add(1)
		r := &replacement{actor: b.ref, deadline: clock.Now().Add(n.cfg.ReplacedTimeout)}
		wait := replacedDelay
		if s.port.typ.OnReplaced != nil {
			wait += n.cfg.ReplacedTimeout // the callback's end sets it anew
		}
		r.closing = time.AfterFunc(wait, func() {
			s.kick(engine.Replaced, session.WordReplaced, "another session has taken the place of this one")
		})
		s.replacement.Store(r)
		if s.port.typ.OnReplaced != nil && !s.inTurn(func(c *SessionCall) { s.replaced(c, r) }) {
			r.closing.Reset(replacedDelay)
		}
	})
}

// replaced runs the application's part of it. In the Session's turn.
func (s *sessionConn) replaced(c *SessionCall, r *replacement) {
	defer r.closing.Reset(replacedDelay) // also if the callback ends its goroutine
	c.deadline = r.deadline
	s.callback("OnReplaced", r.deadline, func() { s.port.typ.OnReplaced(c, s.instance, r.actor) })
}

// bindingEnded ends the binding of an Actor that is gone.
func (n *Node) bindingEnded(m tie) {
	n.lastWord(&m, func(s *sessionConn, b *sessionBinding) {
		s.loses(b)
		s.notify(&Notice{Kind: NoticeEnded, Actor: b.ref, Type: b.typ, Text: "the actor is gone"})
	})
}

// loses notes that the binding has ended at the Actor's owner. mu is held.
func (s *sessionConn) loses(b *sessionBinding) {
	if b.way != nil {
		b.way.abandon(errGone)
	}
	next := *b
	next.ended, next.way = true, nil
	s.replace(&next)
}

// closeFor closes the Session of a binding whose Actor wants it.
func (n *Node) closeFor(m tie, text string) {
	n.lastWord(&m, func(s *sessionConn, _ *sessionBinding) { s.kick(engine.Requested, session.WordKicked, text) })
}

// lostLink tells the Sessions whose Actors were reached by the link, which is lost, that
// those bindings are over. One whose Actor moves, sealed, may yet be found at its new place.
func (n *Node) lostLink(l *linkConn) {
	n.sessions.Range(func(_ string, s *sessionConn) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, b := range s.routes.Load().byActor {
			if b.link == l && !b.ended && (b.way == nil || !b.way.route.Sealed()) && !s.closed {
				s.notify(&Notice{Kind: NoticeEnded, Actor: b.ref, Type: b.typ, Text: "the link to its node was lost"})
			}
		}
		return true
	})
}

// disconnect ends the Session's binding of that Actor alone, and returns when the Actor's Spot
// has been told. The Session, its connection and the Actor stay.
func (s *sessionConn) disconnect(ctx context.Context, id string) *Error {
	s.mu.Lock()
	b := s.routes.Load().byActor[id]
	var err *Error
	switch {
	case s.closed:
		err = errSessionClosed
	case b == nil || b.over():
		err = errBindingOver
	case b.moves():
		err = errBindingMoves
	default:
		s.remove(b)
	}
	s.mu.Unlock()
	if err != nil {
		return err.of(opDisconnect, id)
	}
	ctx, cancel := context.WithTimeout(ctx, s.node.cfg.RequestTimeout)
	defer cancel()
	ended := make(chan *Error, 1)
	s.endBinding(ctx, b, ended)
	blocking(ctx, func() {
		select {
		case err = <-ended:
		case <-ctx.Done():
			err = fromContext(ctx, "", "")
		}
	})
	if err != nil {
		return err.of(opDisconnect, id)
	}
	return nil
}

// endBinding tells the Actor's owner that the Session has ended that binding. ended gets why
// it had ended before, or nil when the Actor's Spot has been told.
func (s *sessionConn) endBinding(ctx context.Context, b *sessionBinding, ended chan<- *Error) {
	if b.cell != nil {
		key := bindingKey{session: s.id, gen: b.gen}
		b.cell.ended(func(t *turn) { t.unregister(key, func(err *Error) { ended <- err }) })
		return
	}
	told := wire.Unbind{BindingName: b.name(s.id), Reason: wire.UnbindDisconnected}
	corr, err := b.link.pending.add(completeFunc(func(r result) {
		r.owner.Free()
		ended <- r.err
	}), deadlineOf(ctx))
	if told.Correlation = corr; err != nil { // it is told all the same
		told.Correlation = 0
		ended <- err
	}
	b.link.sendControl(&told)
}

// remove takes a binding out of the Session's routes. Its type's packets go to the latest of
// the others. mu is held.
func (s *sessionConn) remove(b *sessionBinding) {
	old := s.routes.Load()
	next := &sessionRoutes{byActor: maps.Clone(old.byActor), byType: maps.Clone(old.byType)}
	delete(next.byActor, b.ref.ID)
	if next.byType[b.typ] == b {
		delete(next.byType, b.typ)
		for _, other := range next.byActor {
			if latest := next.byType[b.typ]; other.typ == b.typ && !other.over() && (latest == nil || latest.gen < other.gen) {
				next.byType[b.typ] = other
			}
		}
	}
	s.routes.Store(next)
}

// eachBinding calls f with the Session's bindings from which something may yet come.
func (s *sessionConn) eachBinding(f func(*sessionBinding)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.replacement.Load()
	for id, b := range s.routes.Load().byActor {
		if !b.over() && (lost == nil || lost.actor.ID != id) {
			f(b)
		}
	}
}
