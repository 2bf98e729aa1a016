package node

import (
	"cmp"
	"maps"
	"slices"

	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
)

// This file is what a Spot takes along that Actors do not have: its subscriptions, and what it has
// yet to be told of its members' clients.

// subscription is one that a Spot has brought.
type subscription struct {
	topic  string
	number uint64
}

// subscriptions writes those of a Spot, in the order in which they began. Under the claim.
func (c *objectCell) subscriptions() (topics []byte) {
	all := slices.SortedFunc(maps.Values(c.topics), func(a, b *subscriber) int { return cmp.Compare(a.number, b.number) })
	for _, s := range all {
		topics = wire.AppendSubscription(topics, s.topic, s.number)
	}
	return topics
}

// subscribeAgain makes a Spot that has come a subscriber to what it was one before, under the same
// numbers, which messages that came with it have. A topic for which the node has no room is lost.
// Under the claim.
func (c *objectCell) subscribeAgain(all []subscription, began uint64) {
	n, home := c.node, &c.node.home.topics
	c.began = began
	for _, s := range all {
		if len(c.typ.topics) == 0 || c.topics[s.topic] != nil {
			continue
		}
		now := &subscriber{topic: s.topic, in: home, cell: c, number: s.number, packets: home.packetsOf(c.typ, s.topic)}
		if full := home.add(now); full != nil {
			n.log.Error().Str("spot", clip(c.ref.ID)).Str("topic", clip(s.topic)).Str("error", clip(full.Error())).
				Msg("a spot that was moved here has lost a subscription")
			continue
		}
		if c.topics == nil {
			c.topics = map[string]*subscriber{}
		}
		c.topics[s.topic] = now
	}
}

// tellsNews reports whether the message is a turn in which a Spot is told of a client.
func (m *message) tellsNews() bool { return m.packet == newsPacket || m.packet.news != nil }

// carriedNews is a notice as it goes on to the Spot's next node.
func (n *Node) carriedNews(m *spotNotice, hops uint8) wire.Carried {
	at := process{m.actor.RID, m.actor.Lifecycle}
	return wire.Carried{
		Kind: wire.CarriedNews, Spot: true, ObjGen: m.actor.ObjectGen, Origin: at.wire(), Number: m.actor.OwnerGen,
		Hops: hops, Name: []byte(m.actor.ID), Codec: uint8(m.news),
	}
}

// newsCarried makes of it the turn in which the Spot is told.
func newsCarried(w *wire.Carried, at process, s sender) message {
	told := &spotNotice{news: clientNews(w.Codec), actor: ActorRef{
		ID: string(w.Name), ObjectGen: w.ObjGen, RID: at.rid, Lifecycle: at.lifecycle, OwnerGen: w.Number,
	}}
	m := controlMessage(func(t *turn) {
		if t.refused == nil {
			told.actor.Mesh = t.node.home.cfg.Name
			t.node.tellSpot(told.news, t.cell, told.actor, nil)
		}
	})
	s.kind = msgControl
	m.sender, m.packet = s, &packetType{news: told}
	return m
}

// passNews relays a notice in place of the turn in which the Spot would be told.
func (v *mover) passNews(claim *mailbox.Claim[message], m *message, kept mailbox.Kept) {
	n := v.cell.node
	gen, err := v.passable(claim.Now(), m)
	if err != nil {
		claim.Release(kept)
		m.refuse(n, err)
		return
	}
	told := m.packet.news
	if told == nil {
		taken := v.cell.news.takeBehind(v.savedNews)
		told = &taken
		n.told(told)
	}
	w := n.carriedNews(told, m.hops()+1)
	w.OwnerGen = gen
	from := m.handOn()
	m.done()
	v.passCarried(claim, &w, from, kept)
}

// newsHome has the Spot told that has come back to this node.
func (v *mover) newsHome(m *message) {
	n, told := v.cell.node, m.packet.news
	if told == nil {
		taken := v.cell.news.take()
		told = &taken
		n.told(told)
	}
	n.tellSpot(told.news, v.home, told.actor, nil)
	m.done()
}

// capturedNews is the notice of a turn that is saved, behind so many others that wait.
func (v *mover) capturedNews(m *message, others int) *spotNotice {
	if m.packet.news != nil {
		return m.packet.news
	}
	told := v.cell.news.behind(others)
	return &told
}

// missed is for a message of a topic that comes behind the cutover: the subscription here is over.
func (v *mover) missed(m *message) {
	v.cell.node.counters.copiesMissed.Add(1)
	m.done()
}
