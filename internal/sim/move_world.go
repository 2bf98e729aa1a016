package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// moves is what a world of moves has: Actors that go from room to room and from node to
// node while writers and clients talk to them.
type moves struct {
	w          *World
	ids, rooms []string
	clients    []*client
	book       book
	missing    map[string]bool
	marks      []mark // what a failover may go back to

	relocations, joins int
	drains             bool // nodes are relocated
	crowd              bool // Actors are asked to join rooms at the beginning

	// Settings of the run.
	places                 int // of moves that leave a process
	timing                 relay.Timing
	follow                 time.Duration
	wide, bound            []bool
	rivals                 int           // clients of each Actor that is bound
	restless               int           // 256ths, of what clients do to their bindings
	grace                  time.Duration // for a client that has lost its connection; 0: none
	keepMax, reservedMax   int           // pushes of a Session, and Sessions of a node, that are kept for it
	rejects, breaks, drags int           // 256ths
}

type mark struct {
	at       time.Duration
	failover func()
}

// MoveKinds are the kinds of runs of moves. Seed n is of kind n modulo their number.
var MoveKinds = []Kind{
	{Name: "moves, calm", moves: true},
	{Name: "moves, store", moves: true, store: true},
	{Name: "moves, network", moves: true, network: true},
	{Name: "moves, process", moves: true, process: true},
	{Name: "moves, swarm", moves: true, store: true, network: true, process: true},
}

// DrainKinds are those in which nodes are relocated, too.
var DrainKinds = []Kind{
	{Name: "drains, calm", moves: true, drains: true},
	{Name: "drains, store", moves: true, drains: true, store: true},
	{Name: "drains, network", moves: true, drains: true, network: true},
	{Name: "drains, process", moves: true, drains: true, process: true},
	{Name: "drains, swarm", moves: true, drains: true, store: true, network: true, process: true},
}

// The leases of a world of moves know of epochs; elsewhere there is one.
func (w *World) leasing() lease.Config {
	c := leasing
	if w.moves == nil {
		c.Hold = -1
	}
	return c
}

const (
	recoveryHold = 20 * time.Second
	movesStart   = recoveryHold + time.Second // nothing is made before
	// moveSettleTime is enough for the validity of the last moves, for leases, follows and for
	// what is late.
	moveSettleTime = 160 * time.Second
)

func (w *World) newMoves(k Kind) *moves {
	w.Settings = Settings{Faults: k.draw(w.Tape), nodes: 3 + w.choose(2), hold: recoveryHold, actorsMax: [...]int{0, 0, 2}[w.choose(3)]}
	w.manual = k.network && w.choose(3) == 2
	rare := func(strong int) int { return [...]int{0, strong / 4, strong}[w.choose(3)] }
	m := &moves{
		w: w, places: [...]int{16, 1}[w.choose(2)],
		timing: relay.Timing{
			Wait: timing.Wait, WaitMax: timing.WaitMax, Settle: settleWait, CutoverWait: time.Second, SealTimeout: sealTimeout,
			Validity: [...]time.Duration{30, 10}[w.choose(2)] * time.Second, Prepared: 5 * time.Second,
		},
		follow:  [...]time.Duration{10, 30, 1, 0}[w.choose(4)] * time.Second,
		rejects: rare(60), breaks: rare(40), drags: rare(60),
	}
	for n := range 1 + w.choose(3) {
		m.ids = append(m.ids, fmt.Sprint("actor", n))
		m.bound = append(m.bound, w.choose(2) == 0)
	}
	for n := range 1 + w.choose(3) {
		m.rooms = append(m.rooms, fmt.Sprint("room", n))
		m.wide = append(m.wide, w.choose(2) == 1)
	}
	m.rivals, m.restless = 1+w.choose(2), [...]int{0, 40, 160}[w.choose(3)]
	m.grace = [...]time.Duration{0, 3, 10, 1}[w.choose(4)] * time.Second
	m.keepMax, m.reservedMax = [...]int{1_000, 6}[w.choose(2)], [...]int{16, 1}[w.choose(2)]
	m.book, m.missing = newBook(m), map[string]bool{}
	if m.drains = k.drains; m.drains {
		m.moreOfAll()
	}
	return m
}

