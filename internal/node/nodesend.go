package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
)

// addressee says what the ID of a Target names.
type addressee uint8

const (
	toObject  addressee = iota
	toPeer              // a node's RID
	toChannel           // a channel, of which one server is chosen for each message
)

// PeerTarget returns that of messages to a node itself.
func (n *Node) PeerTarget(rid string) Target { return Target{ID: rid, to: toPeer} }

// ChannelTarget returns that of messages to one of the servers of a channel.
func (n *Node) ChannelTarget(name string) Target { return Target{ID: name, to: toChannel} }

// nodeMesh returns the mesh of a node or a channel, or a channel's client.
func (n *Node) nodeMesh(to *Target) (*mesh, *Error) {
	if to.to == toChannel {
		return n.channelMesh(to)
	}
	return n.meshOf(to)
}

func (n *Node) meshOf(to *Target) (*mesh, *Error) {
	if to.mesh == "" {
		return n.home, nil
	}
	if m := n.meshNamed(to.mesh); m != nil {
		return m, nil
	}
	return nil, fail(errkind.NotFound, "", "", "this node is not in mesh %q", to.mesh)
}

// sendToNode is sendTo for a node or a channel.
func (n *Node) sendToNode(ctx context.Context, to *Target, o *Outgoing) *Error {
	if err := checkContent(opSend, to.ID, o.Name, o.Metadata, o.Payload); err != nil {
		return err
	}
	if err := n.mayStart(ctx); err != nil {
		return err
	}
	m, err := n.nodeMesh(to)
	if err != nil {
		return err
	}
	if to.to == toChannel {
		_, _, err := m.selectOne(ctx, to.ID, o, nil, clock.Never)
		return err
	}
	if to.ID == n.cfg.RID {
		return n.services.own.push(sender{kind: msgSend}, o, clock.Never, nil)
	}
	l, err := m.peerLink(to.ID)
	if err != nil {
		return err
	}
	return l.send(ctx, n.encodeForNode("", o, 0, 0))
}

// requestToNode is requestTo for a node or a channel.
func (n *Node) requestToNode(ctx context.Context, to *Target, o *Outgoing, deadline clock.Mono) result {
	m, err := n.nodeMesh(to)
	if err == nil {
		err = n.mayStart(ctx)
	}
	if err != nil {
		return result{err: err}
	}
	switch {
	case to.to == toPeer && to.ID == n.cfg.RID:
		return n.requestOwn(ctx, o, deadline)
	case to.to == toPeer:
		l, err := m.peerLink(to.ID)
		if err != nil {
			return result{err: err}
		}
		w, corr, err := l.pending.addWaiter()
		if err != nil {
			return result{err: err}
		}
		if err := l.sendRequest(ctx, n.encodeForNode("", o, corr, deadline.Sub(clock.Now()))); err != nil {
			return l.pending.abandon(w, corr, err)
		}
		return l.awaitReply(ctx, w, corr, deadline)
	}
	w := waiters.Get().(*waiter)
	l, corr, err := m.selectOne(ctx, to.ID, o, w, deadline)
	if err != nil {
		waiters.Put(w)
		return result{err: err}
	}
	return l.awaitReply(ctx, w, corr, deadline)
}

// requestOwn is a request of this node to itself.
func (n *Node) requestOwn(ctx context.Context, o *Outgoing, deadline clock.Mono) result {
	w := waiters.Get().(*waiter)
	round, err := n.local.begin(w)
	if err == nil {
		if err = n.services.own.push(sender{kind: msgRequest, to: w, corr: round}, o, deadline, nil); err != nil {
			n.local.end(w, round)
		}
	}
	if err != nil {
		waiters.Put(w)
		return result{err: err}
	}
	if t := turnFrom(ctx); t == nil || t.gate == nil {
		return n.local.awaitRound(ctx, w, round, deadline)
	}
	return n.awaitHereInTurn(ctx, w, round, deadline)
}

func (l *linkConn) awaitReply(ctx context.Context, w *waiter, corr uint64, deadline clock.Mono) result {
	if t := turnFrom(ctx); t == nil || t.gate == nil {
		return l.pending.await(ctx, w, corr, deadline)
	}
	return l.awaitInTurn(ctx, w, corr, deadline)
}

// mayStart refuses what begins when the node stops, or in a turn whose object has ended. What
// the node had accepted as a server of a channel may ask others to the end.
func (n *Node) mayStart(ctx context.Context) *Error {
	t := turnFrom(ctx)
	if n.stopping.Load() && (t == nil || !t.accepted) {
		return errStopping
	}
	return t.fenced()
}

