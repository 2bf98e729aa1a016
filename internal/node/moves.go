package node

import (
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

const opMove = "move"

// moves are the objects that go from this node or come to it, by the id of their move.
type moves struct {
	out *cmap.Map[*moveOut]
	in  *cmap.Map[*moveIn]
	// preparing has what comes by the object's id, of which there is one at a time (RL-13).
	preparing *cmap.Map[*moveIn]
	// gone has the moves that never become this node's, until the given time: a source that
	// was told so has taken its object back.
	gone *cmap.Map[clock.Mono]
}

func newMoves() moves {
	return moves{out: cmap.New[*moveOut](), in: cmap.New[*moveIn](), preparing: cmap.New[*moveIn](), gone: cmap.New[clock.Mono]()}
}

// moveTiming is how long the machines of package relay wait.
func (n *Node) moveTiming() relay.Timing {
	return relay.Timing{
		Wait: createWaitMin, WaitMax: createWaitMax, Settle: settleWaitMax, CutoverWait: n.cfg.RelocationCutoverWaitTimeout,
		SealTimeout: n.cfg.SessionRelocationSealTimeout, Validity: n.cfg.MoveValidity, Prepared: preparedMin, Insist: insistMin,
	}
}

// relayedUntil returns for how long a target knows a move that came: its source may not have
// learnt of the commit before the validity's end, and relays for its follow time then. All
// nodes have the same one.
func (n *Node) relayedUntil() clock.Mono {
	return clock.Now().Add(n.cfg.MoveValidity + 2*n.cfg.MessageFollowDuration + followSlack)
}

// gives reports whether the move is noted as one that never becomes this node's, or could
// be.
func (m *moves) gives(relocation *[16]byte, until clock.Mono) bool {
	if m.gone.Len() >= movesGoneMax {
		_, there := m.gone.LoadBytes(relocation[:])
		return there
	}
	m.gone.Store(string(relocation[:]), until)
	return true
}

// inStep runs f in a step of an Actor that moves, whose messages wait meanwhile, and waits
// for its end.
func (c *objectCell) inStep(f func(*turn) *Error) *Error {
	life := c.node.life
	err := c.await(life, c.step, opMove, f)
	if err != nil && life.Err() != nil {
		return errStopping
	}
	return err
}

// mayActIn reports whether this process may act, and knows of no later epoch than the one in
// which a move was reserved: nothing of it would apply any more.
func (n *Node) mayActIn(epoch store.Epoch) bool {
	return n.mayAct(clock.Now()) && store.Epoch(n.known.Load()) <= epoch
}

func (id *moveID) key() string { return string(id.relocation[:]) }

// movingOut returns the move from here that a peer speaks of, or nil.
func (l *linkConn) movingOut(relocation *[16]byte, attempt uint32) *moveOut {
	o, ok := l.node.moves.out.LoadBytes(relocation[:])
	if !ok || o.id.attempt != attempt || o.to != l.process() || l.mesh != l.node.home {
		return nil
	}
	return o
}

// movingIn returns the move to here that a peer speaks of, or nil.
func (l *linkConn) movingIn(relocation *[16]byte, attempt uint32) *moveIn {
	i, ok := l.node.moves.in.LoadBytes(relocation[:])
	if !ok || i.id.attempt != attempt || i.from != l.process() || l.mesh != l.node.home {
		return nil
	}
	return i
}

// moveRecord takes what concerns a move; handled is false for other records.
func (l *linkConn) moveRecord(cmd wire.Command, flags uint8, body []byte, owner *buf.Buf, paid uint32) (handled bool, err error) {
	switch cmd {
	case wire.CmdJoinAdmit:
		a, err := wire.DecodeJoinAdmit(body)
		if err != nil {
			return true, err
		}
		l.joinAdmit(&a, paid)
	case wire.CmdRestore:
		r, err := wire.DecodeRestore(flags, body)
		if err != nil {
			return true, err
		}
		l.restore(&r)
	case wire.CmdStateChunk:
		c, err := wire.DecodeStateChunk(body)
		if err != nil {
			return true, err
		}
		if i := l.movingIn(&c.Relocation, c.Attempt); i != nil { // else the attempt is over (RL-13)
			i.chunk(l, &c)
		}
	case wire.CmdMoveProgress:
		p, err := wire.DecodeMoveProgress(body)
		if err != nil {
			return true, err
		}
		if o := l.movingOut(&p.Relocation, p.Attempt); o != nil {
			o.progress(l, &p)
		}
	case wire.CmdMoveAsk:
		a, err := wire.DecodeMoveAsk(body)
		if err != nil {
			return true, err
		}
		l.moveAsk(&a)
	case wire.CmdRelay:
		r, err := wire.DecodeRelay(body)
		if err != nil {
			return true, err
		}
		l.relayed(&r, body, owner, paid)
	case wire.CmdCutover:
		c, err := wire.DecodeCutover(body)
		if err != nil {
			return true, err
		}
		if i := l.movingIn(&c.Relocation, c.Attempt); i != nil {
			i.cutover(l, &c)
		}
	case wire.CmdMoveAbort:
		a, err := wire.DecodeMoveAbort(body)
		if err != nil {
			return true, err
		}
		if i := l.movingIn(&a.Relocation, a.Attempt); i != nil {
			i.aborted()
		}
	case wire.CmdActorLeft:
		a, err := wire.DecodeActorLeft(body)
		if err != nil {
			return true, err
		}
		if o := l.movingOut(&a.Relocation, a.Attempt); o != nil {
			o.actorLeft(&a)
		}
	case wire.CmdRelayedReply:
		r, err := wire.DecodeRelayedReply(flags, body)
		if err != nil {
			return true, err
		}
		l.relayedReply(&r, owner)
	case wire.CmdFollowNotice:
		f, err := wire.DecodeFollowNotice(body)
		if err != nil {
			return true, err
		}
		l.node.routes.moved(&f, l)
	default:
		return false, nil
	}
	return true, nil
}

// moveAsk tells the peer how far its move to here is.
func (l *linkConn) moveAsk(a *wire.MoveAsk) {
	if i := l.movingIn(&a.Relocation, a.Attempt); i != nil {
		i.answer(l)
		return
	}
	if l.node.moves.gives(&a.Relocation, l.node.relayedUntil()) { // else it asks again
		l.sendControl(&wire.MoveProgress{Relocation: a.Relocation, Attempt: a.Attempt, State: wire.ProgressGone})
	}
}

// relayed takes a message that the peer relays after its object.
func (l *linkConn) relayed(r *wire.Relay, body []byte, owner *buf.Buf, paid uint32) {
	if i := l.movingIn(&r.Relocation, r.Attempt); i != nil {
		i.tell(relay.TargetEvent{Is: relay.TargetRelayed})
		i.queue.take(l, r, body, paid, owner)
		return
	}
	l.consumed(int(paid)) // the peer has the original
	if l.node.moves.gives(&r.Relocation, l.node.relayedUntil()) {
		l.sendControl(&wire.MoveProgress{Relocation: r.Relocation, Attempt: r.Attempt, State: wire.ProgressGone})
	}
}

// linked is told of a new link: moves that wait for one to their peer go on.
func (n *Node) linked(l *linkConn) {
	if l.mesh != n.home {
		return
	}
	n.moves.out.Range(func(_ string, o *moveOut) bool {
		if o.to == l.process() {
			o.linked(l)
		}
		return true
	})
}

// passing returns how many Actors and Spots in the object table are another node's.
func (n *Node) passing() (actors, spots int) {
	look := func(c *objectCell, is uint32) {
		if now, ok := n.actors.Load(c.ref.ID); !ok || now != c || c.tenure.Load() != is {
			return
		}
		if c.typ.Kind == store.Actor {
			actors++
		} else {
			spots++
		}
	}
	n.moves.out.Range(func(_ string, o *moveOut) bool {
		look(o.cell, leaving)
		return true
	})
	n.moves.preparing.Range(func(_ string, i *moveIn) bool {
		look(i.queue.cell.Load(), arriving)
		return true
	})
	return actors, spots
}

// sweepMoves ends the follows that are over, and forgets moves whose source sends nothing
// any more.
func (n *Node) sweepMoves(now clock.Mono) {
	n.moves.out.Range(func(_ string, o *moveOut) bool {
		if now.Reached(clock.Mono(o.until.Load())) {
			o.forget(now)
		}
		if here, ok := n.actors.Load(o.cell.ref.ID); o.stranded.Load() && (!ok || here != o.cell) { // it was freed
			n.moves.out.Delete(o.id.key())
		}
		return true
	})
	n.moves.in.Range(func(key string, i *moveIn) bool {
		if now.Reached(clock.Mono(i.until.Load())) {
			n.moves.in.Delete(key)
		}
		return true
	})
	n.moves.gone.Range(func(key string, until clock.Mono) bool {
		if now.Reached(until) {
			n.moves.gone.Delete(key)
		}
		return true
	})
}
