package node

import (
	"crypto/sha256"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file is how the requests and records of a source reach the move that they are about.

// digestOf tells requests for admission apart.
func digestOf(codec uint8, request []byte) [32]byte {
	h := sha256.New()
	h.Write([]byte{codec})
	h.Write(request)
	return [32]byte(h.Sum(nil))
}

// preparation returns the move that a request of the source is about, which begins with
// it if it is new: then its temporary queue is registered when this returns (RL-04, RL-25).
// Of two attempts the later one stays (RL-13). A nil one with a nil error: replaced has to
// end first. Called by the link's loop or a task.
func (l *linkConn) preparation(unit wire.Unit, ref *ActorRef, fence relay.Fence) (i *moveIn, replaced *moveIn, _ *Error) {
	n := l.node
	if n.stopping.Load() {
		return nil, nil, errStopping
	}
	if l.mesh != n.home {
		return nil, nil, fail(errkind.InvalidOperation, opMove, ref.ID, "objects of mesh %q do not live here", l.mesh.cfg.Name)
	}
	if !n.mayAct(n.lately()) {
		return nil, nil, errNotOwner
	}
	if _, gone := n.moves.gone.LoadBytes(fence.Relocation[:]); gone {
		return nil, nil, errMoveGone.of(opMove, ref.ID)
	}
	var err *Error
	n.moves.preparing.Update(ref.ID, func(have *moveIn, present bool) (*moveIn, bool) {
		if present {
			have.mu.Lock()
			verdict := relay.Judge(have.fence, fence, have.commits)
			have.mu.Unlock()
			switch verdict {
			case relay.Same:
				if i = have; have.unit != unit || have.of != nil {
					i, err = nil, fail(errkind.ProtocolError, opMove, ref.ID, "the same attempt was asked for as another kind of move")
				}
			case relay.Replace:
				replaced = have
			case relay.Forged:
				err = fail(errkind.ProtocolError, opMove, ref.ID, "the same attempt was asked for with other contents")
			default:
				err = fail(errkind.Unavailable, opMove, ref.ID, "another attempt to move it here is under way")
			}
			return have, true
		}
		if came := l.movingIn((*[16]byte)(&fence.Relocation), fence.Attempt); came != nil && came.of == nil && came.queue.cell.Load().ref.ID == ref.ID {
			i = came // it is here, of which its source has not heard
			return nil, false
		}
		i = l.prepare(unit, ref, fence)
		return i, true
	})
	if i != nil && i.begin() {
		if !n.tasks.Go(i.run) {
			return nil, nil, errStopping
		}
		if n.stopping.Load() { // looked at after it is in the table, which a shutdown looks through
			i.tell(relay.TargetEvent{Is: relay.TargetStopping})
		}
	}
	if replaced != nil {
		replaced.tell(relay.TargetEvent{Is: relay.TargetAborted})
	}
	return i, replaced, err
}

// prepare registers the temporary queue of a new attempt.
func (l *linkConn) prepare(unit wire.Unit, ref *ActorRef, fence relay.Fence) *moveIn {
	n := l.node
	failpoint.Hit("R02.before")
	i := &moveIn{
		node: n, unit: unit, id: moveID{fence.Relocation, fence.Attempt}, from: l.process(), fence: fence, progress: relay.ProgressAssembling,
		began: clock.Now(), over: make(chan struct{}),
		events: newInbox(func(last, e *relay.TargetEvent) bool { return e.Is == relay.TargetRelayed && last.Is == e.Is }),
	}
	i.until.Store(int64(clock.Never))
	here := ActorRef{ID: ref.ID, ObjectGen: ref.ObjectGen, Lifecycle: n.id.Lifecycle, OwnerGen: ref.OwnerGen + 1}
	i.queue = &incoming{id: i.id, from: i.from, ownerGen: here.OwnerGen}
	i.cell = n.cellWith(untyped[unit], here, i.queue, nil)
	if unit == wire.UnitInstance {
		i.cell.entrance = new(entrance)
	}
	i.queue.cell.Store(i.cell)
	i.cell.tenure.Store(arriving)
	n.moves.in.Store(i.id.key(), i)
	n.actors.Update(ref.ID, func(now *objectCell, present bool) (*objectCell, bool) {
		if present { // it was here before, and what comes for it follows it
			return now, true
		}
		if unit.IsSpot() {
			n.spots.Add(1)
		}
		return i.cell, true
	})
	failpoint.Hit("R02.after")
	return i
}

// begin reports whether the task is to be started.
func (i *moveIn) begin() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.whole != nil {
		return false
	}
	i.whole = make(chan struct{})
	return true
}

