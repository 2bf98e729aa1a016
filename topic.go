package zlnode

import (
	"context"

	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/session"
)

// Topic is a topic as seen from a node: a name of 1–255 bytes of UTF-8, compared byte by
// byte, that nobody creates. What is published to it goes to all who subscribe to it then:
// Entry Spots and User Spots (SpotCall.Subscribe) and the code of nodes (Subscribe), on the
// node and on all that it is linked to. Two nodes of RoleClient, such as gateways, have no
// link, unless one serves a channel or has the other in its Peers: what one publishes
// subscribers at the other do not get.
//
// A message is given to each subscriber once at most. What one goroutine, or one object in
// its turns, publishes comes to each subscriber in that order, as long as the link between
// their nodes stands. Between publishers there is no order, nor between what is published
// and what is sent otherwise.
//
// A subscription is in force at its node when the call has returned. The other nodes learn
// of it a moment later, and of all of a node's when a link to it opens: what they have
// published before that, or while the link is away, its subscribers do not get.
//
// Publishing waits for nobody, so that one slow node delays neither the publisher nor the
// others. Who has no room for a message misses it: a node whose link has used up its 8 MiB
// of credit, a Spot or a subscription whose queue is full. That is counted (Published.Missed,
// Stats). What must arrive is sent to each, by Send.
type Topic struct {
	node *node.Node
	to   node.TopicTarget
	as   Codec
	meta session.Metadata
}

// Topic returns a topic as seen from this node.
func (n *Node) Topic(name string) Topic {
	return Topic{node: n.inner, to: node.TopicTarget{Name: name}, as: JSON}
}

// Name returns the topic's name.
func (t Topic) Name() string { return t.to.Name }

// InMesh returns the topic of that name in another mesh of the node; by default it is that of
// the mesh of the node's objects, which are the only Spots that subscribe. Topics of two
// meshes have nothing in common.
func (t Topic) InMesh(mesh string) Topic {
	t.to.Mesh = mesh
	return t
}

// As returns the same topic for typed messages in another codec.
func (t Topic) As(c Codec) Topic {
	t.as = c
	return t
}

// With returns the same topic for messages that carry metadata, with the rules of Addr.With.
func (t Topic) With(meta session.Metadata) Topic {
	t.meta = meta
	return t
}

// Published is what became of a message to a topic: Nodes is how many other nodes with
// subscribers it is on the way to, one record for each; Local how many subscribers of this
// node have it in their queue. Missed counts the nodes, and the subscribers of this node,
// that had no room for it. All are 0 if nobody subscribes. What the subscribers of other
// nodes miss is counted there, in Stats.CopiesMissed.
type Published = node.Published

// Publish sends a packet to all subscribers of a topic, encoded once, in the topic's codec.
// It never waits. ctx says whose turn publishes; elsewhere it is any.
//
// Kinds: NotFound, the node is not in the mesh; InvalidOperation, no such topic can be, or a limit of messages is broken (see
// Send); Unavailable, ctx is a turn whose object has ended; ShuttingDown. That nobody
// subscribes, or that some missed it, is no error.
func Publish[M any](ctx context.Context, to Topic, packet string, m M) (Published, error) {
	b, err := encode(to.as, m)
	if err != nil {
		return Published{}, err
	}
	return to.publish(ctx, to.as, packet, b)
}

// PublishRaw is Publish with bytes, which are copied.
func (t Topic) PublishRaw(ctx context.Context, packet string, payload []byte) (Published, error) {
	return t.publish(ctx, Raw, packet, payload)
}

func (t *Topic) publish(ctx context.Context, as Codec, packet string, payload []byte) (Published, error) {
	if err := checkMetadata("publish", t.to.Name, t.meta); err != nil {
		return Published{}, err
	}
	o := node.Outgoing{Name: packet, Codec: uint8(as), Metadata: t.meta, Payload: payload}
	return t.node.Publish(ctx, t.to, &o)
}

// Subscribe has h called for each message to the topic with that packet name; "": for every
// message. Calls of one subscription come one after another, in order, on workers of the
// node: h may wait. An error of h, a payload that is not an M among them, and a panic are
// logged and counted (Stats.FailedSends).
//
// A subscription has a queue like an Actor's (Config.ObjectQueueMessages, ObjectQueueBytes).
// When it is full the newest message is the one that is missed. It is over with Unsubscribe
// or with its node, which when it stops has h called for what is queued.
//
// Kinds: NotFound, as of Publish; InvalidOperation, no such topic or packet can be, or h is nil; CapacityExceeded, the
// topic has 16,384 subscribers at the node, or the node subscribes to 65,536 topics, or
// their names have 4 MiB; ShuttingDown.
func Subscribe[M any](t Topic, packet string, h func(c *TopicCall, m M) error) (*Subscription, error) {
	if h == nil {
		return t.SubscribeRaw(packet, nil)
	}
	return t.SubscribeRaw(packet, func(c *TopicCall, payload []byte) error {
		var m M
		if err := decode(c.Codec(), payload, &m); err != nil {
			return err
		}
		return h(c, m)
	})
}