// moreOfAll is for a world of drains: more Actors, of which some are in rooms from the beginning.
func (m *moves) moreOfAll() {
	w := m.w
	for n := len(m.ids); n < 3+w.choose(3); n++ {
		m.ids, m.bound = append(m.ids, fmt.Sprint("actor", n)), append(m.bound, w.choose(2) == 0)
	}
	if !slices.Contains(m.wide, true) {
		m.wide[0] = true
	}
	m.crowd = w.choose(3) > 0
	w.actorsMax, w.spotsMax = [...]int{0, 0, len(m.ids), 3}[w.choose(4)], [...]int{0, 0, 2}[w.choose(3)]
}

// playMoves plays a world of moves.
func (w *World) playMoves(k Kind) {
	var m *moves
	chaos, settle := chaosTime, moveSettleTime
	if w.script != nil {
		m, chaos, settle = w.newScriptMoves(), scriptTime, scriptSettle
	} else {
		m = w.newMoves(k)
	}
	w.moves = m
	w.ledger = ledger{w: w, of: map[store.ObjectGen]*incarnation{}, last: map[string]*incarnation{}}
	w.newStore()
	faults := w.Faults
	w.Faults = Faults{}
	for n := range w.nodes {
		w.slots = append(w.slots, &slot{rid: fmt.Sprint("n", n+1)})
		w.apart = append(w.apart, make([]time.Duration, w.nodes))
		w.restart(n, 0)
	}
	w.advance(movesStart)
	m.begin()
	w.Faults = faults
	if w.script != nil {
		m.tell()
	} else {
		w.post(0, nil, w.nemesis)
		m.schedule()
	}
	w.advance(movesStart + chaos)
	w.heal()
	m.rejects, m.breaks, m.drags = 0, 0, 0
	w.advance(w.now + settle)
	m.expectRest("after the faults")
	m.expectAnswers()
	m.expectNothing()
}

// begin makes the Actors and rooms, each at a node.
func (m *moves) begin() {
	for n, id := range m.rooms {
		m.make(m.w.slots[(n+1)%m.w.nodes].process, id, store.UserSpot, m.wide[n])
	}
	for n, id := range m.ids {
		m.make(m.w.slots[n%m.w.nodes].process, id, store.Actor, false)
	}
	m.beginClients()
}

// make creates an object at a process, without the way that a creation goes: that is
// another world's.
func (m *moves) make(p *process, id string, kind store.Kind, wide bool) {
	w := m.w
	if p == nil || p.dead || p.paused || !p.serving || !p.mayAct() || p.stopping {
		return
	}
	typ := actorTypes[0]
	if kind == store.UserSpot {
		typ = spotType
	}
	h := p.host
	if h.actors[id] != nil || h.rooms[id] != nil { // an earlier incarnation is ending
		return
	}
	op := store.OperationKey{SourceRID: p.rid, SourceLifecycle: p.lease.Gen, Op: h.newOp()}
	c, err := w.store.Reserve(background, store.Reserve{
		ID: id, Kind: kind, Type: typ, Wide: wide, Op: op, TargetRID: p.rid, TargetLifecycle: p.lease.Gen, Timeout: time.Second,
	})
	if err != nil || c.Reason != store.Applied {
		return
	}
	c, err = w.store.Finish(background, store.Finish{Fence: store.FenceOf(&c.Record), Op: op, Result: store.Created})
	if err != nil || c.Reason != store.Applied {
		w.fail("I8", "%s could not be made: %v %v", id, c.Reason, err)
		return
	}
	row := &c.Record
	w.note(p, "makes", id, "", uint64(row.ObjectGen))
	if kind == store.UserSpot {
		h.rooms[id] = &room{cell: cell{h: h, ref: refOf(row), version: row.Version, epoch: row.Epoch}, wide: wide}
		return
	}
	a := &actor{cell: cell{h: h, ref: refOf(row), version: row.Version, epoch: row.Epoch}, cur: open{}, told: true}
	h.actors[id] = a
	m.book.made(a)
}