// joinAdmit takes the question of a source whether its object may come.
func (l *linkConn) joinAdmit(a *wire.JoinAdmit, paid uint32) {
	ref, deadline := refFromWire(&a.Ref), deadlineAfter(a.DeadlineMS)
	fence := relay.Fence{
		ID: ref.ID, ObjectGen: store.ObjectGen(ref.ObjectGen), OwnerGen: store.OwnerGen(ref.OwnerGen), Version: store.Version(a.StoreVersion),
		Relocation: a.Relocation, Attempt: a.Attempt,
	}
	ask := relay.Ask{Fence: fence, SpotID: string(a.SpotID), Request: digestOf(a.Codec, a.Request)}
	unit, corr, op, codec, request := a.Unit, a.Correlation, store.OpID(a.Op), a.Codec, append([]byte{}, a.Request...)
	l.consumed(int(paid))
	if n := l.node; n.relocates() {
		if _, comes := n.moves.preparing.Load(ref.ID); !comes { // its source has yet to reserve the move, which the Store would refuse
			l.sendError(corr, errRelocatingThere)
			return
		}
	}
	l.prepared(unit, &ref, fence, corr, func(i *moveIn) {
		i.mu.Lock()
		if l.gone.Load() { // it is asked by a later link, or was
			i.mu.Unlock()
			return
		}
		i.asked, i.request, i.codec, i.op, i.spotID, i.member = waiting{l, corr}, request, codec, op, ask.SpotID, !unit.IsSpot()
		i.mu.Unlock()
		i.tell(relay.TargetEvent{Is: relay.TargetAsked, Ask: ask, Deadline: deadline, MayAct: true})
		select {
		case <-i.over: // while this was on its way
			if to := i.waiting(&i.asked); to.link != nil {
				to.link.sendError(to.corr, errMoveGone)
			}
		default:
		}
	})
}

// restore takes the request of a source to take its object over.
func (l *linkConn) restore(r *wire.Restore) {
	failpoint.Hit("R05.T.before")
	ref, deadline, now := refFromWire(&r.Ref), deadlineAfter(r.DeadlineMS), clock.Now()
	want := relay.Restore{
		Move: store.MoveRef{
			ID: ref.ID, ObjectGen: store.ObjectGen(ref.ObjectGen), Version: store.Version(r.StoreVersion), Relocation: r.Relocation,
			Attempt: r.Attempt, Epoch: store.Epoch(r.Epoch), SpotID: string(r.SpotID), MoveSpotID: string(r.TargetSpotID),
		},
		OwnerGen: store.OwnerGen(ref.OwnerGen), SourceOwnerID: string(r.SourceOwnerID), SourceLease: store.LeaseGen(r.SourceLease),
		InUserSpot: r.InUserSpot, Asked: asked(r.Unit, r.InUserSpot), Quiet: r.Unit == wire.UnitActor, Root: r.Root,
		Payload: relay.Payload{Bytes: r.Manifest.Total, Chunks: r.Manifest.Chunks, CRC: r.Manifest.CRC},
	}
	unit, corr, op := r.Unit, r.Correlation, store.OpID(r.Op)
	manifest := chunker.Manifest{
		Total: r.Manifest.Total, Raw: r.Manifest.Raw, ChunkBytes: r.Manifest.ChunkBytes, Chunks: r.Manifest.Chunks, CRC: r.Manifest.CRC,
		Compression: chunker.Compression(r.Manifest.Compression),
	}
	l.prepared(unit, &ref, want.Fence(), corr, func(i *moveIn) {
		i.mu.Lock()
		if l.gone.Load() { // as in joinAdmit
			i.mu.Unlock()
			return
		}
		if i.sent == 0 {
			i.sent = now
		}
		i.restores, i.op, i.spotID, i.member, i.epoch, i.root = waiting{l, corr}, op, want.Move.MoveSpotID, want.InUserSpot, want.Move.Epoch, want.Root
		if i.payload == nil && i.progress == relay.ProgressAssembling {
			var err error
			i.payload, err = chunker.NewIncoming(manifest, chunker.Limits{ChunkBytes: chunker.ChunkMax})
			i.came(err)
		}
		i.mu.Unlock()
		i.tell(relay.TargetEvent{Is: relay.TargetRestoring, Restore: want, Deadline: deadline, MayAct: true})
		i.answer(l)
		select {
		case <-i.over:
			i.answerLate()
		default:
		}
		failpoint.Hit("R05.T.after")
	})
}

