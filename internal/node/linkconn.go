package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/topic"
	"github.com/zlnode/zlnode/internal/wire"
)

// handshake is either half of package link.
type handshake interface {
	Step(now clock.Mono, ev link.Event) error
	Effects(dst []link.Effect) []link.Effect
	NextDeadline() (clock.Mono, bool)
}

// linkConn is one connection to another node. Its event loop owns the cores;
// pending, gate, returns and the methods that send are for all goroutines.
type linkConn struct {
	node *Node
	mesh *mesh
	conn *engine.Conn
	dial *peer // nil: accepted
	// gone says that nothing comes by it any more: it is closed, or about to be replaced. It is
	// set before a link that takes its place opens.
	gone atomic.Bool
	// bound are the Actors here whose Session the peer has, by their ids.
	bound *cmap.Map[*objectCell]

	// Owned by the loop.
	shake    handshake // nil once admitted
	answered bool      // something came
	live     *link.Liveness
	effects  []link.Effect
	liveness []link.LiveEffect
	bye      string            // the peer's goodbye
	refused  wire.RejectReason // why the handshake ended, if one side refused the other
	gaveWay  bool              // to another connection to the same node
	ended    bool              // what hung on it has
	interest topic.Heard       // the topics that its node has subscribers to
	placing  placing           // the chunk that is being read

	opened clock.Mono // when it was published; before that 0

	// Set when the peer proved itself, before the link is in the table.
	peer     link.Peer
	gate     *link.CreditGate   // to send
	returns  *link.CreditReturn // received
	pending  *pendingTable
	moveRate average                 // bytes per second of payloads to there
	pacer    *chunker.Pacer[*stream] // Node.streams guards it and paceOver
	paceOver bool
}

// linkHandler makes connections to links. One value serves the listener; each
// dial has its own, which knows whom it wants to reach.
type linkHandler struct {
	mesh *mesh
	dial *peer // nil: accepted
}

// OnOpen implements engine.Handler.
func (h *linkHandler) OnOpen(c *engine.Conn) {
	l := &linkConn{node: h.mesh.node, mesh: h.mesh, conn: c, dial: h.dial, bound: cmap.New[*objectCell](), interest: topic.NewHeard(interestLimits)}
	var nonce [32]byte
	rand.Read(nonce[:])
	if c.Dialled() {
		l.shake = link.NewDialler(&h.mesh.link, h.dial.expect, nonce)
	} else {
		l.shake = link.NewAcceptor(&h.mesh.link, nonce)
	}
	c.SetData(l)
	opened := link.Event{Kind: link.EventOpened}
	if h.dial != nil && h.dial.expect != "" {
		opened = l.certified(h.dial.expect, opened)
	}
	l.step(opened)
}

// OnFrame implements engine.Handler.
func (h *linkHandler) OnFrame(c *engine.Conn, frame []byte, owner *buf.Buf) error {
	l := c.Data().(*linkConn)
	if l.shake != nil {
		l.answered = true
		l.step(link.Event{Kind: link.EventReceived, Record: frame})
		return nil
	}
	return l.receive(frame, owner)
}

// OnTimer implements engine.Handler.
func (h *linkHandler) OnTimer(c *engine.Conn, now clock.Mono) {
	l := c.Data().(*linkConn)
	if l.shake != nil {
		l.step(link.Event{Kind: link.EventTick})
		return
	}
	l.liveStep(now, link.LiveEvent{Kind: link.LiveTick})
}

// OnClose implements engine.Handler: what waits for this link ends now (FO-07).
func (h *linkHandler) OnClose(c *engine.Conn, reason engine.CloseReason) {
	l := c.Data().(*linkConn)
	l.gone.Store(true)
	l.over()
	if (reason.Code == engine.PeerClosed || reason.Code == engine.TransportError) && !l.answered && h.dial != nil {
		reason.Text = "it said nothing; are its mesh's links by TLS as this one's, and is this a link port?"
	}
	if l.shake == nil {
		l.mesh.peers.unlinked(l, reason.String())
	} else if l.dial != nil {
		why := reason.String()
		if l.gaveWay {
			why = ""
		}
		l.mesh.peers.ended(l.dial, l.refused, why)
	}
	if l.gaveWay {
		return
	}
	if l.shake != nil {
		l.node.counters.linksRefused.Add(1)
		l.sayBroken(reason)
		return
	}
	l.node.log.Info().Str("mesh", l.mesh.cfg.Name).Str("peer", l.peer.RID).Stringer("reason", reason).Msg("link closed")
}

