package node

import (
	"context"
	"time"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// receive takes one record of an admitted peer, on the link's loop. An error
// closes the link: a peer that breaks the format or its credit cannot be trusted
// with the rest of the stream.
func (l *linkConn) receive(record []byte, owner *buf.Buf) error {
	cmd, flags, body, err := wire.Header(record)
	if err != nil {
		return err
	}
	info, _ := cmd.Info()
	if !info.After {
		return &engine.CloseError{Reason: engine.CloseReason{Code: engine.ProtocolError, Text: cmd.String() + " record on an open link"}}
	}
	if !l.mesh.side.takes(cmd) {
		return &engine.CloseError{Reason: engine.CloseReason{Code: engine.ProtocolError, Text: cmd.String() + " record on a connection of a channel, from its " + l.mesh.side.other()}}
	}
	var paid uint32
	if info.Credited {
		if err := l.returns.Received(len(record)); err != nil {
			return err
		}
		paid = uint32(len(record))
	}
	if handled, err := l.moveRecord(cmd, flags, body, owner, paid); handled {
		return err
	}
	switch cmd {
	case wire.CmdActorSend:
		m, err := wire.DecodeActorSend(flags, body)
		if err != nil {
			return err
		}
		l.actorMessage(&m, owner, paid)
	case wire.CmdActorRequest:
		m, err := wire.DecodeActorRequest(flags, body)
		if err != nil {
			return err
		}
		l.actorMessage(&m, owner, paid)
	case wire.CmdReply:
		r, err := wire.DecodeReply(body)
		if err != nil {
			return err
		}
		l.completed(r.Correlation, result{codec: r.Codec, payload: r.Payload, owner: owner.Ref(), from: l})
	case wire.CmdError:
		r, err := wire.DecodeErrorReply(flags, body)
		if err != nil {
			return err
		}
		l.completed(r.Correlation, result{err: &Error{Kind: errkind.Kind(r.Kind), Text: string(r.Text), stale: r.Stale, application: r.Application}, from: l})
	case wire.CmdNodeMessage:
		m, err := wire.DecodeNodeMessage(flags, body)
		if err != nil {
			return err
		}
		if !l.mesh.carries(m.Channel) {
			return errOtherChannel
		}
		l.nodeMessage(&m, owner, paid)
	case wire.CmdOffer:
		o, err := wire.DecodeOffer(body)
		if err != nil {
			return err
		}
		if !l.mesh.channels.offered(l, &o) {
			return errOtherChannel
		}
	case wire.CmdRouteStale:
		r, err := wire.DecodeRouteStale(body)
		if err != nil {
			return err
		}
		l.node.routes.stale(&r, l)
	case wire.CmdInstance:
		m, err := wire.DecodeInstanceMessage(flags, body)
		if err != nil {
			return err
		}
		l.instanceMessage(&m, owner, paid)
	case wire.CmdSessionPacket:
		p, err := wire.DecodeSessionPacket(flags, body)
		if err != nil {
			return err
		}
		l.sessionPacket(&p, owner, paid)
	case wire.CmdPush:
		p, err := wire.DecodePush(flags, body)
		if err != nil {
			return err
		}
		l.push(&p)
		l.consumed(int(paid))
	case wire.CmdPressure:
		p, err := wire.DecodePressure(body)
		if err != nil {
			return err
		}
		l.pressure(&p)
	case wire.CmdSessionReconnecting:
		r, err := wire.DecodeSessionReconnecting(body)
		if err != nil {
			return err
		}
		l.clientAway(&r)
	case wire.CmdInterest:
		i, err := wire.DecodeInterest(flags, body)
		if err != nil {
			return err
		}
		return l.interested(&i)
	case wire.CmdPublish:
		p, err := wire.DecodePublish(body)
		if err != nil {
			return err
		}
		l.publish(&p, paid)
	case wire.CmdBind:
		b, err := wire.DecodeBind(flags, body)
		if err != nil {
			return err
		}
		l.bind(&b)
	case wire.CmdUnbind:
		u, err := wire.DecodeUnbind(flags, body)
		if err != nil {
			return err
		}
		l.unbind(&u)
	case wire.CmdActorCreate:
		c, err := wire.DecodeActorCreate(body)
		if err != nil {
			return err
		}
		l.create(store.Actor, &c)
	case wire.CmdUserSpotCreate:
		c, err := wire.DecodeUserSpotCreate(body)
		if err != nil {
			return err
		}
		l.create(store.UserSpot, (*wire.ActorCreate)(&c))
	case wire.CmdUserSpotClose:
		c, err := wire.DecodeUserSpotClose(body)
		if err != nil {
			return err
		}
		l.closeSpot(&c)
	case wire.CmdActorDestroy:
		d, err := wire.DecodeActorDestroy(body)
		if err != nil {
			return err
		}
		l.destroy(&d)
	default:
		if handled, err := l.bindingRecord(cmd, body); handled {
			return err
		}
		if handled, err := l.sessionMoveRecord(cmd, flags, body); handled {
			return err
		}
		return l.linkRecord(cmd, body)
	}
	return nil
}

// linkRecord takes what concerns the link itself.
func (l *linkConn) linkRecord(cmd wire.Command, body []byte) error {
	switch cmd {
	case wire.CmdProbe:
		p, err := wire.DecodeProbe(body)
		if err != nil {
			return err
		}
		l.liveStep(clock.Now(), link.LiveEvent{Kind: link.LiveProbed, ID: p.ID})
	case wire.CmdAck:
		a, err := wire.DecodeAck(body)
		if err != nil {
			return err
		}
		l.liveStep(clock.Now(), link.LiveEvent{Kind: link.LiveAcked, ID: a.ID})
	case wire.CmdCredit:
		c, err := wire.DecodeCredit(body)
		if err != nil {
			return err
		}
		return l.gate.Give(c.Bytes)
	case wire.CmdGoodbye:
		g, err := wire.DecodeGoodbye(body)
		if err != nil {
			return err
		}
		l.bye = g.Reason.String()
		l.conn.Close(engine.CloseReason{Code: engine.PeerClosed, Text: "the peer said goodbye: " + l.bye})
	case wire.CmdReject:
		r, err := wire.DecodeReject(body)
		if err != nil {
			return err
		}
		l.bye = "rejected: " + r.Reason.String()
		l.conn.Close(engine.CloseReason{Code: engine.Rejected, Text: r.Reason.String()})
	default:
		return &engine.CloseError{Reason: engine.CloseReason{Code: engine.ProtocolError, Text: cmd.String() + " record is not understood"}}
	}
	return nil
}

func (l *linkConn) completed(corr uint64, r result) {
	if !l.pending.complete(corr, r) {
		l.node.counters.lateReplies.Add(1)
	}
}

// actorMessage admits a message for an Actor or Spot of this node.
func (l *linkConn) actorMessage(a *wire.ActorMessage, owner *buf.Buf, paid uint32) {
	s := sender{kind: msgSend, link: l, paid: paid, corr: a.Correlation}
	if a.Correlation != 0 {
		s.kind = msgRequest
	}
	o := Outgoing{Name: buf.View(a.Name), Codec: a.Codec, Metadata: a.Metadata, Payload: a.Payload}
	l.admit(a.ID, a.OwnerGen, s, &o, a.DeadlineMS, &arrival{owner: owner, toSpot: a.Spot, objGen: a.ObjGen})
}

func (l *linkConn) sessionPacket(p *wire.SessionPacket, owner *buf.Buf, paid uint32) {
	s := sender{kind: msgSessionSend, link: l, paid: paid, corr: p.Correlation}
	if p.Correlation != 0 {
		s.kind = msgSessionRequest
	}
	o := Outgoing{Name: buf.View(p.Name), Codec: p.Codec, Metadata: p.Metadata, Payload: p.Payload}
	l.admit(p.ID, 0, s, &o, p.DeadlineMS, &arrival{
		owner: owner, objGen: p.ObjGen, session: bindingKey{link: l, session: p.Session, gen: p.BindingGen},
	})
}

// admit puts a message of this link into its object's mailbox, or refuses it.
// ownerGen is that of the route that it took.
func (l *linkConn) admit(id []byte, ownerGen uint64, s sender, o *Outgoing, deadlineMS uint32, a *arrival) {
	cell, ok := l.node.actors.LoadBytes(id)
	var err *Error
	switch {
	case l.node.stopping.Load():
		err = errStopping
	case !l.node.mayAct(l.node.lately()):
		err = errNotOwner
	case !ok || l.mesh != l.node.home: // the key of a mesh opens the way to its own objects
		if err = errNotHere; s.kind == msgSend {
			l.sendControl(&wire.RouteStale{ID: id, OwnerGen: ownerGen})
		}
	default:
		err = cell.arrive(s, o, deadlineAfter(deadlineMS), a)
	}
	if err != nil {
		s.refuse(l.node, err)
		s.giveBack()
	}
}

// deadlineAfter turns what is left of a deadline into a local one.
func deadlineAfter(ms uint32) clock.Mono {
	if ms == 0 {
		return clock.Never
	}
	return clock.Now().Add(milliseconds(ms))
}

// create runs a creation that the peer reserved for this node.
func (l *linkConn) create(kind store.Kind, c *wire.ActorCreate) {
	job := creation.Job{
		Op: store.OperationKey{SourceRID: l.peer.RID, SourceLifecycle: store.LeaseGen(c.SourceLifecycle), Op: c.Op},
		ID: string(c.ID), Type: string(c.Type), Kind: kind, ObjGen: store.ObjectGen(c.ObjGen), Version: store.Version(c.StoreVersion),
		Deadline: deadlineAfter(c.DeadlineMS),
	}
	waits := c.SourceLifecycle == l.peer.Lifecycle
	corr := c.Correlation
	if c.TargetLifecycle != uint64(l.node.lifecycle()) || l.mesh != l.node.home {
		l.sendError(corr, errNotHere)
		return
	}
	started := l.node.background(func() {
		result, err := l.node.runCreation(job, waits)
		if err != nil {
			l.sendError(corr, err)
			return
		}
		told := toWireResult(&result)
		l.sendReply(corr, 0, told.AppendTo(nil))
	})
	if started != nil {
		l.sendError(corr, started)
	}
}

// destroy ends an Actor of this node for the peer.
func (l *linkConn) destroy(d *wire.ActorDestroy) {
	ref, op := refFromWire(&d.Ref), store.OpID(d.Op)
	l.endObject(d.Correlation, clock.Now().Add(finishTime), func(ctx context.Context) (bool, *Error) {
		return l.node.destroyHere(ctx, ref, op)
	})
}

// closeSpot closes a User Spot of this node for the peer.
func (l *linkConn) closeSpot(c *wire.UserSpotClose) {
	k := spotClose{
		ref: refFromWire(&c.Ref), version: store.Version(c.StoreVersion), op: c.Op, deadline: deadlineAfter(c.DeadlineMS),
	}
	l.endObject(c.Correlation, k.deadline, func(ctx context.Context) (bool, *Error) { return l.node.closeHere(ctx, k) })
}

// endObject waits for an object's end until the deadline and tells the peer.
func (l *linkConn) endObject(corr uint64, deadline clock.Mono, end func(context.Context) (bool, *Error)) {
	if l.mesh != l.node.home {
		l.sendError(corr, errNotHere)
		return
	}
	started := l.node.background(func() {
		ctx, cancel := context.WithDeadline(l.node.life, deadline.Time())
		defer cancel()
		if full := l.node.destroys.enter(ctx, deadlineOf(ctx)); full != nil {
			l.sendError(corr, full)
			return
		}
		defer l.node.destroys.leave()
		destroyed, err := end(ctx)
		if err != nil {
			l.sendError(corr, err)
			return
		}
		l.sendControl(&wire.Reply{Correlation: corr, Payload: wire.AppendDestroyResult(nil, destroyed)})
	})
	if started != nil {
		l.sendError(corr, started)
	}
}

func milliseconds(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }
