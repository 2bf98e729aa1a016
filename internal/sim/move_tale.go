package sim

import "github.com/zlnode/zlnode/store"

// This file is the oracle of bindings: how each of them ends.

// tale is what became of a binding.
type tale struct {
	of                     store.ObjectGen
	replaced, disconnected int
	by                     uint64 // the Session that has replaced it
	renewed                bool   // by its own Session
}

func (b *book) tale(key bindingKey) *tale {
	k := identity{key.session, key.gen}
	if b.bindings[k] == nil {
		b.bindings[k] = new(tale)
	}
	return b.bindings[k]
}

// disconnected is told when the Actor's Spot is (MB-04). Its client must be lost: its Session
// over or about to be, or parted with it, or on another side of a lost link; one that is reserved
// is not.
func (b *book) disconnected(a *actor, key bindingKey) {
	b.w.Cover.Mark("disconnected")
	s := b.sessions[key.session]
	ends := s.closed || s.h.dead || s.keep != nil && s.keep.why != ""
	if to := s.to(a.ref.id); !ends && to != nil && to.gen == key.gen && !to.ended && (key.link == nil || !key.link.over()) {
		b.w.fail("MB-04", "the client of binding %d of session %d to %s is called lost, and the session goes on", key.gen, key.session, a.ref.id)
	}
	if t := b.tale(key); t.disconnected+t.replaced > 0 {
		b.w.fail("MB-04", "the client of binding %d of session %d to %s is lost for the %d. time", key.gen, key.session, a.ref.id, t.disconnected+t.replaced+1)
	}
	b.tale(key).disconnected++
}

// replaced is told when an Actor's owner tells a Session that another one has the Actor.
func (b *book) replaced(at ref, key, by bindingKey) {
	b.w.Cover.Mark("a session was replaced")
	if t := b.tale(key); t.disconnected+t.replaced > 0 {
		b.w.fail("MB-04", "binding %d of session %d to %s is replaced when it was over", key.gen, key.session, at.id)
	}
	b.tale(key).replaced++
	b.tale(key).by = by.session
}

// registers is told of each binding that an Actor gets.
func (b *book) registers(a *actor, key bindingKey) {
	b.tale(key).of = a.ref.gen
	b.order = append(b.order, identity{key.session, key.gen})
}

// renewed is told that a Session has bound its Actor by another binding.
func (b *book) renewed(key bindingKey) {
	b.tale(key).replaced++
	b.tale(key).renewed = true
}

// actsFor checks what a client's packet does: nothing of a binding that is over, be it by a
// resumption (FO-15), and nothing behind a later packet of that client by whatever Session.
func (b *book) actsFor(o *op, a *actor, key *bindingKey) {
	if t := b.tale(*key); t.disconnected+t.replaced > 0 {
		b.w.fail("FO-15", "%v is executed by binding %d of session %d, which is over", o, key.gen, key.session)
	}
	k := sight{o.conn.client, a.ref.gen}
	if b.acted[k] >= o.seq {
		b.w.fail("I2", "%v of a client is executed behind its packet %d", o, b.acted[k])
	}
	b.acted[k] = o.seq
}

// expectTold checks that the end of each binding was told (MB-04).
func (m *moves) expectTold(when string) {
	b := &m.book
	for _, k := range b.order {
		t := b.bindings[k]
		f := b.of[t.of]
		if t.disconnected+t.replaced > 0 || f.gone {
			continue
		}
		p := m.w.find(f.owner.RID, f.owner.Lifecycle)
		if p == nil {
			continue
		}
		a := p.host.actors[f.id]
		if a == nil || a.ref.gen != f.gen || a.gone || a.stuck != "" || a.tenure != owned || f.doubt {
			continue
		}
		if a.binding.key.session != k.session || a.binding.key.gen != k.gen {
			m.w.fail("MB-04", "%s nobody has told %s of the end of binding %d of session %d", when, f.id, k.gen, k.session)
		}
	}
}