// over ends what waits for this link, and what has come by it. On its loop, where it delivers
// nothing any more.
func (l *linkConn) over() {
	if l.ended {
		return
	}
	l.ended = true
	if p := l.placing; p.move != nil {
		l.placing = placing{}
		p.move.placed(nil, &p)
	}
	l.unbindAll()
	if l.pending == nil {
		return
	}
	l.mesh.links.remove(l)
	l.mesh.topics.lost(l)
	l.mesh.channels.gone(l) // before the gate closes, which senders wait for that would come again
	l.gate.Close()
	l.node.streams.lost(l)
	l.pending.fail(errLinkLost)
	l.node.moving.lost(l)
	if l.node.app.hearNotices() {
		l.node.tasks.Go(func() { l.node.lostLink(l) }) // a node that stops has told its clients
	}
}

// sayBroken logs that the connection ended before it was a link. That a stranger closed, or a
// handshake was refused, is not worth a line that is always seen, or has one.
func (l *linkConn) sayBroken(reason engine.CloseReason) {
	level, left := zerolog.DebugLevel, int64(0)
	usual := reason.Code == engine.Rejected || reason.Code == engine.EngineClosed || reason.Code == engine.PeerClosed && l.dial == nil
	if !usual {
		if n, ok := l.node.said.linkBroken.Take(clock.Now()); ok {
			level, left = zerolog.InfoLevel, n
		}
	}
	l.node.log.WithLevel(level).Str("mesh", l.mesh.cfg.Name).Str("address", l.conn.RemoteAddr()).Stringer("reason", reason).Int64("left_out", left).
		Msg("a connection ended before it was a link")
}

// step gives an event to the handshake and does what it says.
func (l *linkConn) step(ev link.Event) {
	if err := l.shake.Step(clock.Now(), ev); err != nil {
		l.conn.Abort(engine.CloseReason{Code: engine.ProtocolError, Text: "record out of order in the handshake", Err: err})
		return
	}
	l.effects = l.shake.Effects(l.effects[:0])
	if at, ok := l.shake.NextDeadline(); ok {
		l.conn.ArmTimer(at)
	}
	for i := 0; i < len(l.effects); i++ {
		switch e := l.effects[i]; e.Kind {
		case link.EffectSend:
			_ = l.conn.SendControl(buf.Copy(e.Record)) // a closed connection tells itself by OnClose
		case link.EffectGreeted:
			if !l.mesh.peers.greeted(l.dial, e.Peer) {
				l.giveWay(e.Peer.RID)
				return
			}
		case link.EffectVerified:
			l.judge(e.Peer)
			return
		case link.EffectAdmitted:
			l.admitted(e.Peer)
			return
		case link.EffectClose:
			if left, ok := l.node.said.linkRefused.Take(clock.Now()); ok {
				l.node.log.Info().Str("mesh", l.mesh.cfg.Name).Str("address", l.conn.RemoteAddr()).Stringer("reason", e.Close.Reason).Str("detail", clip(e.Close.Detail)).
					Bool("by_peer", e.Close.Cause == link.RefusedByPeer).Int64("left_out", left).Msg("link refused")
			}
			why := engine.CloseReason{Code: engine.Rejected, Text: e.Close.Reason.String() + ": " + e.Close.Detail}
			if l.refused = e.Close.Reason; e.Close.Cause == link.TimedOut {
				why = engine.CloseReason{Code: engine.PeerSilent, Text: e.Close.Detail}
			}
			l.conn.Close(why)
			return
		}
	}
}

// giveWay ends a handshake with a node to which this one has a link, or opens one elsewhere.
func (l *linkConn) giveWay(rid string) {
	l.gaveWay, l.refused = true, wire.RejectDuplicate
	l.sendControl(&wire.Reject{Reason: wire.RejectDuplicate})
	l.conn.Close(engine.CloseReason{Code: engine.Rejected, Text: "node " + rid + " is linked by another connection"})
}

// judge decides whether the peer, which holds the mesh key, gets the slot.
func (l *linkConn) judge(peer link.Peer) {
	if ev := l.certified(peer.RID, link.Event{Kind: link.EventJudged}); ev.Refuse != 0 {
		l.step(ev)
		return
	}
	l.peer = peer
	l.gate = link.NewCreditGate(int(peer.Window), sendersWaitingMax)
	l.returns = link.NewCreditReturn(linkCreditBytes)
	l.pending = newPendingTable()
	l.node.streams.open(l)
	verdict, replaced := l.mesh.links.judge(l, peer)
	if replaced != nil {
		replaced.giveUp()
	}
	l.step(verdict)
}

