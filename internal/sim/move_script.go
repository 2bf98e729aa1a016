package sim

import (
	"fmt"
	"slices"
	"time"

	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/relay"
)

// Script is one fixed story of a move in which faults come at given moments. Node 1 is the
// source, node 2 the target, node 3 has the client's Session and a writer.
type Script struct {
	Story  Story
	Faults []FaultAt
}

// FaultAt is a fault that comes before a step, of which there are as many as things happen
// while the Join lasts.
type FaultAt struct {
	Step  int
	Fault ScriptFault
}

// Story says what moves where.
type Story uint8

// The stories.
const (
	StoryRoom  Story = iota // a bound Actor goes to a room of node 2
	StoryEntry              // one without a client to node 2's Entry Spot
	StoryHere               // a bound one to a room of its own node
	StoryBack               // a bound one to node 2 and back, each message following it
	StoryWide               // a SpotWide room of node 1 with two members, of which one is bound, to node 2
	StoryDrain              // node 1, with a PerActor room, its member and an Actor of the Entry Spot, is relocated and stops
	Stories                 // of which each has each fault before each step
	StoryPair               // StoryRoom, and another Actor of its client stays at node 2
)

// ScriptFault is one of the faults.
type ScriptFault uint8

var scriptFaults = []struct {
	name string
	do   func(w *World)
}{
	{"crash S", func(w *World) { w.crash(0) }},
	{"crash T", func(w *World) { w.crash(1) }},
	{"crash O", func(w *World) { w.crash(2) }},
	{"short pause of S", func(w *World) { w.pauseSlot(0, 1200*time.Millisecond) }},
	{"short pause of T", func(w *World) { w.pauseSlot(1, 1200*time.Millisecond) }},
	{"short pause of O", func(w *World) { w.pauseSlot(2, 1200*time.Millisecond) }},
	{"long pause of S", func(w *World) { w.pauseSlot(0, 20*time.Second) }},
	{"long pause of T", func(w *World) { w.pauseSlot(1, 20*time.Second) }},
	{"long pause of O", func(w *World) { w.pauseSlot(2, 20*time.Second) }},
	{"replace S", func(w *World) { w.replaceSlot(0) }},
	{"replace T", func(w *World) { w.replaceSlot(1) }},
	{"stop S", func(w *World) { w.stopSlot(0) }},
	{"stop T", func(w *World) { w.stopSlot(1) }},
	{"stop O", func(w *World) { w.stopSlot(2) }},
	{"cut S-T", func(w *World) { w.cut(w.between(0, 1)) }},
	{"cut S-O", func(w *World) { w.cut(w.between(0, 2)) }},
	{"cut T-O", func(w *World) { w.cut(w.between(1, 2)) }},
	{"part S-T for 3 s", func(w *World) { w.part(0, 1, 3*time.Second) }},
	{"part S-T for 30 s", func(w *World) { w.part(0, 1, 30*time.Second) }},
	{"part S-O for 5 s", func(w *World) { w.part(0, 2, 5*time.Second) }},
	{"part T-O for 5 s", func(w *World) { w.part(1, 2, 5*time.Second) }},
	{"T hears nothing of S for 2 s", func(w *World) { w.deaf(1, 0, 2*time.Second) }},
	{"T hears nothing of S, half-open", func(w *World) { w.deaf(1, 0, 6*time.Second) }},
	{"S hears nothing of T for 2 s", func(w *World) { w.deaf(0, 1, 2*time.Second) }},
	{"S hears nothing of T, half-open", func(w *World) { w.deaf(0, 1, 6*time.Second) }},
	{"O hears nothing of S for 2 s", func(w *World) { w.deaf(2, 0, 2*time.Second) }},
	{"O hears nothing of T, half-open", func(w *World) { w.deaf(2, 1, 6*time.Second) }},
	{"S-T half-open at S", func(w *World) { w.halve(0, 1) }},
	{"S-T half-open at T", func(w *World) { w.halve(1, 0) }},
	{"T-O half-open at T", func(w *World) { w.halve(1, 2) }},
	{"S-O half-open at O", func(w *World) { w.halve(2, 0) }},
	{"S links T anew at once", func(w *World) { w.relink(0, 1, 0) }},
	{"S links T anew, and what it sent is late", func(w *World) { w.relink(0, 1, 300*time.Millisecond) }},
	{"S links O anew, and what it sent is late", func(w *World) { w.relink(0, 2, 300*time.Millisecond) }},
	{"T links O anew, and what it sent is late", func(w *World) { w.relink(1, 2, 300*time.Millisecond) }},
	{"T gets nothing more of S", func(w *World) { w.mute(w.between(0, 1), w.slots[1].process) }},
	{"S gets nothing more of T", func(w *World) { w.mute(w.between(0, 1), w.slots[0].process) }},
	{"O gets nothing more of T", func(w *World) { w.mute(w.between(1, 2), w.slots[2].process) }},
	{"refused", func(w *World) { w.forced = "refused" }},
	{"lost request", func(w *World) { w.forced = "lost request" }},
	{"late request", func(w *World) { w.forced = "late request" }},
	{"lost answer", func(w *World) { w.forced = "lost answer" }},
	{"Store away for 4 s", func(w *World) { w.store.away = w.now + 4*time.Second }},
	{"Store away for 25 s", func(w *World) { w.store.away = w.now + 25*time.Second }},
	{"failover", func(w *World) { w.moves.failover(0) }},
	{"failover that loses 1", func(w *World) { w.moves.failover(1) }},
	{"failover that loses 2", func(w *World) { w.moves.failover(2) }},
	{"the client leaves", func(w *World) { w.moves.firstClient((*client).leave) }},
	{"the client comes back at T", func(w *World) { w.moves.firstClient(func(c *client) { c.slot = 1; c.leave() }) }},
	{"the client parts with its actor", func(w *World) { w.moves.firstClient((*client).partFirst) }},
	{"another client binds at S", func(w *World) { w.moves.rival(0) }},
	{"another client binds at O", func(w *World) { w.moves.rival(2) }},
	{"the client is lost, and back at once", func(w *World) { w.lose(0, brief, 2) }},
	{"the client is lost, and back after 2 ms", func(w *World) { w.lose(0, 2*time.Millisecond, 2) }},
	{"the client is lost, and back after the move", func(w *World) { w.lose(0, time.Second, 2) }},
	{"the client is lost, and back before that is known", func(w *World) { w.lose(2*time.Second, brief, 2) }},
	{"the client is lost, and back at T", func(w *World) { w.lose(0, brief, 1) }},
	{"the client is lost, and its grace ends at once", func(w *World) { w.lose(0, 8*time.Second, 2); w.endGrace(brief) }},
	{"the client is lost, and its grace ends after 2 ms", func(w *World) { w.lose(0, 8*time.Second, 2); w.endGrace(2 * time.Millisecond) }},
	{"the client is lost, and its grace ends as it comes back", func(w *World) { w.lose(0, brief, 2); w.endGrace(brief) }},
	{"the client is lost, and another one binds", func(w *World) { w.lose(0, time.Second, 2); w.moves.rival(2) }},
	{"the client is lost, and O crashes", func(w *World) { w.lose(0, time.Second, 2); w.post(brief, nil, func() { w.crash(2) }) }},
	{"jump of the Store's clock", func(w *World) { w.store.ahead += jump }},
}