// SubscribeRaw is Subscribe with any payload, which is valid during the call, may be shared
// with other subscribers and must not be modified.
func (t Topic) SubscribeRaw(packet string, h func(c *TopicCall, payload []byte) error) (*Subscription, error) {
	var inner node.TopicHandler
	if h != nil {
		inner = func(c *node.TopicCall, payload []byte) error { return h(topicCall(c), payload) }
	}
	s, err := t.node.Subscribe(t.to, packet, inner)
	if err != nil {
		return nil, err
	}
	return &Subscription{s}, nil
}

// Subscription is what Subscribe made. Safe for concurrent use.
type Subscription struct{ inner *node.Subscription }

// Unsubscribe ends the subscription: no call of its handler begins any more, also none for
// what is queued; one that runs is not waited for. A second Unsubscribe does nothing.
func (s *Subscription) Unsubscribe() { s.inner.Unsubscribe() }

// TopicCall is one message of a topic, for a Subscription, and the context of the call. It
// must not be kept after the call nor used by another goroutine.
type TopicCall struct {
	context.Context
	inner *node.TopicCall
}

func topicCall(c *node.TopicCall) *TopicCall {
	o, ok := c.Outer.(*TopicCall)
	if !ok {
		o = &TopicCall{c, c}
		c.Outer = o
	}
	return o
}

// Node returns the node of the subscription.
func (c *TopicCall) Node() *Node { return c.inner.Node().Outer().(*Node) }

// Topic returns the topic's name.
func (c *TopicCall) Topic() string { return c.inner.Topic() }

// Packet returns the packet's name.
func (c *TopicCall) Packet() string { return c.inner.Name() }

// Codec returns how the payload is encoded.
func (c *TopicCall) Codec() Codec { return Codec(c.inner.Codec()) }

// Metadata returns the message's metadata, valid during the call.
func (c *TopicCall) Metadata() session.Metadata { return c.inner.Metadata() }

// OnTopic registers the handler of a packet to topics that Spots of the type subscribe to,
// whichever topic it is: SpotCall.Topic tells. Each message is a turn of the Spot, in its
// queue and by its gate, with the rules of OnSpotSend. Packets of a name for which there is
// no such handler are missed by the Spot. Instance Spots have no subscriptions.
func OnTopic[S, M any](t *SpotType[S], packet string, h func(c *SpotCall, s *S, m M) error) {
	OnTopicRaw(t, packet, func(c *SpotCall, s *S, payload []byte) error {
		var m M
		if err := decode(c.Codec(), payload, &m); err != nil {
			return err
		}
		return h(c, s, m)
	})
}

// OnTopicRaw is OnTopic with any payload, which is valid during the call, may be shared with
// other subscribers and must not be modified.
func OnTopicRaw[S any](t *SpotType[S], packet string, h func(c *SpotCall, s *S, payload []byte) error) {
	t.app.OnTopic(t.t, packet, func(c *node.Call, s any, payload []byte) error { return h(spotCall(c), s.(*S), payload) })
}

// Subscribe has the Spot, an Entry Spot or a User Spot, get what is published to a topic,
// until it unsubscribes or is closed: OnInitialize is a good place, any turn will do. If the
// Spot subscribes to the topic already, nothing happens. A message that finds its queue full
// is missed. See Topic. If the Spot moves to another node its subscriptions go along; what is published
// between the end of the one and the begin of the other, for some milliseconds, is missed.
//
// Kinds: InvalidOperation, it is an Instance Spot, its type has no OnTopic, no such topic can
// be, or the turn is in a yielded wait; CapacityExceeded, the Spot subscribes to 1,024
// topics, or as of the function Subscribe; Unavailable.
func (c *SpotCall) Subscribe(topic string) error { return c.inner.Subscribe(topic) }

// Unsubscribe ends what Subscribe began: none of the topic's messages has a turn any more,
// also of those that are queued. If the Spot does not subscribe to it, nothing happens.
//
// Kinds: as of Subscribe, but CapacityExceeded.
func (c *SpotCall) Unsubscribe(topic string) error { return c.inner.Unsubscribe(topic) }

// Topic returns the topic of a message for OnTopic; "" in all other turns.
func (c *SpotCall) Topic() string { return c.inner.Topic() }