func (l *linkConn) admitted(peer link.Peer) {
	now := clock.Now()
	l.peer = peer
	l.shake = nil
	l.live = link.NewLiveness(l.node.liveConfig, now)
	l.conn.Admit()
	at, _ := l.live.NextDeadline()
	l.conn.ArmTimer(at)
	l.opened = now
	l.mesh.links.publish(l)
	l.mesh.topics.opened(l)
	l.mesh.channels.greet(l)
	l.mesh.peers.linked(l)
	l.node.linked(l)
	l.node.discovery.meet()
	l.node.log.Info().Str("mesh", l.mesh.cfg.Name).Str("peer", peer.RID).Bool("dialled", l.conn.Dialled()).Msg("link ready")
}

func (l *linkConn) liveStep(now clock.Mono, ev link.LiveEvent) {
	l.live.Step(now, ev)
	l.liveness = l.live.Effects(l.liveness[:0])
	for _, e := range l.liveness {
		switch e.Kind {
		case link.LiveSendProbe:
			l.sendControl(&wire.Probe{ID: e.ID})
		case link.LiveSendAck:
			l.sendControl(&wire.Ack{ID: e.ID})
		case link.LivePeerSilent:
			l.conn.Abort(engine.CloseReason{Code: engine.PeerSilent, Text: "no probe was acknowledged in time"})
			return
		}
	}
	if at, ok := l.live.NextDeadline(); ok {
		l.conn.ArmTimer(at)
	}
}

// giveUp ends the link for another one to the same node. What hangs on it does not wait until
// the peer has closed its side, which a peer that dials anew may never do. Called by the loop of
// the other one: what this one's is in the midst of comes to its end before.
func (l *linkConn) giveUp() {
	l.gone.Store(true)
	l.goodbye(wire.GoodbyeReplaced, engine.CloseReason{Code: engine.Replaced, Text: "a newer link to the same node"})
	_ = l.conn.Post(func(*engine.Conn) { l.over() }) // else it is closed
}

// goodbye ends the link in order: what was sent before still arrives.
func (l *linkConn) goodbye(reason wire.GoodbyeReason, why engine.CloseReason) {
	l.sendControl(&wire.Goodbye{Reason: reason})
	l.conn.Close(why)
}

// sendControl sends a record that never waits for credit. If the connection is
// closed, OnClose tells whoever waits.
func (l *linkConn) sendControl(r wire.Record) { _ = l.conn.SendControl(encoded(r)) }

// sendRecord sends a record that waits for credit if its command does.
func (l *linkConn) sendRecord(ctx context.Context, r wire.Record) *Error {
	b := encoded(r)
	cmd, _, _, err := wire.Header(b.Bytes())
	invariant.Check(err == nil, "encoded a record without a head: %v", err)
	if info, _ := cmd.Info(); info.Credited {
		return l.send(ctx, b)
	}
	_ = l.conn.SendControl(b) // a closed connection tells itself by OnClose
	return nil
}

// sendReply answers a request. Replies need no credit; if the peer takes them so
// slowly that the out queue is full, an error, which is small, goes instead.
func (l *linkConn) sendReply(corr uint64, codec uint8, payload []byte) {
	l.reply(false, corr, codec, payload)
}

// sendReplyTo is sendReply to a message that still has that much credit. If the peer has
// nothing else under way here, no further reply is to be expected soon.
func (l *linkConn) sendReplyTo(credit uint32, corr uint64, codec uint8, payload []byte) {
	l.reply(l.returns.Open() <= int(credit), corr, codec, payload)
}

func (l *linkConn) reply(alone bool, corr uint64, codec uint8, payload []byte) {
	r := wire.Reply{Correlation: corr, Codec: codec, Payload: payload}
	b := buf.Get(r.Size())
	r.AppendTo(b.Bytes()[:0])
	if errors.Is(l.queue(b, alone), engine.ErrFull) {
		l.sendError(corr, errRepliesFull)
	}
}

// queue gives the record to the connection. One that is alone none is expected to follow soon.
func (l *linkConn) queue(record *buf.Buf, alone bool) error {
	if alone {
		return l.conn.SendAlone(record)
	}
	return l.conn.Send(record)
}

// sendAnswer sends a record with a reply, whose buffer it takes. It is false if the out
// queue is full.
func (l *linkConn) sendAnswer(record *buf.Buf) bool {
	return !errors.Is(l.conn.Send(record), engine.ErrFull)
}

