package node

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/topic"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

const (
	opSubscribe   = "subscribe"
	opUnsubscribe = "unsubscribe"
)

// subscriber is one subscription to a topic: a Spot's, whose messages have turns in its
// mailbox like all others, or a reader's. It never changes.
type subscriber struct {
	topic  string
	in     *topics     // of its mesh
	cell   *objectCell // nil: it is a reader's
	number uint64      // of those of the Spot; a message has it as its corr
	reader *reader     // nil: it is a Spot's
	// packets are those that it takes, by name; nil: the reader takes all. Spots of one type
	// that subscribe to one topic share them.
	packets map[string]*packetType
}

// errUnsubscribed is for what was queued when the Spot's subscription ended.
var errUnsubscribed = &Error{Kind: errkind.Unavailable, Text: "the spot has ended its subscription"}

// OnTopic registers the handler of a packet to topics that Spots of t, a type of a's,
// subscribe to.
func (a *App) OnTopic(t *ObjectType, name string, h SendHandler) {
	a.CheckName("subscription", t.Name, name, t.topics[name] != nil)
	if t.Kind != store.EntrySpot && t.Kind != store.UserSpot {
		a.Fail("subscription %q of %q: only an entry spot and user spots subscribe to topics", name, t.Name)
	}
	t.topics[name] = h
}

// Subscribe makes the Spot whose turn it is a subscriber to a topic, until it unsubscribes
// or ends. It does nothing if it is one.
func (c *Call) Subscribe(name string) error {
	mustBeInTurn(c.cell != nil)
	a := c.cell
	err := c.maySubscribe(opSubscribe, name)
	switch {
	case err != nil:
		return err.of(opSubscribe, a.ref.ID)
	case len(a.typ.topics) == 0:
		return fail(errkind.InvalidOperation, opSubscribe, a.ref.ID, "type %q has no subscription handler", a.typ.Name)
	case a.closing:
		return errClosing.of(opSubscribe, a.ref.ID)
	case a.topics[name] != nil:
		return nil
	case len(a.topics) >= spotTopicsMax:
		return fail(errkind.CapacityExceeded, opSubscribe, a.ref.ID, "it subscribes to %d topics, which is the limit", spotTopicsMax)
	}
	home := &a.node.home.topics
	a.began++
	s := &subscriber{topic: strings.Clone(name), in: home, cell: a, number: a.began}
	s.packets = home.packetsOf(a.typ, s.topic)
	if full := home.add(s); full != nil {
		return topicsFull(full).of(opSubscribe, a.ref.ID)
	}
	if a.topics == nil {
		a.topics = map[string]*subscriber{}
	}
	a.topics[s.topic] = s
	return nil
}

// Unsubscribe undoes Subscribe: no message of the topic has a turn any more.
func (c *Call) Unsubscribe(name string) error {
	mustBeInTurn(c.cell != nil)
	a := c.cell
	if err := c.maySubscribe(opUnsubscribe, name); err != nil {
		return err.of(opUnsubscribe, a.ref.ID)
	}
	if s := a.topics[name]; s != nil {
		delete(a.topics, name)
		s.in.remove(s)
	}
	return nil
}

// maySubscribe refuses turns that do not have the Spot's list of topics to change.
func (c *Call) maySubscribe(op, name string) *Error {
	id := c.cell.ref.ID
	if err := c.fenced(); err != nil {
		return err
	}
	switch kind := c.cell.typ.Kind; {
	case kind != store.EntrySpot && kind != store.UserSpot:
		return fail(errkind.InvalidOperation, op, id, "only an entry spot and user spots subscribe to topics")
	case c.gate == nil:
		return fail(errkind.InvalidOperation, op, id, "the turn has given up its gate; do it before or after")
	}
	return checkTopic(op, name)
}

func checkTopic(op, name string) *Error {
	if !wire.ValidID(name) {
		return fail(errkind.InvalidOperation, op, name, "a topic has 1 to %d bytes of UTF-8", idBytesMax)
	}
	return nil
}

func topicsFull(err error) *Error {
	text := "the node has subscribers to as many topics as it may; use fewer, or shorter names"
	if errors.Is(err, topic.ErrMembers) {
		text = "the topic has as many subscribers at the node as it may; let one of them tell others"
	}
	return &Error{Kind: errkind.CapacityExceeded, Text: text, Err: err}
}

// packetsOf returns what Spots of the type do with messages of the topic.
func (ts *topics) packetsOf(t *ObjectType, name string) map[string]*packetType {
	for _, other := range ts.here.Of(name) {
		if other.cell != nil && other.cell.typ == t {
			return other.packets
		}
	}
	packets := make(map[string]*packetType, len(t.topics))
	for packet, h := range t.topics {
		packets[packet] = &packetType{name: packet, topic: name, send: h}
	}
	return packets
}

// subscribed reports whether the subscription stands by which the message came. Under the
// claim.
func (c *objectCell) subscribed(m *message) bool {
	s := c.topics[m.packet.topic]
	return s != nil && s.number == m.corr
}

// unsubscribe ends all subscriptions of a Spot that is over. Under its claim.
func (c *objectCell) unsubscribe() {
	for _, s := range c.topics {
		s.in.remove(s)
	}
	c.topics = nil
}