// prepared gives f the preparation, once one that it replaces has ended, or answers.
func (l *linkConn) prepared(unit wire.Unit, ref *ActorRef, fence relay.Fence, corr uint64, f func(*moveIn)) {
	i, replaced, err := l.preparation(unit, ref, fence)
	switch {
	case err != nil:
		l.sendError(corr, err)
	case replaced == nil:
		f(i)
	default:
		kept := *ref
		if started := l.node.background(func() {
			<-replaced.over
			l.prepared(unit, &kept, fence, corr, f)
		}); started != nil {
			l.sendError(corr, started)
		}
	}
}

// placing is a chunk that a link reads straight into its payload.
type placing struct {
	move *moveIn
	into *chunker.Incoming
	crc  uint32
}

// Place implements engine.Placer: for chunks of a payload that is assembled here.
func (h *linkHandler) Place(c *engine.Conn, prefix []byte, size int) (dst []byte, skip int) {
	l := c.Data().(*linkConn)
	head, ok := wire.PeekStateChunk(prefix)
	if !ok || l.shake != nil {
		return nil, 0
	}
	i := l.movingIn(&head.Relocation, head.Attempt)
	if i == nil {
		return nil, 0
	}
	if dst = i.claim(l, &head, size-wire.StateChunkHead); dst == nil {
		return nil, 0
	}
	return dst, wire.StateChunkHead
}

// OnPlaced implements engine.Placer.
func (h *linkHandler) OnPlaced(c *engine.Conn, _, _ []byte) error {
	l := c.Data().(*linkConn)
	p := l.placing
	l.placing = placing{}
	p.move.placed(l, &p)
	return nil
}

// claim returns the place of a chunk, or nil if it has none.
func (i *moveIn) claim(l *linkConn, c *wire.StateChunk, n int) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.payload == nil || i.broken != nil || i.filling {
		return nil
	}
	place, err := i.payload.Claim(c.Index, n)
	if err != nil || place == nil {
		return nil // see chunk
	}
	i.filling = true
	l.placing = placing{i, i.payload, c.CRC}
	return place
}

// placed ends a chunk that came, or with a nil link one that did not.
func (i *moveIn) placed(l *linkConn, p *placing) {
	i.mu.Lock()
	i.filling = false
	if i.payload != p.into { // it was dropped meanwhile
		p.into.Free()
		i.mu.Unlock()
		return
	}
	if l != nil {
		i.came(p.into.Commit(p.crc))
	}
	i.mu.Unlock()
	if l != nil {
		i.acknowledge(l)
	}
}

// chunk takes a chunk that has no place of its own: one that is small, or broken, or was
// there before.
func (i *moveIn) chunk(l *linkConn, c *wire.StateChunk) {
	i.mu.Lock()
	switch {
	case i.filling: // over an older link; all of that comes before this one's
		i.mu.Unlock()
		l.conn.Abort(engine.CloseReason{Code: engine.ProtocolError, Text: "a chunk came while the link before was read"})
		return
	case i.payload == nil || i.broken != nil:
		i.mu.Unlock()
		return
	}
	_, err := i.payload.Add(c.Index, c.CRC, c.Payload)
	i.came(err)
	i.mu.Unlock()
	i.acknowledge(l)
}