// encoded returns a record in a buffer of its own.
func encoded(r wire.Record) *buf.Buf {
	b := buf.Get(r.Size())
	r.AppendTo(b.Bytes()[:0])
	return b
}

func (l *linkConn) sendError(corr uint64, err *Error) {
	l.sendControl(&wire.ErrorReply{
		Correlation: corr, Kind: uint8(err.Kind), Text: []byte(err.onWire()), Stale: err.stale, Application: err.application,
	})
}

// consumed gives the credit of a record back that this node worked off.
func (l *linkConn) consumed(n int) {
	if grant := l.returns.Consumed(n); grant > 0 {
		l.sendControl(&wire.Credit{Bytes: uint64(grant)})
	}
}

// sendNow sends a credited record if its credit is there, and reports whether
// it was taken; if not, it is still the caller's. Event loops use it: they must
// not wait.
func (l *linkConn) sendNow(record *buf.Buf) (taken bool, err *Error) {
	if !l.gate.TryTake(len(record.Bytes())) {
		return false, nil
	}
	return true, l.sendPaid(record)
}

// sendRequestNow is sendNow for a request that a goroutine waits for. If no other one has a
// request under way by this link, no further one is to be expected soon.
func (l *linkConn) sendRequestNow(record *buf.Buf) (taken bool, err *Error) {
	if !l.gate.TryTake(len(record.Bytes())) {
		return false, nil
	}
	return true, l.sendPaidAs(record, l.pending.alone())
}

// sendPaid queues a record whose credit was taken. If the link is lost, or its
// queue is full of replies, the credit goes back with the refusal.
func (l *linkConn) sendPaid(record *buf.Buf) *Error { return l.sendPaidAs(record, false) }

func (l *linkConn) sendPaidAs(record *buf.Buf, alone bool) *Error {
	n := len(record.Bytes())
	if err := l.queue(record, alone); err != nil {
		l.gate.PutBack(n)
		return &Error{Kind: errkind.Unavailable, Text: "the link to node " + l.peer.RID + " takes nothing now; nothing was sent", Err: err}
	}
	return nil
}

// send sends a credited record, whose buffer it takes. If the peer is slow it
// waits for credit up to the send timeout, in order with others who wait.
func (l *linkConn) send(ctx context.Context, record *buf.Buf) *Error {
	if taken, err := l.sendNow(record); taken {
		return err
	}
	if err := l.waitInTurn(ctx, len(record.Bytes())); err != nil {
		record.Free()
		return err
	}
	return l.sendPaid(record)
}

// sendRequest is send for a request, as sendRequestNow is sendNow.
func (l *linkConn) sendRequest(ctx context.Context, record *buf.Buf) *Error {
	if taken, err := l.sendRequestNow(record); taken {
		return err
	}
	return l.send(ctx, record)
}

func (l *linkConn) waitInTurn(ctx context.Context, n int) (err *Error) {
	blocking(ctx, func() { err = l.waitForCredit(ctx, n) })
	return err
}

func (l *linkConn) waitForCredit(ctx context.Context, n int) *Error {
	ready := make(chan error, 1)
	w, err := l.gate.Await(n, func(err error) { ready <- err })
	if err != nil {
		return creditFailure(err)
	}
	timer := time.NewTimer(l.node.cfg.SendTimeout)
	defer timer.Stop()
	var failure *Error
	select {
	case err := <-ready:
		return creditFailure(err)
	case <-ctx.Done():
		failure = fromContext(ctx, "", "")
	case <-timer.C:
		failure = errNoCredit
	}
	if l.gate.Cancel(w) {
		return failure
	}
	return creditFailure(<-ready) // it was decided while we gave up
}

func creditFailure(err error) *Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, link.ErrGateFull):
		return &Error{Kind: errkind.CapacityExceeded, Text: "too many senders wait for the other node", Err: err}
	default:
		return &Error{Kind: errkind.Unavailable, Text: "the link was lost; nothing was sent", Err: err}
	}
}

// linkFrameSize is the engine's view of a record.
func linkFrameSize(b []byte, admitted bool) (int, error) {
	most := wire.MaxRecord
	if !admitted {
		most = wire.PreAdmitMax
	}
	n, err := wire.RecordSize(b, most)
	if errors.Is(err, wire.ErrTooLarge) {
		if !admitted && isTLS(b) {
			err = fmt.Errorf("%w: the peer speaks TLS, which this mesh has not for its links", err)
		}
		return n, fmt.Errorf("%w: %w", engine.ErrFrameTooLarge, err)
	}
	return n, err
}
