package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// World is one run: all of it, on one goroutine.
type World struct {
	kernel
	Settings
	Cover     *Cover
	store     faultyStore
	slots     []*slot
	living    []*process // also such as sleep while another has their place
	links     []*link
	dials     int
	apart     [][]time.Duration // two slots do not link before
	names     []string          // ids of objects
	ledger    ledger
	healed    bool // no faults come any more
	processes int
	ops       int // operation ids that were drawn
	calls     int
	histories int
	moves     *moves  // nil: this world plays creations
	script    *script // of faults; nil: chance
	forced    string  // a fault of the Store's next call of a machine, by a script
}

// The types of objects, and what each run has of time.
var actorTypes = []string{"player", "trader"}

const (
	spotType   = "room"
	startTime  = 2 * time.Second
	chaosTime  = 60 * time.Second
	settleTime = 90 * time.Second // leases end, what is late arrives, each scan comes twice
	answerTime = 30 * time.Second
)

// Outcome is what a run has shown.
type Outcome struct {
	Violation *Violation // nil: none
	Tape      []byte     // all that was read of it
	Hash      uint64     // of all transitions
	Steps     int
	Histories int // calls
	Cover     *Cover
	Lines     []string // the last transitions, if they were asked for
}

// Run plays one history of the kind, and keeps the last lines of its log.
func Run(k Kind, t *Tape, lines int) Outcome { return play(k, t, lines, nil) }

func play(k Kind, t *Tape, lines int, s *script) (o Outcome) {
	w := &World{kernel: kernel{Tape: t}, Cover: NewCover(), script: s}
	w.log.keep = lines
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic", "%v", r)
		}
		o = Outcome{w.failed, t.Read(), w.log.hash, w.steps, w.histories, w.Cover, w.log.lines}
	}()
	if k.moves {
		w.playMoves(k)
		return o
	}
	w.Settings = k.settings(t)
	w.ledger = ledger{w: w, of: map[store.ObjectGen]*incarnation{}, last: map[string]*incarnation{}}
	w.newStore()
	for n := range w.ids {
		w.names = append(w.names, fmt.Sprint("id", n))
	}
	for n := range w.nodes {
		w.slots = append(w.slots, &slot{rid: fmt.Sprint("n", n+1)})
		w.apart = append(w.apart, make([]time.Duration, w.nodes))
		w.restart(n, time.Duration(w.choose(8))*100*time.Millisecond)
	}
	w.post(startTime, nil, w.nemesis)
	w.schedule()
	w.advance(startTime + chaosTime)
	w.heal()
	w.advance(w.now + settleTime)
	w.expectRest("after the faults")
	w.expectAnswers()
	w.expectNothing()
	return o
}

// advance lets time pass.
func (w *World) advance(until time.Duration) {
	for {
		e, ok := w.pop(until)
		if !ok {
			break
		}
		if w.script != nil {
			w.script.step(w)
		}
		if e.to != nil {
			if len(e.to.machines) > 0 {
				w.strike(e.to)
			}
			if e.to.dead {
				continue
			}
			if e.to.paused || len(e.to.backlog) > 0 {
				e.to.backlog = append(e.to.backlog, e.run)
				continue
			}
		}
		e.run()
	}
	w.now = max(w.now, until)
}

// heal ends all faults.
func (w *World) heal() {
	w.note(nil, "HEALED", "", "", 0)
	w.healed = true
	w.Faults = Faults{}
	w.rejects, w.breaks, w.drags, w.hangs, w.abandons, w.others = 0, 0, 0, 0, 0, 0
	w.store.away = 0
	for _, p := range slices.Clone(w.living) {
		p.wake()
		switch {
		case p.stopping:
			p.die("ends")
		case w.slots[p.slot].process != p: // it was replaced: it has some time to notice
			w.post(2*leasing.TTL, p, func() { p.die("is replaced") })
		}
	}
	for a := range w.apart {
		clear(w.apart[a])
	}
}

// find returns a process that lives, or nil.
func (w *World) find(rid string, lifecycle store.LeaseGen) *process {
	for _, p := range w.living {
		if p.rid == rid && p.lease.Gen == lifecycle {
			return p
		}
	}
	return nil
}

// acts checks I1 for all objects of a process that may have begun to act on them.
func (w *World) acts(p *process) {
	if !p.mayAct() {
		return
	}
	if p.host != nil {
		w.moves.book.acts(p.host)
		return
	}
	for _, id := range w.names {
		if o := p.objects[id]; o != nil && o.open {
			w.owns(p, o)
		}
	}
}

// owns checks that the object, on which its process may act, is that process's in the
// Store and open nowhere else.
func (w *World) owns(p *process, o *object) {
	if i := w.ledger.of[o.gen]; i.gone || i.result != store.Created || i.rid != p.rid || i.lease != p.lease.Gen {
		w.fail("I1", "%s may act on %v, which is not its own in the Store", p.name(), i)
	}
	for _, other := range w.living {
		if same := other.objects[o.id]; other != p && same != nil && same.open && other.mayAct() {
			w.fail("I1", "%s and %s may both act on %s", p.name(), other.name(), o.id)
		}
	}
}