// mark notes a state of the Store to which a failover may go back.
func (m *moves) mark() {
	if m.w.Failover == 0 && m.w.script == nil {
		return
	}
	m.marks = slices.DeleteFunc(m.marks, func(k mark) bool { return k.at < m.w.now-lagMax })
	m.marks = append(m.marks, mark{m.w.now, m.w.store.Mark()})
}

// lagMax is how old a change can be that a failover loses.
const lagMax = 2 * time.Second

// failover loses the last changes, of which there are n.
func (m *moves) failover(n int) {
	w := m.w
	kept := slices.DeleteFunc(slices.Clone(m.marks), func(k mark) bool { return k.at < w.now-lagMax })
	w.Cover.Mark("failover")
	if len(kept) == 0 || n == 0 {
		w.note(nil, "fails over", "", "nothing is lost", 0)
		if _, err := w.store.RaiseEpoch(background); err != nil {
			w.fail("I8", "%v", err)
		}
	} else {
		w.note(nil, "fails over", "", fmt.Sprint("and loses ", min(n, len(kept)), " changes"), 0)
		w.Cover.Mark("failover that lost changes")
		kept[max(len(kept)-n, 0)].failover()
		m.book.lostPast()
	}
	m.marks = nil
}

// drawTurn is how long a handler takes, and drawFactory a factory or a decision.
func (m *moves) drawTurn() time.Duration {
	if m.w.chance(m.drags) {
		return [...]time.Duration{20, 300, 1_500}[m.w.choose(3)] * time.Millisecond
	}
	return [...]time.Duration{50, 200, 2_000}[m.w.choose(3)] * time.Microsecond
}

func (m *moves) drawFactory() time.Duration {
	if m.w.chance(m.drags) {
		return [...]time.Duration{200, 1_200, 7_000}[m.w.choose(3)] * time.Millisecond
	}
	return [...]time.Duration{100, 400, 5_000}[m.w.choose(3)] * time.Microsecond
}

// schedule draws what is said and asked for.
func (m *moves) schedule() {
	w := m.w
	for range 6 + w.choose(16) { // a burst is a Join with what is said around it
		at := movesStart + time.Duration(w.choose(256))*chaosTime/300
		id := m.ids[w.choose(len(m.ids))]
		w.post(at-w.now, nil, func() { m.burst(id) })
	}
	for range w.choose(6) {
		at := movesStart + time.Duration(w.choose(256))*chaosTime/300
		w.post(at-w.now, nil, m.destroySomething)
	}
	w.post(2*time.Second, nil, m.tend)
	if !m.drains {
		return
	}
	m.scheduleDrains()
	for _, id := range m.ids {
		if m.crowd {
			w.post(time.Duration(w.choose(16))*10*time.Millisecond, nil, func() {
				m.say(id, &plan{slot: -1, spot: m.rooms[w.choose(len(m.rooms))], timeout: 5 * time.Second})
			})
		}
	}
}

// burst has an Actor asked to join a Spot, and some writers talk to it meanwhile.
func (m *moves) burst(id string) {
	w := m.w
	join := &plan{slot: -1, timeout: [...]time.Duration{5_000, 10_000, 1_000, 300}[w.choose(4)] * time.Millisecond}
	switch w.choose(4) {
	case 0, 1:
		join.spot = m.rooms[w.choose(len(m.rooms))]
	case 2:
		join.slot = w.choose(w.nodes)
	}
	step := [...]time.Duration{1, 20, 200, 500}[w.choose(4)] * time.Millisecond
	many := 4 + w.choose(12)
	when := w.choose(4)
	after := time.Duration(when)*step/4 + [...]time.Duration{500, 1_500, 4_000, 12_000}[w.choose(4)]*time.Microsecond
	if m.grace > 0 && w.choose(4) == 3 { // its client is lost about then, or talks
		w.post(after, nil, func() { m.withClient(id, func(c *client) { c.stumble() }) })
	} else {
		w.post(after, nil, func() { m.withClient(id, func(c *client) { c.say(c.conn, id) }) })
	}
	for n := range many {
		w.post(time.Duration(n)*step/4, nil, func() {
			var p *plan
			if n == when {
				p = join
			}
			m.say(id, p)
		})
	}
}