// came looks at the payload behind each chunk. Under mu.
func (i *moveIn) came(err error) {
	if err != nil {
		i.broken = err
	}
	if err != nil || i.payload.Done() {
		i.finish()
	}
}

// acknowledge tells the source how many chunks there are.
func (i *moveIn) acknowledge(l *linkConn) {
	i.mu.Lock()
	p := wire.MoveProgress{Relocation: i.id.relocation, Attempt: i.id.attempt, State: wire.ProgressAssembling}
	if i.payload != nil {
		p.Chunks = i.payload.Received()
	}
	l.sendControl(&p) // under mu, so that it is before the answer to a restore that has failed
	i.mu.Unlock()
}

// freePayload drops what was assembled. Under mu.
func (i *moveIn) freePayload() {
	if i.payload != nil && !i.filling { // else placed frees it
		i.payload.Free()
	}
	i.payload = nil
}

// finish says that the payload is whole or broken. Under mu.
func (i *moveIn) finish() {
	select {
	case <-i.whole:
	default:
		close(i.whole)
	}
}

// answer tells the source how far the move is.
func (i *moveIn) answer(l *linkConn) {
	d := i.decides()
	d.mu.Lock()
	progress := d.progress
	d.mu.Unlock()
	switch progress {
	case relay.ProgressAssembling:
		i.acknowledge(l)
	case relay.ProgressGone:
		l.sendControl(&wire.MoveProgress{Relocation: i.id.relocation, Attempt: i.id.attempt, State: wire.ProgressGone})
	default:
		i.queue.cell.Load().step(func(t *turn) {
			if t.refused == nil {
				i.queue.acknowledge(l)
			}
		})
		if left := i.left.Load(); left != nil {
			l.sendControl(left)
		}
	}
}

// aborted is told that the move is off or, if it has ended here, that the source relays
// nothing more.
func (i *moveIn) aborted() {
	select {
	case <-i.over:
		i.node.moves.in.Delete(i.id.key())
	default:
		i.tell(relay.TargetEvent{Is: relay.TargetAborted})
	}
}

// cutover takes the boundary, behind what was relayed before it.
func (i *moveIn) cutover(l *linkConn, c *wire.Cutover) {
	told := *c
	m := controlMessage(func(t *turn) {
		if t.refused == nil && i.queue.cutover(l, &told) {
			i.cutOver()
		}
	})
	m.packet = relayPacket
	i.queue.cell.Load().box.PushControl(m)
}

// tell brings an event to the task. Of relayed messages one is enough. What an aggregate is told
// of a part of it that is not told of all concerns all.
func (i *moveIn) tell(e relay.TargetEvent) {
	switch d := i.decides(); {
	case d == i:
		i.events.put(e)
	case e.Is == relay.TargetRelayed, e.Is == relay.TargetAborted:
		d.tell(e)
	}
}

// ends takes what ends the move from the events: who has heard it during an effect does
// not go on by what that gave.
func (i *moveIn) ends() []relay.TargetEvent {
	return i.events.takeAll(func(e *relay.TargetEvent) bool { return e.Is == relay.TargetStopping || e.Is == relay.TargetAborted })
}

// cellWith makes a cell with a consumer of its own, and with a mailbox that there is or a
// new one.
func (n *Node) cellWith(t *ObjectType, ref ActorRef, consumer mailbox.Consumer[message], box *mailbox.Mailbox[message]) *objectCell {
	ref.Mesh, ref.RID = n.home.cfg.Name, n.cfg.RID // the same strings for all objects
	c := &objectCell{node: n, typ: t, ref: ref, stored: true, box: box}
	c.context.cell, c.current = c, consumer
	if t.Kind != store.Actor {
		c.news = &spotNews{}
	}
	if box == nil {
		c.box = mailbox.New[message](n.pool, consumer, n.queueLimits())
	}
	return c
}