// Topic returns the topic of a message that was published; "" of all else.
func (c *Call) Topic() string {
	mustBeInTurn(c.message != nil)
	return c.message.packet.topic
}

// reader is a subscription of the node's own code: a queue of its own, whose messages its
// handler gets one at a time, on workers.
type reader struct {
	node *Node
	sub  *subscriber
	h    TopicHandler
	over atomic.Bool
	box  *mailbox.Mailbox[message]
}

// TopicHandler gets a message of a topic. The payload is valid during the call.
type TopicHandler func(c *TopicCall, payload []byte) error

// Subscription is a reader as who made it knows it. Its methods are safe for concurrent use.
type Subscription struct{ reader *reader }

// Subscribe has h called for each message of that topic that has the packet name; "": for
// all of its messages.
func (n *Node) Subscribe(to TopicTarget, packet string, h TopicHandler) (*Subscription, error) {
	name := to.Name
	m, err := n.topicMesh(to)
	if err == nil {
		err = checkTopic(opSubscribe, name)
	}
	if err == nil && packet != "" {
		err = checkName(opSubscribe, name, packet)
	}
	switch {
	case err != nil:
		return nil, err.of(opSubscribe, name)
	case h == nil:
		return nil, fail(errkind.InvalidOperation, opSubscribe, name, "there is no handler")
	case n.stopping.Load():
		return nil, errStopping.of(opSubscribe, name)
	}
	r := &reader{node: n, h: h}
	r.sub = &subscriber{topic: strings.Clone(name), in: &m.topics, reader: r}
	if packet != "" {
		packet = strings.Clone(packet)
		r.sub.packets = map[string]*packetType{packet: {name: packet, topic: r.sub.topic}}
	}
	r.box = mailbox.New[message](n.pool, r, n.queueLimits())
	if full := m.topics.add(r.sub); full != nil {
		return nil, topicsFull(full).of(opSubscribe, name)
	}
	return &Subscription{r}, nil
}

// Unsubscribe ends the subscription: the handler is not called any more, also for what is
// queued. A call that runs is not waited for. Further ones do nothing.
func (s *Subscription) Unsubscribe() {
	s.reader.over.Store(true)
	s.reader.sub.in.remove(s.reader.sub)
}

// TopicCall is one message of a topic in its reader's turn, with the rules of Call.
type TopicCall struct {
	turnContext
	message *message
	// Outer is the public package's view of this value.
	Outer any
}

// topicCalls are those that no turn has. A call keeps its Outer, which is a view of it.
var topicCalls = sync.Pool{New: func() any { return new(TopicCall) }}

// Node returns the node of the subscription.
func (c *TopicCall) Node() *Node {
	mustBeInTurn(c.message != nil)
	return c.node
}

// Topic returns the message's topic.
func (c *TopicCall) Topic() string {
	mustBeInTurn(c.message != nil)
	return c.message.packet.topic
}

// Name returns the packet's name.
func (c *TopicCall) Name() string {
	mustBeInTurn(c.message != nil)
	return c.message.packet.name
}

// Metadata returns the application's encoded metadata, a view that is valid during the turn.
func (c *TopicCall) Metadata() []byte {
	mustBeInTurn(c.message != nil)
	return applicationMetadata(c.message)
}

// Codec returns the number of the payload's codec.
func (c *TopicCall) Codec() uint8 {
	mustBeInTurn(c.message != nil)
	return c.message.codec
}

// Begin implements mailbox.Consumer.
func (r *reader) Begin(*mailbox.Claim[message]) {}

// Consume implements mailbox.Consumer: one message is one turn.
func (r *reader) Consume(claim *mailbox.Claim[message], m *message) {
	defer m.done()
	if r.over.Load() {
		return
	}
	c := topicCalls.Get().(*TopicCall)
	c.turnContext, c.message = turnContext{node: r.node, gate: claim, deadline: clock.Never, flow: messageFlow(m)}, m
	if r.node.cfg.Tracer != nil {
		c.traceMessage()
	}
	err := errTurnEnded // if the handler ends its goroutine
	defer func() {
		failSpan(c.span, err)
		r.ran(m, err)
		c.message = nil
		if c.end() {
			c.turnContext = turnContext{}
			topicCalls.Put(c)
		}
	}()
	err = guardTry(r.node, "topic", r.sub.topic, 1, &c.flow, func() error { return r.h(c, m.body()) })
}

func (r *reader) ran(m *message, err *Error) {
	if err == nil {
		return
	}
	n := r.node
	n.counters.failedSends.Add(1)
	if left, ok := n.said.readerFailed.Take(clock.Now()); ok {
		n.log.Warn().Str("topic", clip(r.sub.topic)).Str("packet", clip(m.packet.name)).Str("error", clip(err.Error())).
			Int64("left_out", left).Msg("a subscription's handler failed")
	}
}

// reading reports whether readers have messages.
func (t *topics) reading() (some bool) {
	t.here.All(func(name string) {
		for _, s := range t.here.Of(name) {
			some = some || s.reader != nil && s.reader.box.Len() > 0
		}
	})
	return some
}