// ScriptFaults is how many there are.
var ScriptFaults = len(scriptFaults)

func (f ScriptFault) String() string { return scriptFaults[f].name }

// script is a Script that is played.
type script struct {
	Script
	steps int // that were there
	runs  bool
	// Steps at which the target said relay-ready first and the commit was known.
	ready, known int
}

// ScriptOutcome is what playing a Script has shown.
type ScriptOutcome struct {
	Outcome
	ScriptSteps  int
	Ready, Known int
}

// Play plays a Script.
func Play(s Script, lines int) ScriptOutcome {
	played := &script{Script: s}
	o := play(MoveKinds[0], Replay(nil), lines, played)
	return ScriptOutcome{o, played.steps, played.ready, played.known}
}

// step is told before each thing that happens.
func (s *script) step(w *World) {
	if !s.runs {
		return
	}
	s.steps++
	for _, f := range s.Faults {
		if f.Step == s.steps {
			w.note(nil, "SCRIPT", f.Fault.String(), "", uint64(s.steps))
			w.Cover.Mark(f.Fault.String())
			for _, p := range w.living {
				for _, m := range p.machines {
					w.Cover.Hit(m.doing, f.Fault.String())
				}
			}
			scriptFaults[f.Fault].do(w)
		}
	}
}

const (
	scriptJoin   = 200 * time.Millisecond // when the Join is asked for
	scriptTime   = 45 * time.Second
	scriptSettle = 110 * time.Second
)

