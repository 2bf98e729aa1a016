package node

import (
	"context"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/wire"
)

// This file is what a bound Actor's owners, the old and the new one, tell the owner of the
// Session, and the records in which they do.

const opMoveSession = "move session"

// sealBinding has the Session's owner hold back what its client sends to the Actor, for
// the move with that id. When it returns bound, no packet of the binding comes any more:
// all have been put into the Actor's mailbox. sealedAt is no later than the time from
// which the Session's owner counts.
//
// b is a copy that was taken under the Actor's claim. Not bound and no error: the Session
// or the way to its owner is gone, and the client with it. On an error the move must not go
// on, and abortBinding must follow: the answer may have been lost.
func (n *Node) sealBinding(ctx context.Context, cell *objectCell, b binding, relocation [16]byte) (sealedAt clock.Mono, bound bool, err *Error) {
	if !b.stands() {
		return 0, false, nil
	}
	sealedAt = clock.Now()
	done := make(chan *Error, 1)
	if l := b.key.link; l == nil {
		n.seal(&sealing{key: b.key, id: cell.ref.ID, objGen: cell.ref.ObjectGen, ownerGen: cell.ref.OwnerGen, relocation: relocation},
			func(err *Error) { done <- err })
	} else if corr, full := l.pending.add(completeFunc(func(r result) { done <- r.err }), 0); full != nil {
		done <- full
	} else {
		defer l.pending.take(corr) // nobody waits any more
		l.sendControl(&wire.SessionSeal{
			Correlation: corr, Relocation: relocation, Session: b.key.session, BindingGen: b.key.gen,
			ID: []byte(cell.ref.ID), ObjGen: cell.ref.ObjectGen, OwnerGen: cell.ref.OwnerGen,
		})
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fromContext(ctx, "", "")
	}
	switch {
	case err == nil:
		return sealedAt, b.stands(), nil
	case !b.stands() || err.Kind == errkind.NotFound:
		return 0, false, nil
	}
	return 0, true, err.of(opMoveSession, cell.ref.ID)
}

// drained tells the Session's owner that this node pushes nothing more for the Actor. It
// is called under the Actor's claim, behind its last push.
func (n *Node) drained(b binding, relocation [16]byte, ref ActorRef) {
	switch {
	case !b.stands():
	case b.local != nil:
		n.sourceDrained(&sealing{key: b.key, id: ref.ID, objGen: ref.ObjectGen, relocation: relocation})
	default:
		b.key.link.sendControl(&wire.SourceDrained{
			Relocation: relocation, Session: b.key.session, BindingGen: b.key.gen, ID: []byte(ref.ID), ObjGen: ref.ObjectGen,
		})
	}
}

// adopt makes the binding of an Actor that comes here with it. Before anything of the
// Actor runs it is to be its binding. NotFound: the Session is over, and its end is to be
// told like that of any binding. Unavailable: this node has no link to the Session's.
func (n *Node) adopt(m *wire.MovedBinding) (binding, *Error) {
	b := binding{key: bindingKey{session: m.Session, gen: m.BindingGen}}
	if n.isSelf(&m.Owner) {
		if b.local = n.session(m.Session); b.local == nil {
			return binding{}, errBindingOver.of(opMoveSession, "")
		}
		return b, nil
	}
	if b.key.link = n.home.links.to(string(m.Owner.RID), m.Owner.Lifecycle); b.key.link == nil {
		return binding{}, errNoLink(opMoveSession, "", string(m.Owner.RID))
	}
	return b, nil
}

func (n *Node) isSelf(p *wire.Process) bool {
	return string(p.RID) == n.cfg.RID && p.Lifecycle == n.id.Lifecycle
}

// commitBinding tells the Session's owner that the Actor is here now, as ref. The Actor is
// in the object table and its queue takes messages. What the Actor pushes comes behind it.
func (n *Node) commitBinding(b binding, relocation [16]byte, ref ActorRef) {
	failpoint.Hit("R15.before")
	n.endSeal(b, wire.SessionRelocationRoute{Commit: true, Relocation: relocation, Ref: wireRef(ref)})
	failpoint.Hit("R15.after")
}

// abortBinding tells the Session's owner that the Actor stays here, as ref. Its queue takes
// messages again.
func (n *Node) abortBinding(b binding, relocation [16]byte, ref ActorRef) {
	n.endSeal(b, wire.SessionRelocationRoute{Relocation: relocation, Ref: wireRef(ref)})
}

func (n *Node) endSeal(b binding, m wire.SessionRelocationRoute) {
	if !b.stands() {
		return
	}
	m.Session, m.BindingGen = b.key.session, b.key.gen
	if l := b.key.link; l != nil {
		m.Owner = l.process().wire()
		l.sendControl(&m)
		return
	}
	if cell, ok := n.actors.LoadBytes(m.Ref.ID); ok {
		n.moveEnded(nil, cell, &m)
	}
}

// sessionMoveRecord takes what concerns a binding whose Actor moves; handled is false for
// other records.
func (l *linkConn) sessionMoveRecord(cmd wire.Command, flags uint8, body []byte) (handled bool, err error) {
	switch cmd {
	case wire.CmdSessionSeal:
		r, err := wire.DecodeSessionSeal(body)
		if err != nil {
			return true, err
		}
		l.sessionSeal(&r)
	case wire.CmdSessionSealed:
		r, err := wire.DecodeSessionSealed(body)
		if err != nil {
			return true, err
		}
		l.completed(r.Correlation, result{from: l})
	case wire.CmdSourceDrained:
		r, err := wire.DecodeSourceDrained(body)
		if err != nil {
			return true, err
		}
		l.node.sourceDrained(&sealing{
			key: bindingKey{link: l, session: r.Session, gen: r.BindingGen}, id: string(r.ID), objGen: r.ObjGen, relocation: r.Relocation,
		})
	case wire.CmdSessionRelocationRoute:
		r, err := wire.DecodeSessionRelocationRoute(flags, body)
		if err != nil {
			return true, err
		}
		l.sessionRoute(&r)
	default:
		return false, nil
	}
	return true, nil
}

func (l *linkConn) sessionSeal(r *wire.SessionSeal) {
	m := &sealing{
		key: bindingKey{link: l, session: r.Session, gen: r.BindingGen}, id: string(r.ID),
		objGen: r.ObjGen, ownerGen: r.OwnerGen, relocation: r.Relocation,
	}
	corr := r.Correlation
	l.node.seal(m, func(err *Error) {
		if err != nil {
			l.sendError(corr, err)
			return
		}
		l.sendControl(&wire.SessionSealed{Correlation: corr})
	})
}

// sessionRoute takes the end of a move from the node at which the Actor is. It says so of
// itself only, and to the process of this node that has the Session.
func (l *linkConn) sessionRoute(r *wire.SessionRelocationRoute) {
	if !l.node.isSelf(&r.Owner) || string(r.Ref.RID) != l.peer.RID || r.Ref.Lifecycle != l.peer.Lifecycle {
		l.node.updateIgnored(r.Session, string(r.Ref.ID), "it is about another node, or to another")
		return
	}
	l.node.moveEnded(l, nil, r)
}