// watch checks what must hold after each call of the Store: the rows and the capacity are
// what the ledger makes of all answers, no limit is exceeded, and nobody acts on what he
// has lost.
func (w *World) watch() {
	for _, id := range w.names {
		row, found, err := w.store.Read(background, id)
		i := w.ledger.last[id]
		there := i != nil && !i.gone
		if err != nil || found != there || found && (row.ObjectGen != i.gen || (row.State == store.Ready) != (i.result == store.Created)) {
			w.fail("I8", "the row of %s is found %v, %v #%d, and the last incarnation is %v", id, found, row.State, row.ObjectGen, i)
			return
		}
	}
	list, err := w.store.ListNodes(background, 0)
	if err != nil {
		w.fail("I8", "no list: %v", err)
		return
	}
	for _, d := range list.Nodes {
		actors, spots := 0, 0
		for _, i := range w.ledger.last {
			switch {
			case i.gone || i.rid != d.RID || i.lease != d.Lifecycle:
			case i.kind == store.Actor:
				actors++
			default:
				spots++
			}
		}
		if actors != d.Actors || spots != d.Spots || w.actorsMax > 0 && actors > w.actorsMax || w.spotsMax > 0 && spots > w.spotsMax {
			w.fail("I8", "%s uses %d and %d slots, by the ledger %d and %d, of %d and %d", d.RID, d.Actors, d.Spots, actors, spots, w.actorsMax, w.spotsMax)
		}
	}
	for _, p := range w.living {
		w.acts(p)
	}
}

// expectRest checks that no machine runs and nothing is reserved (I11, I12).
func (w *World) expectRest(when string) {
	if w.failed != nil {
		return
	}
	for _, c := range w.ledger.open {
		w.fail("I12", "%s call %d has not ended", when, c.n)
	}
	for _, s := range w.slots {
		if s.process == nil || !s.process.mayAct() || !s.process.serving {
			w.fail("I12", "%s node %s does not serve", when, s.rid)
		}
	}
	for _, p := range w.living {
		if left := p.atRest(); left != "" {
			w.fail("I11", "%s %s", when, left)
		}
	}
	w.expectLinks(when)
	for _, id := range w.names {
		i := w.ledger.last[id]
		if i == nil || i.gone {
			continue
		}
		p := w.find(i.rid, i.lease)
		switch {
		case p == nil: // nobody takes a Ready one over, and who asks for the id cancels a Creating one
		case i.result == 0:
			w.fail("I12", "%s %v is still being created at %s", when, i, p.name())
		case p.objects[id] == nil || p.objects[id].gen != i.gen || !p.objects[id].open:
			w.fail("I12", "%s %v does not answer at %s", when, i, p.name())
		}
	}
}

// expectAnswers has each id asked for, which must end well: what a dead process began is
// cancelled, and what it had stays its own.
func (w *World) expectAnswers() {
	for _, id := range w.names {
		if w.failed != nil {
			return
		}
		c := w.newCall(id)
		c.Get, c.timeout = true, 10*time.Second
		if i := w.ledger.last[id]; i != nil && !i.gone {
			c.Kind, c.Type = i.kind, i.typ
		}
		w.slots[w.choose(len(w.slots))].process.begin(c)
		w.advance(w.now + answerTime)
		if c.end == nil || !w.endedWell(c) {
			w.fail("I12", "after the faults call %d for %s ended with %+v", c.n, id, c.end)
		}
	}
	w.expectRest("after each id was asked for")
}

// endedWell reports whether the call ended as it must when nothing goes wrong.
func (w *World) endedWell(c *call) bool {
	if c.end.Outcome == creation.Created || c.end.Outcome == creation.Existing {
		return true
	}
	f, i := c.end.Failure, w.ledger.last[c.ID]
	switch {
	case f == nil:
		return false
	case i != nil && !i.gone && w.find(i.rid, i.lease) == nil:
		w.Cover.Mark("unavailable with its dead owner")
		return i.result == store.Created && f.Kind == errkind.Unavailable
	case f.Kind == errkind.CapacityExceeded:
		return w.actorsMax+w.spotsMax > 0
	}
	for _, p := range w.living {
		if p.hosts(&c.Call) {
			return false
		}
	}
	return f.Kind == errkind.Unavailable
}

// expectNothing has all destroyed, after which no slot may be in use.
func (w *World) expectNothing() {
	if w.failed != nil {
		return
	}
	for _, id := range w.names {
		if i := w.ledger.last[id]; i != nil && !i.gone {
			c := w.newCall(id)
			c.destroys, c.timeout = i, 10*time.Second
			w.slots[w.choose(len(w.slots))].process.begin(c)
		}
	}
	w.advance(w.now + answerTime)
	w.expectRest("after the end of all")
	for _, id := range w.names {
		if i := w.ledger.last[id]; i != nil && !i.gone {
			w.fail("I12", "%v could not be destroyed", i)
		}
	}
	w.watch()
}