func (w *World) newScriptMoves() *moves {
	w.Settings = Settings{nodes: 3, hold: recoveryHold}
	s := w.script
	m := &moves{
		w: w, places: 1, follow: 6 * time.Second, ids: []string{"actor0"}, rooms: []string{"room0", "room1"},
		bound: []bool{s.Story != StoryEntry}, wide: []bool{false, true}, grace: 5 * time.Second, keepMax: 1_000, reservedMax: 1,
		timing: relay.Timing{
			Wait: timing.Wait, WaitMax: timing.WaitMax, Settle: settleWait, CutoverWait: time.Second, SealTimeout: sealTimeout,
			Validity: 15 * time.Second, Prepared: 5 * time.Second,
		},
	}
	switch s.Story {
	case StoryPair:
		m.ids, m.bound = append(m.ids, "actor1"), append(m.bound, true)
	case StoryWide, StoryDrain: // the third room is node 1's
		m.rooms, m.wide = append(m.rooms, "room2"), append(m.wide, s.Story == StoryWide)
		m.ids, m.bound = append(m.ids, "actor1"), append(m.bound, false)
		m.drains, m.places = s.Story == StoryDrain, 2
	default:
	}
	m.book = newBook(m)
	return m
}

// tell plays what the story says.
func (m *moves) tell() {
	w := m.w
	s := w.script
	for n := range 30 { // three writers talk all the time, and the clients do
		w.post(scriptJoin+time.Duration(n-6)*400*time.Microsecond, nil, func() { m.sayAt(n%3, m.ids[0], n%2 == 1, nil) })
	}
	for n := range 60 { // the Actor that stays is talked to all the time
		if s.Story == StoryPair {
			w.post(scriptJoin+time.Duration(n)*time.Millisecond, nil, func() { m.sayAt(n%3, m.ids[1], false, nil) })
		}
	}
	join := &plan{slot: -1, timeout: 4 * time.Second}
	if s.Story == StoryWide || s.Story == StoryDrain {
		m.tellUnits()
		return
	}
	switch s.Story {
	case StoryRoom, StoryBack, StoryPair:
		join.spot = "room0"
	case StoryEntry:
		join.slot = 1
	default:
		join.spot = "room1"
	}
	w.post(scriptJoin, nil, func() {
		s.runs = true
		m.sayAt(2, m.ids[0], false, join)
	})
	over := 2 * time.Second
	if s.Story == StoryBack {
		w.post(scriptJoin+15*time.Millisecond, nil, func() { m.sayAt(2, m.ids[0], false, &plan{slot: 0, timeout: 4 * time.Second}) })
	}
	w.post(scriptJoin+30*time.Millisecond, nil, func() { s.runs = false })
	for n := range 12 { // and what is said later takes old routes
		w.post(scriptJoin+over+time.Duration(n)*700*time.Millisecond, nil, func() { m.sayAt(n%3, m.ids[0], n%2 == 0, nil) })
	}
}

// tellUnits is tell for what node 1 moves by its own will.
func (m *moves) tellUnits() {
	w := m.w
	s := w.script
	for n, id := range m.ids { // the second comes from node 2
		if s.Story == StoryWide || n > 0 {
			w.post(time.Duration(20*n)*time.Millisecond, nil, func() { m.sayAt(2, id, false, &plan{slot: -1, spot: "room2", timeout: time.Second}) })
		}
	}
	for n := range 30 {
		w.post(scriptJoin+time.Duration(n-6)*400*time.Microsecond, nil, func() { m.sayAt(n%3, m.ids[n/3%2], n%2 == 1, nil) })
	}
	w.post(scriptJoin, nil, func() {
		p := w.inSlot(0)
		to := w.inSlot(1)
		if p == nil || to == nil {
			return
		}
		s.runs = true
		h := p.host
		if s.Story == StoryDrain {
			h.drain(8 * time.Second)
			return
		}
		until := h.clock().Add(4 * time.Second)
		h.enterPermit(until, func(bool) {
			h.moveUnit(&unit{h: h, kind: lifecycle.Wide, id: "room2", to: to.host.self(), deadline: until, ended: func(unitEnd) {}})
		})
	})
	w.post(scriptJoin+60*time.Millisecond, nil, func() { s.runs = false })
	for n := range 12 {
		w.post(scriptJoin+2*time.Second+time.Duration(n)*700*time.Millisecond, nil, func() { m.sayAt(n%3, m.ids[n%2], n%4 == 0, nil) })
	}
}