// peerLink returns the link to a node. No other node takes its place (FO-06).
func (m *mesh) peerLink(rid string) (*linkConn, *Error) {
	if l := m.links.to(rid, 0); l != nil {
		return l, nil
	}
	if !wire.ValidRID(rid) {
		return nil, fail(errkind.InvalidOperation, "", "", "an RID has 1 to %d of A-Z a-z 0-9 . _ -", wire.MaxRID)
	}
	known, unneeded := m.peers.knows(rid)
	switch {
	case m.links.met(rid), known && !unneeded:
		return nil, fail(errkind.Unavailable, "", "", "node %s is not linked now", rid)
	case known:
		return nil, fail(errkind.Unavailable, "", "", "node %s is not linked, as the roles of both need no link; name one in the Peers of the other", rid)
	}
	return nil, fail(errkind.NotFound, "", "", "no node %s is known in mesh %q", rid, m.cfg.Name)
}

// encodeForNode makes the record of a message to a node, or to a channel there.
func (n *Node) encodeForNode(channel string, o *Outgoing, corr uint64, left time.Duration) *buf.Buf {
	m := wire.NodeMessage{
		Channel: []byte(channel), Op: n.operations.Add(1), Correlation: corr,
		Name: []byte(o.Name), Codec: o.Codec, Metadata: o.Metadata, Payload: o.Payload,
	}
	if corr != 0 {
		m.DeadlineMS = wire.DeadlineMS(left)
	}
	b := buf.Get(m.Size())
	m.AppendTo(b.Bytes()[:0])
	return b
}

// selectOne gives a message to one server of a channel (FO-05): to the one that is chosen, and
// if its link does not take it at once, to the next in the order of the choice. If none
// takes it, the sender waits for the first that does, up to the send timeout. Once a link
// has taken the message no other one gets it, whatever happens. Of a request, for which w
// waits, it returns the link and the correlation.
func (m *mesh) selectOne(ctx context.Context, channel string, o *Outgoing, w *waiter, deadline clock.Mono) (*linkConn, uint64, *Error) {
	s := m.channels.of(channel)
	if s == nil {
		var err *Error
		if s, err = m.awaitServers(ctx, channel, deadline); err != nil {
			return nil, 0, err
		}
	}
	i := s.next()
	l := s.links[i]
	if corr, taken := m.node.submitTo(l, channel, o, w, deadline); taken {
		return l, corr, nil
	}
	kept := *o // on the heap, which the other way does without
	l, corr, err := (&submission{m, channel, &kept, w, deadline}).elsewhere(ctx, s, i)
	if err == nil {
		m.node.counters.reselected.Add(1)
	}
	return l, corr, err
}

// submitTo gives the message to a link if that takes it at once.
func (n *Node) submitTo(l *linkConn, channel string, o *Outgoing, w *waiter, deadline clock.Mono) (corr uint64, taken bool) {
	record, corr, ok := n.prepare(l, channel, o, w, deadline)
	if !ok {
		return 0, false
	}
	send := l.sendNow
	if w != nil {
		send = l.sendRequestNow
	}
	taken, err := send(record)
	if taken && err == nil {
		return corr, true
	}
	if !taken {
		record.Free()
	}
	l.withdraw(w, corr)
	return 0, false
}

// prepare makes the record for a link, and registers a request there.
func (n *Node) prepare(l *linkConn, channel string, o *Outgoing, w *waiter, deadline clock.Mono) (record *buf.Buf, corr uint64, ok bool) {
	if w == nil {
		return n.encodeForNode(channel, o, 0, 0), 0, true
	}
	corr, err := l.pending.add(w, 0)
	if err != nil {
		return nil, 0, false
	}
	return n.encodeForNode(channel, o, corr, deadline.Sub(clock.Now())), corr, true
}

// withdraw ends the registration of a request that was not sent.
func (l *linkConn) withdraw(w *waiter, corr uint64) {
	if w != nil && l.pending.take(corr) == nil {
		<-w.done // the link was lost, and tells so
	}
}

// submission is a message that the first choice has not taken.
type submission struct {
	mesh     *mesh
	channel  string
	o        *Outgoing
	w        *waiter // nil: of a send
	deadline clock.Mono
}

func (b *submission) elsewhere(ctx context.Context, s *servers, first int) (l *linkConn, corr uint64, err *Error) {
	tried := make([]bool, len(s.links))
	for i := first; i >= 0; i = s.instead(i, tried) {
		tried[i] = true
		if i == first {
			continue
		}
		if corr, taken := b.to(s.links[i]); taken {
			return s.links[i], corr, nil
		}
	}
	blocking(ctx, func() { l, corr, err = b.wait(ctx) })
	return l, corr, err
}

func (b *submission) to(l *linkConn) (corr uint64, taken bool) {
	return b.mesh.node.submitTo(l, b.channel, b.o, b.w, b.deadline)
}

