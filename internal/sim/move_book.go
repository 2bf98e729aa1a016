package sim

import (
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// book is the oracle of a world of moves: its own account of who owns what, what was said
// and what was executed, by object generation and operation.
type book struct {
	w       *World
	of      map[store.ObjectGen]*life
	all     []*life
	ops     int // operations that were made
	said    []*op
	conns   uint64
	accepts int
	joins   []*joinRecord
	moves   map[store.RelocationID]*moveRecord
	wholes  map[store.RelocationID]*wholeRecord
	drains  []*drain
	last    map[path]int  // what was executed last of what came by one way
	seen    map[sight]int // the last position that a client was shown
	acted   map[sight]int // the last packet of a client that was executed

	sessions map[uint64]*conn // all that there ever were
	bindings map[identity]*tale
	order    []identity // of those that an Actor has had
}

// life is one incarnation of an Actor.
type life struct {
	id      string
	gen     store.ObjectGen
	owner   place // by the last change that was applied
	as      store.OwnerGen
	history []int // of executed operations
	running *host // a turn of it
	opened  map[store.OwnerGen]place
	gone    bool // its row was removed
	doubt   bool // the Store may have lost what it said of it, and its owner has not written it again
}

// op is something that is said to an Actor once.
type op struct {
	n        int
	id       string
	writer   string
	seq      int
	asks     bool
	client   bool
	conn     *conn
	join     *plan
	timeout  time.Duration
	origin   *host
	deadline clock.Mono

	accepted bool // some process took it
	ran      int
	ranAs    *life
	refused  int // by who had it
	ended    int // told to its origin
	excused  bool
	last     reply
}

func (o *op) String() string { return fmt.Sprintf("%s.%d #%d to %s", o.writer, o.seq, o.n, o.id) }

// path is a way on which order is promised: of one writer by one link to one place, or of a
// client's binding.
type path struct {
	writer string
	link   *link
	cell   *actor
	gen    uint64
	hops   int // to where it is executed
	accept int // not part of it: when it was accepted
}

func (p path) way() path { p.accept = 0; return p }

type showing struct {
	conn uint64
	gen  uint64
}

// identity is that of a binding.
type identity struct{ session, gen uint64 }

// sight is what one client sees of one incarnation, by whatever Session.
type sight struct {
	client *client
	gen    store.ObjectGen
}

type joinRecord struct {
	j        *join
	life     *life
	changed  bool // the Store has it
	ended    int
	how      outcome
	endedAt  *host
	movement *moveRecord
}

// wholeRecord is the move of a room.
type wholeRecord struct {
	o         *leaving
	boundary  bool
	committed bool
}

type moveRecord struct {
	o         *leaving
	quiet     bool // by the Actor's node: no callback runs
	life      *life
	join      *joinRecord
	from, to  place
	captured  []int
	boundary  bool // relay-ready was accepted
	committed bool // the Store has applied it
	aborted   bool // or its end
	nowhere   bool // its source says that no commit applies any more
	dropped   bool // its target has, also one whose commit the Store has lost
	joined    int
	left      int
	asked     int
}

func newBook(m *moves) book {
	return book{
		w: m.w, of: map[store.ObjectGen]*life{}, moves: map[store.RelocationID]*moveRecord{}, wholes: map[store.RelocationID]*wholeRecord{}, last: map[path]int{}, seen: map[sight]int{}, acted: map[sight]int{}, sessions: map[uint64]*conn{}, bindings: map[identity]*tale{},
	}
}

func (b *book) made(a *actor) {
	f := &life{id: a.ref.id, gen: a.ref.gen, owner: a.ref.at, as: a.ref.owner, opened: map[store.OwnerGen]place{a.ref.owner: a.ref.at}}
	b.of[f.gen] = f
	b.all = append(b.all, f)
}

// changed is told of each change that the Store was asked for.
func (b *book) changed(h *host, what string, c *store.Change, err error) {
	if isRemoval[what] && err == nil && c.Reason == store.Applied {
		for _, f := range b.all {
			row, found, _ := b.w.store.Read(background, f.id)
			known := !f.doubt || what != "free" && f.owner == h.self() && !h.runs(f) // else the Store has lost it, and its owner is to write it again
			f.gone = f.gone || known && (!found || row.ObjectGen != f.gen)
		}
	}
	row := &c.Record
	f := b.of[row.ObjectGen]
	if err == nil && c.Reason == store.Applied && row.Kind == store.UserSpot && c.Found {
		b.changedRoom(h, what, row)
		return
	}
	if err != nil || c.Reason != store.Applied || f == nil || row.Kind != store.Actor && c.Found {
		return
	}
	switch what {
	case "commit move":
		if row.OwnerGen != f.as+1 {
			b.w.fail("I7", "%s #%d got owner generation %d behind %d", f.id, f.gen, row.OwnerGen, f.as)
		}
		f.owner, f.as = refOf(row).at, row.OwnerGen
		b.committed(row)
	case "reassert":
		if row.OwnerGen < f.as {
			b.w.Cover.Mark("a row was written again of an earlier owner")
		}
		a := h.actors[f.id] // an owner who has it and did not hear that it was freed may write it again in a new epoch
		if f.gone && !f.doubt && (a == nil || a.gone || a.ref.gen != f.gen || a.ends()) {
			b.w.fail("I12", "the row of %s #%d was removed, and is back by a re-assertion of %s", f.id, f.gen, h.name())
		}
		f.owner, f.as, f.doubt, f.gone = refOf(row).at, row.OwnerGen, false, false
	case "abort move", "give up move", "sweep":
		for _, m := range b.moves {
			if m.life == f && !m.committed && m.o.id == b.lastMove(f) {
				m.aborted = true
			}
		}
	}
	b.acts(h)
}

// ends reports whether the Actor's row is being removed.
func (a *actor) ends() bool {
	_, held := a.cur.(*hold)
	return held && a.join == nil
}

// runs reports whether the process has that incarnation and is not ending it.
func (h *host) runs(f *life) bool {
	a := h.actors[f.id]
	return a != nil && a.ref.gen == f.gen && a.cur == (open{})
}

var isRemoval = map[string]bool{"delete": true, "delete orphan": true, "free": true}

// lostPast is told that the Store has lost its last changes.
func (b *book) lostPast() {
	for _, f := range b.all {
		f.doubt = true
		if row, found, _ := b.w.store.Read(background, f.id); found && row.ObjectGen == f.gen {
			f.gone = false // its removal is lost, too
		}
	}
}

// lastMove is the latest move of an incarnation.
func (b *book) lastMove(f *life) (id store.RelocationID) {
	for at, m := range b.moves {
		if m.life == f && (at[0] > id[0] || at[0] == id[0] && at[1] > id[1]) {
			id = at
		}
	}
	return id
}

func (b *book) committed(row *store.Authority) {
	f := b.of[row.ObjectGen]
	m := b.moves[b.lastMove(f)]
	if m == nil || m.to != refOf(row).at {
		b.w.fail("I7", "a move of %s to %s was committed that was not its last", row.ID, row.RID)
		return
	}
	if m.aborted || m.nowhere {
		b.w.fail("I5", "the move of %s to %s was committed behind its end", row.ID, row.RID)
	}
	m.committed = true
	b.w.Cover.Mark("committed moves")
	if !m.boundary {
		b.w.Cover.Mark("committed before relay-ready was accepted")
	}
}

// acts checks that what a process may run is its own and nobody else's.
func (b *book) acts(h *host) {
	if !h.mayAct() {
		return
	}
	for _, a := range h.cells() {
		if a.cur == (open{}) && !a.gone {
			b.owns(a)
		}
	}
}

func (b *book) owns(a *actor) {
	h, f := a.h, b.of[a.ref.gen]
	if !h.mayAct() {
		return
	}
	if f.owner != h.self() || f.as != a.ref.owner || f.gone {
		b.w.fail("I1", "%s may act on %s #%d as owner %d, which is %s's as %d", h.name(), a.ref.id, a.ref.gen, a.ref.owner, f.owner.RID, f.as)
	}
	if by, was := f.opened[a.ref.owner]; was && by != h.self() {
		b.w.fail("I7", "%s has opened %s as owner %d, as %s had", h.name(), a.ref.id, a.ref.owner, by.RID)
	}
	f.opened[a.ref.owner] = h.self()
	for _, p := range b.w.living {
		if other := p.host.actors[a.ref.id]; p.host != h && other != nil && other.cur == (open{}) && !other.gone && p.mayAct() {
			b.w.fail("I1", "%s and %s may both act on %s", h.name(), p.name(), a.ref.id)
		}
	}
}

func (b *book) sent(o *op) {
	b.said = append(b.said, o)
	b.w.histories++
	what := "sends"
	if o.asks {
		what = "asks"
	}
	if o.join != nil {
		what += " for a join"
	}
	b.w.note(o.origin.process, what, o.id, o.writer, uint64(o.n))
}

// accepted is told when a queue takes a letter for the first time, or again.
func (b *book) accepted(a *actor, l *letter) {
	l.op.accepted = true
	if l.path.accept != 0 { // it has gone on
		return
	}
	b.accepts++
	l.path.accept = b.accepts
	if l.op.client {
		l.path.accept = l.op.seq
	} else {
		l.path.cell = a
	}
}

// begins is told when a turn begins.
func (b *book) begins(a *actor, l *letter) {
	w, h, o, f := b.w, a.h, l.op, b.of[a.ref.gen]
	w.note(h.process, "runs", a.ref.id, o.writer, uint64(o.n))
	b.owns(a)
	if !h.mayAct() {
		w.fail("I1", "%s runs %v while its lease is in doubt", h.name(), o)
	}
	b.together(a)
	if r := a.room; r != nil && r.wide && r.closed {
		w.fail("I13", "%v runs at %s before its room %s has opened", o, h.name(), r.ref.id)
	}
	if r := f.running; r != nil && r != h && !r.dead {
		w.fail("I1", "%s runs a turn of %s while %s does", h.name(), a.ref.id, r.name())
	}
	f.running = h
	if o.ran++; o.ran > 1 {
		w.fail("I3", "%v was executed twice", o)
	}
	o.ranAs = f
	if o.ended > 0 && o.last.fail != nil && o.last.fail.stale {
		w.fail("I6", "%v was executed, and its origin was told that it was not taken", o)
	}
	if a.came && !a.told {
		w.fail("I13", "%v runs at %s before its completion callback", o, h.name())
	}
	if len(a.state) != len(f.history) || len(a.state) > 0 && a.state[len(a.state)-1] != f.history[len(f.history)-1] {
		w.fail("I14", "%s has %s after %d operations, and %d were executed", h.name(), a.ref.id, len(a.state), len(f.history))
	}
	f.history = append(f.history, o.n)
	way := l.path.way()
	if !o.client {
		way.hops = l.hops // one that followed an Actor which came back goes another way than one that came later
	}
	if b.last[way] >= l.path.accept {
		w.fail("I2", "%v was executed behind a later one", o)
	}
	b.last[way] = l.path.accept
	if o.client {
		b.actsFor(o, a, l.session)
	}
	w.Cover.Mark("executed")
	if a.came {
		w.Cover.Mark("executed after a move")
	}
	if l.hops > 0 {
		w.Cover.Mark("executed that was carried")
	}
}

func (b *book) ends(a *actor) { b.of[a.ref.gen].running = nil }

// refused is told when who has a letter does not execute it.
func (b *book) refused(h *host, l *letter, f *failure) {
	l.op.refused++
	b.w.note(h.process, "refuses", l.op.id, f.text, uint64(l.op.n))
	if l.op.ran > 0 && f.stale {
		b.w.fail("I6", "%s says of %v that it was not taken, and it was executed", h.name(), l.op)
	}
}

// ended is told when the origin learns of the end of what it said.
func (b *book) ended(o *op, r reply) {
	o.ended++
	o.last = r
	text := "done"
	if r.fail != nil {
		text = r.fail.text
	}
	if o.asks {
		b.w.note(o.origin.process, "is told", o.id, text, uint64(o.n))
	}
	switch {
	case o.ended > 1:
		b.w.fail("I6", "%v has ended twice", o)
	case r.fail == nil && o.ran == 0:
		b.w.fail("I6", "%v has a reply, and was not executed", o)
	case o.asks && o.origin.clock() > max(o.deadline, o.origin.awake)+slack:
		b.w.fail("CR-13", "%v has ended behind its deadline", o)
	case o.asks && r.fail == nil:
		b.w.Cover.Mark("replied")
	}
}

func (b *book) shown(s *conn, e pushed) {
	b.w.Cover.Mark("shown")
	if s.replaced {
		b.w.Cover.Mark("a replaced session was shown something")
	}
	k := sight{s.client, e.of.gen}
	if b.seen[k] >= e.position {
		b.w.fail("I9", "the client of session %d was shown position %d behind %d", s.n, e.position, b.seen[k])
	}
	b.seen[k] = e.position
}

// died excuses what was at a process.
func (b *book) died(h *host) {
	excuse := func(it item) {
		if it.l != nil {
			it.l.op.excused = true
		}
	}
	for _, o := range b.said {
		if o.origin == h {
			o.excused = true
		}
	}
	each := func(a *actor) {
		for _, it := range a.queue {
			excuse(it)
		}
		b.held(a.cur, excuse)
		if f := b.of[a.ref.gen]; f != nil && f.running == h {
			f.running = nil
		}
	}
	for _, a := range h.cells() {
		each(a)
	}
	for _, o := range h.out {
		if o.r != nil {
			continue // its members are beside it
		}
		each(o.a)
		if o.join.held != nil {
			b.held(o.join.held, excuse)
		}
	}
	for _, i := range h.in {
		if i.a == nil {
			continue
		}
		each(i.a)
		b.held(i.q, excuse)
	}
	for _, s := range h.sessions {
		if s.keep != nil && s.keep.reserved {
			b.w.Cover.Mark("a node died with a reserved session")
		}
		for _, to := range s.bounds {
			if w := to.way; w != nil {
				for _, p := range w.held {
					p.o.excused = true
				}
			}
		}
	}
}

// held goes through what a consumer holds.
func (b *book) held(c consumer, each func(item)) {
	all := func(lists ...[]item) {
		for _, items := range lists {
			for _, it := range items {
				each(it)
			}
		}
	}
	switch c := c.(type) {
	case *hold:
		all(c.held)
	case *incoming:
		all(c.saved, c.relayed, c.rest)
	case *mover:
		all(c.saved, c.held)
		for s := range c.out.Again(0) {
			if s.Item.l != nil {
				each(item{l: s.Item.l})
			}
		}
	case sealed:
		b.held(c.held, each)
	}
}

// dropped is told when a process ends an Actor.
func (b *book) dropped(a *actor) {
	f := b.of[a.ref.gen]
	if f.owner == a.h.self() && f.as == a.ref.owner && !f.gone && a.tenure == owned && !a.h.stopping && !f.doubt {
		b.w.fail("I12", "%s ends %s, which is its own", a.h.name(), f.id)
	}
}