func (m *moves) sayAt(slot int, id string, asks bool, p *plan) {
	w := m.w
	process := w.slots[slot].process
	if process == nil || process.dead || process.paused || !process.serving {
		return
	}
	h := process.host
	if len(h.writers) == 0 {
		h.writers = append(h.writers, &writer{h: h, name: h.name()})
	}
	m.book.ops++
	h.writers[0].write(&op{n: m.book.ops, id: id, asks: asks, join: p, timeout: 5 * time.Second})
}

// What a script does to processes and links.

func (w *World) inSlot(n int) *process {
	p := w.slots[n].process
	if p == nil || p.dead || p.paused || p.stopping {
		return nil
	}
	return p
}

func (w *World) crash(n int) {
	if p := w.inSlot(n); p != nil {
		p.die("crashes")
	}
}

func (w *World) pauseSlot(n int, d time.Duration) {
	if p := w.inSlot(n); p != nil {
		p.sleep(d)
	}
}

func (w *World) replaceSlot(n int) {
	if p := w.inSlot(n); p != nil {
		p.sleep(16 * time.Second)
		w.slots[n].process = nil
		w.restart(n, 0)
	}
}

func (w *World) stopSlot(n int) {
	if p := w.inSlot(n); p != nil {
		w.note(p, "stops", "", "", 0)
		p.stopping = true
		p.host.stop()
		w.post(8*time.Second, p, func() { p.die("ends") })
	}
}

func (w *World) between(a, b int) *link {
	if p := w.slots[a].process; p != nil {
		return p.links[b]
	}
	return nil
}

// halve ends the link of two nodes at that of slot n, of which the other does not learn.
func (w *World) halve(n, other int) { w.shut(w.between(n, other), w.slots[n].process) }

// relink does so, and has the node dial anew at once. What it sent before is late by so much.
func (w *World) relink(n, other int, late time.Duration) {
	l := w.between(n, other)
	if l == nil {
		return
	}
	if late > 0 {
		w.stall(l, l.other(w.slots[n].process), late)
	}
	w.halve(n, other)
	w.post(brief, w.slots[n].process, func() {
		if p := w.inSlot(n); p != nil {
			p.dialAll()
		}
	})
}

// brief is about the time that a record takes.
const brief = 100 * time.Microsecond

// lose has the first client lose its connection, of which its node learns after a while, and
// come back to the node of that slot.
func (w *World) lose(noticed, back time.Duration, slot int) {
	w.moves.firstClient(func(c *client) { c.drop(noticed, back, slot) })
}

// endGrace ends the grace of all Sessions of the first client.
func (w *World) endGrace(after time.Duration) {
	w.post(after, nil, func() {
		for _, p := range w.living {
			for _, s := range slices.Clone(p.host.sessions) {
				if s.client == w.moves.clients[0] && !p.paused {
					s.expire()
				}
			}
		}
	})
}

// deaf has the process of slot n hear nothing of the other for a while.
func (w *World) deaf(n, other int, d time.Duration) {
	if l := w.between(n, other); l != nil {
		w.stall(l, w.slots[n].process, d)
	}
}

// stop tells what runs that the node has begun to stop.
func (h *host) stop() {
	h.endReserved()
	h.lives(lifecycle.Event{Is: lifecycle.Stopping})
	for _, a := range h.cells() {
		if j := a.join; j != nil && (j.phase == joinActive || j.phase == joinStanding) {
			j.cancel(errStopping)
		}
	}
	for _, o := range slices.Clone(h.out) {
		o.interrupt()
	}
	for _, i := range slices.Clone(h.in) {
		i.tell(relay.TargetEvent{Is: relay.TargetStopping})
	}
	h.after(haltTime, func() {
		for _, o := range slices.Clone(h.out) {
			o.tell(relay.SourceEvent{Is: relay.SourceHalting})
		}
	})
}

// haltTime is how long a node that stops waits for the outcome of its moves.
const haltTime = 2 * time.Second

// String tells which story and faults it is.
func (s Script) String() string {
	text := fmt.Sprint("story ", s.Story)
	for _, f := range s.Faults {
		text += fmt.Sprintf(", %v before step %d", f.Fault, f.Step)
	}
	return text
}
