package node

import (
	"errors"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/wire"
)

// This file is how an Actor knows what waits for its client.

// pending is the bytes that wait for the client, in the outbox and in the connection's queue.
func (s *sessionConn) pending() int64 {
	n := s.conn.Pending()
	if o := s.out.Load(); o != nil {
		n += o.bytes.Load()
	}
	return n
}

// Pending returns the bytes that wait for the client at this node, with 32 for each message.
func (s *SessionContext) Pending() int64 { return s.conn.pending() }

// Lost returns how many pushes to the client were dropped, and how many replaced by newer
// ones. Both are 0 once the Session is closed.
func (s *SessionContext) Lost() (dropped, replaced uint64) {
	o := s.conn.out.Load()
	if o == nil || o == outEnded {
		return 0, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.box.Lost()
}

// Pending returns the bytes that wait for the client of the bound Session, as far as is known
// here; see the public package.
func (c *Call) Pending() int64 {
	mustBeInTurn(c.cell != nil)
	switch b := &c.cell.binding; {
	case !b.stands():
		return 0
	case b.local != nil:
		return b.local.pending()
	default:
		return b.pending
	}
}

// pressed returns what an Actor's owner is to know now of pending bytes, if it knows told; it
// is news if that is another matter by far. Little counts as nothing.
func pressed(told, pending int64) (now int64, news bool) {
	if pending <= outLow {
		return 0, told != 0
	}
	if told == 0 {
		return pending, pending > outMark
	}
	return pending, pending >= 2*told || pending <= told/2
}

// tell lets the owners of the bound Actors know what waits for the client, if there is news
// or there are others. mu is held, so the last one that is sent is the newest. A link that is
// full takes none: it is tried again at the next look.
func (o *sessionOut) tell(now clock.Mono) {
	pending, news := pressed(o.told, o.session.pending())
	routes := o.session.routes.Load()
	if !news && (o.told == 0 || routes == o.toldTo) || now.Sub(o.toldAt) < pressureEvery {
		return
	}
	o.toldAt = now
	full := false
	for _, b := range routes.byActor {
		if b.link != nil && !b.lost() {
			err := b.link.conn.Send(encoded(&wire.Pressure{BindingName: b.name(o.session.id), Pending: uint64(min(pending, wire.MaxWindow))}))
			full = full || errors.Is(err, engine.ErrFull)
		}
	}
	if !full {
		o.told, o.toldTo = pending, routes
	}
}

// pressure is what the owner of a bound Session has said of its client.
type pressure struct {
	key     bindingKey
	pending int64
}

// pressure notes such a word. At most one of an Actor waits for its turn, however many come,
// and none from where its Session is not.
func (l *linkConn) pressure(p *wire.Pressure) {
	cell, ok := l.bound.LoadBytes(p.ID)
	if !ok || cell.ref.ObjectGen != p.ObjGen {
		return
	}
	word := &pressure{l.bindingKey(&p.BindingName), int64(p.Pending)}
	if cell.pressure.Swap(word) != nil {
		return
	}
	cell.ended(func(t *turn) {
		latest := cell.pressure.Swap(nil)
		if t.refused == nil && t.cell.binding.key == latest.key {
			t.cell.binding.pending = latest.pending
		}
	})
}