// withClient does something with the client that is bound to that Actor, if there is one.
func (m *moves) withClient(id string, do func(c *client)) {
	for _, c := range m.clients {
		if s := c.conn; s != nil && s.bars() == nil && !s.h.dead && s.to(id) != nil && !s.to(id).ended {
			do(c)
			return
		}
	}
}

// say has a writer of some node say something to the Actor.
func (m *moves) say(id string, p *plan) {
	w := m.w
	h := m.somebody()
	if h == nil {
		return
	}
	for len(h.writers) < 2 {
		w.ops++
		h.writers = append(h.writers, &writer{h: h, name: fmt.Sprintf("%s.%d", h.name(), len(h.writers))})
	}
	m.book.ops++
	h.writers[w.choose(2)].write(&op{
		n: m.book.ops, id: id, asks: w.choose(2) == 1, join: p, timeout: [...]time.Duration{5_000, 30_000, 500}[w.choose(3)] * time.Millisecond,
	})
}

func (m *moves) somebody() *host {
	p := m.w.slots[m.w.choose(m.w.nodes)].process
	if p == nil || p.dead || p.paused || !p.serving {
		return nil
	}
	return p.host
}

// destroySomething has an Actor destroyed or a room closed.
func (m *moves) destroySomething() {
	w, h := m.w, m.somebody()
	all := append(slices.Clone(m.ids), m.rooms...)
	id := all[w.choose(len(all))]
	row, found, _ := w.store.Read(background, id)
	if h == nil || !found {
		return
	}
	w.note(h.process, "wants an end of", id, "", uint64(row.ObjectGen))
	h.destroy(id, row.ObjectGen, func(gone bool, f *failure) { m.destroyed(h, id, row.ObjectGen, gone, f) })
}

func (m *moves) destroyed(h *host, id string, gen store.ObjectGen, gone bool, f *failure) {
	text := fmt.Sprint(gone)
	if f != nil {
		text = f.text
	}
	m.w.note(h.process, "end of", id, text, uint64(gen))
	if gone {
		m.w.Cover.Mark("destroyed")
	}
}

// tend is what an operator does: what died is freed and made anew.
func (m *moves) tend() {
	w := m.w
	if w.healed {
		return
	}
	w.post(4*time.Second, nil, m.tend)
	for n, id := range append(slices.Clone(m.ids), m.rooms...) {
		row, found, _ := w.store.Read(background, id)
		switch h := m.somebody(); {
		case h == nil:
		case !found && !m.missing[id]: // an id is used again when no failover brings the one before back
			m.missing[id] = true
			continue
		case !found && n < len(m.ids):
			m.make(h.process, id, store.Actor, false)
		case !found:
			m.make(h.process, id, store.UserSpot, m.wide[n-len(m.ids)])
		case row.LeaseLeft <= 0, m.isStuck(&row):
			h.destroy(id, row.ObjectGen, func(gone bool, f *failure) { m.destroyed(h, id, row.ObjectGen, gone, f) })
		}
		delete(m.missing, id)
	}
}

// isStuck reports whether the row's owner lists the object as one that does not go on.
func (m *moves) isStuck(row *store.Authority) bool {
	p := m.w.find(row.RID, row.LeaseGen)
	if p == nil {
		return false
	}
	if r := p.host.rooms[row.ID]; r != nil {
		return r.stuck != ""
	}
	a := p.host.actors[row.ID]
	return a != nil && a.stuck != ""
}

func (m *moves) serves(h *host) {
	for _, c := range m.clients {
		if c.slot == h.slot {
			m.w.post(time.Millisecond, nil, c.connect)
		}
	}
}
