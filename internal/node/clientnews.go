package node

import (
	"slices"
	"sync"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
)

// This file is how an Actor and its Spot learn that a bound client has lost its connection
// and may come back, that it is back, and that it is gone.
//
// A reserved Session's owner says once to each Actor's owner that the client is away. It never
// says that the client is back: it comes back to another Session, whose bind replaces the
// binding and ends what was said of it; else the binding ends.

// disconnectsMax is how many notices of lost clients may wait for turns of Spots before no
// further Actor is bound. A binding gives rise to two at most: that its client is away, and
// then that it is gone or back. So they are bounded by it and by the bindings that stood then.
const disconnectsMax = 65_536

var errDisconnectsFull = &Error{
	Kind: errkind.CapacityExceeded,
	Text: "the spots of the node have too many lost clients to hear of; a callback such as OnDisconnectActor is too slow for how many leave",
}

// clientNews is what a Spot is told of the client of an Actor in it.
type clientNews uint8

const (
	clientGone clientNews = iota // the binding is over
	clientAway                   // it has lost its connection, and its Session is reserved
	clientBack                   // it was away, and the Actor is bound to another Session
)

// callback returns the Spot's own for it; nil: it has none.
func (w clientNews) callback(t *ObjectType) (name string, f func(c *Call, instance any, actor ActorRef) error) {
	switch w {
	case clientAway:
		return "OnReconnectingActor", t.OnReconnectingActor
	case clientBack:
		return "OnReconnectedActor", t.OnReconnectedActor
	default:
		return "OnDisconnectActor", t.OnDisconnectActor
	}
}

// spotNotice is one of them that waits for the Spot's turn. ended, if not nil, is called when
// the Spot has been told, or has ended.
type spotNotice struct {
	news  clientNews
	actor ActorRef
	ended func(*Error)
}

// spotNews is what a Spot is told next, one in each turn. It is apart from these turns because
// one in which the node may not act is put off, behind others perhaps: what it then finds is
// still the oldest.
type spotNews struct {
	mu      sync.Mutex
	waiting []spotNotice
}

func (s *spotNews) put(m spotNotice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, m)
}

func (s *spotNews) take() spotNotice {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.waiting[0]
	s.waiting[0] = spotNotice{}
	if s.waiting = s.waiting[1:]; len(s.waiting) == 0 {
		s.waiting = nil
	}
	return m
}

// behind returns what is told behind so many others.
func (s *spotNews) behind(others int) spotNotice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[others]
}

// takeBehind takes it.
func (s *spotNews) takeBehind(others int) spotNotice {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.waiting[others]
	s.waiting = slices.Delete(s.waiting, others, others+1)
	return m
}

// tellSpot tells the Actor's Spot, in the Spot's own turn, what has become of the client:
// once for each binding that it is gone (MB-03, MB-04). ended, if not nil, is called when it
// has been told, or has ended.
func (n *Node) tellSpot(news clientNews, spot *objectCell, actor ActorRef, ended func(*Error)) {
	if spot != nil {
		if _, f := news.callback(spot.typ); f != nil {
			n.disconnects.Add(1)
			spot.news.put(spotNotice{news, actor, ended})
			n.tellNext(spot)
			return
		}
	}
	if ended != nil {
		ended(nil)
	}
}

// tellNext has a turn of the Spot take what it is told next. There is one for each notice.
func (n *Node) tellNext(spot *objectCell) {
	turn := controlMessage(func(t *turn) {
		if t.refused == nil && !n.mayAct(clock.Now()) {
			n.late.add(func() { n.tellNext(spot) })
			return
		}
		m := spot.news.take()
		defer n.told(&m) // also if the callback ends its goroutine
		if t.refused == nil {
			name, f := m.news.callback(spot.typ)
			_ = spot.callback(t.claim, name, clock.Never, func(c *Call) error { return f(c, spot.instance, m.actor) })
		}
	})
	turn.packet = newsPacket
	spot.box.PushLifecycle(turn)
}

// told is for a notice that the Spot, or its next node, has.
func (n *Node) told(m *spotNotice) {
	n.disconnects.Add(-1)
	if m.ended != nil {
		m.ended(nil)
	}
}

// goesOn takes the connection's end, and reports whether the Session goes on without it. If so
// as it is reserved, the owners of its Actors are told that its client is away; what is bound
// to it from then on is told as it is bound. Loop only.
func (s *sessionConn) goesOn(k *keep, reason engine.CloseReason, why *Disconnect) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	goesOn, reserved := k.reserves(reason, why)
	if s.away = reserved; reserved {
		for _, b := range s.routes.Load().byActor {
			b.tellAway(s.id)
		}
	}
	return goesOn
}

// tellAway tells the Actor's owner that the client of that Session is away. The Session's mu
// is held.
func (b *sessionBinding) tellAway(session uint64) {
	switch {
	case b.ended:
	case b.cell != nil:
		key := bindingKey{session: session, gen: b.gen}
		b.cell.ended(func(t *turn) { t.clientAway(key) })
	default:
		b.link.sendControl(&wire.SessionReconnecting{BindingName: b.name(session)})
	}
}

// clientAway notes such a word. At most one of an Actor waits for its turn, however many come,
// and none from where its Session is not. None is missed for another: a Session's owner says
// it of a binding that it has been told to stand, so all that it said of the Actor's binding
// before has had its turn.
func (l *linkConn) clientAway(r *wire.SessionReconnecting) {
	cell, ok := l.bound.LoadBytes(r.ID)
	if !ok || cell.ref.ObjectGen != r.ObjGen {
		return
	}
	key := l.bindingKey(&r.BindingName)
	if cell.away.Swap(&key) != nil {
		return
	}
	cell.ended(func(t *turn) { t.clientAway(*cell.away.Swap(nil)) })
}

// clientAway notes that the bound client is away, and tells the Actor's Spot: once for a
// binding. Of another binding than the Actor's present one it is no news.
func (t *turn) clientAway(key bindingKey) {
	if t.refused != nil || t.cell.binding.key != key || t.cell.binding.away {
		return
	}
	t.cell.binding.away = true
	t.node.tellSpot(clientAway, t.cell.spotNow(), t.cell.ref, nil)
}

// Reconnecting reports whether the client of the bound Session has lost its connection and may
// come back; see the public package.
func (c *Call) Reconnecting() bool {
	mustBeInTurn(c.cell != nil)
	return c.cell.binding.stands() && c.cell.binding.away
}