// wait waits until one of the servers takes the message. It keeps its places in line, whatever
// else is news: also at those who serve no more, which may be meant for a moment.
func (b *submission) wait(ctx context.Context) (*linkConn, uint64, *Error) {
	timer := time.NewTimer(min(b.mesh.node.cfg.SendTimeout, b.deadline.Sub(clock.Now())))
	defer timer.Stop()
	broken := map[*linkConn]bool{} // had credit and took nothing: they end, or their queue is full of replies
	line := b.line()
	defer line.leave()
	for {
		s, err := b.mesh.firstServers(ctx, b.channel, b.deadline)
		if err != nil {
			return nil, 0, err
		}
		switch places, crowded := line.join(s, broken); {
		case places > 0:
		case crowded:
			return nil, 0, creditFailure(link.ErrGateFull)
		default:
			return nil, 0, errNoneTakes
		}
		first, over := b.await(ctx, s, line, timer)
		switch l := first.link; {
		case l == nil && over == nil:
			clear(broken) // one may be linked anew
		case l == nil:
		case first.err != nil: // its gate has closed
			broken[l] = true
		case !slices.Contains(s.links, l):
			l.gate.PutBack(line.size)
		default:
			if corr, taken := b.paid(l, line.size); taken {
				return l, corr, nil
			}
			broken[l] = true
		}
		if over != nil {
			return nil, 0, over
		}
	}
}

// await waits for the first gate of the line that has decided, for other servers than s, or for
// the end of it all.
func (b *submission) await(ctx context.Context, s *servers, line *creditLine, timer *time.Timer) (first grant, over *Error) {
	for {
		changed := b.mesh.node.news.watch()
		if b.mesh.channels.of(b.channel) != s {
			return grant{}, nil
		}
		if first, ok := line.next(); ok {
			return first, nil
		}
		select {
		case <-line.news:
		case <-changed:
		case <-ctx.Done():
			return grant{}, notSubmitted(ctx)
		case <-timer.C:
			return grant{}, errNotSubmitted
		}
	}
}

// notSubmitted is errNotSubmitted for a caller whose context has ended.
func notSubmitted(ctx context.Context) *Error {
	err := *errNotSubmitted
	err.Err = ctx.Err()
	return &err
}

// paid gives the message to a link whose credit was taken for it.
func (b *submission) paid(l *linkConn, size int) (corr uint64, taken bool) {
	record, corr, ok := b.mesh.node.prepare(l, b.channel, b.o, b.w, b.deadline)
	if !ok {
		l.gate.PutBack(size)
		return 0, false
	}
	if l.sendPaid(record) != nil {
		l.withdraw(b.w, corr)
		return 0, false
	}
	return corr, true
}

// grant says that the gate of a link has given credit, or will not.
type grant struct {
	link *linkConn
	err  error
}

// creditLine is a place in line for the credit of several links at once.
type creditLine struct {
	size   int
	places map[*linkConn]*link.Waiter

	mu      sync.Mutex
	decided []grant       // one per place that was, at most
	news    chan struct{} // has one if there are some
}

// line returns a line without a place.
func (b *submission) line() *creditLine {
	m := wire.NodeMessage{Channel: []byte(b.channel), Name: []byte(b.o.Name), Metadata: b.o.Metadata, Payload: b.o.Payload}
	if b.w != nil {
		m.Correlation = 1
	}
	return &creditLine{size: m.Size(), places: map[*linkConn]*link.Waiter{}, news: make(chan struct{}, 1)}
}

// join takes a place at each server that has none yet, and returns at how many it has one.
// crowded: a gate had no place.
func (c *creditLine) join(s *servers, except map[*linkConn]bool) (places int, crowded bool) {
	for _, l := range s.links {
		switch {
		case c.places[l] != nil:
			places++
			continue
		case except[l]:
			continue
		}
		place, err := l.gate.Await(c.size, func(err error) { c.decide(grant{l, err}) })
		switch {
		case err == nil:
			c.places[l] = place
			places++
		case errors.Is(err, link.ErrGateFull):
			crowded = true
		}
	}
	return places, crowded
}

func (c *creditLine) decide(g grant) {
	c.mu.Lock()
	c.decided = append(c.decided, g)
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// next returns what a gate has decided, whose place it ends.
func (c *creditLine) next() (g grant, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.decided) == 0 {
		return grant{}, false
	}
	g = c.decided[0]
	c.decided = c.decided[1:]
	delete(c.places, g.link)
	return g, true
}

// leave gives all places up. Credit that was given goes back.
func (c *creditLine) leave() {
	for l, place := range c.places {
		if l.gate.Cancel(place) {
			delete(c.places, l)
		}
	}
	for len(c.places) > 0 { // these are decided, and tell so
		if g, ok := c.next(); !ok {
			<-c.news
		} else if g.err == nil {
			g.link.gate.PutBack(c.size)
		}
	}
}
