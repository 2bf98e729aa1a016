package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/store"
)

// schedule has callers race: a burst is some of them who want one id within moments.
func (w *World) schedule() {
	for range w.bursts {
		begin := startTime + time.Duration(w.choose(64))*chaosTime/72
		id := w.names[w.choose(len(w.names))]
		apart := [...]time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond}[w.choose(3)]
		for range w.racers {
			w.post(begin+time.Duration(w.choose(8))*apart, nil, func() { w.arrive(id) })
		}
	}
}

// arrive has somebody call a process, if one is there that takes calls.
func (w *World) arrive(id string) {
	p := w.slots[w.choose(len(w.slots))].process
	if p == nil || p.paused || !p.serving || !p.mayAct() {
		return
	}
	c := w.newCall(id)
	if refs := w.ledger.refs; len(refs) > 0 && w.chance(w.destroys) {
		c.destroys = refs[len(refs)-1-w.choose(len(refs))]
	}
	p.begin(c)
}

// newCall draws a call for the id. Most want an object of the id's own type.
func (w *World) newCall(id string) *call {
	w.calls++
	c := &call{n: w.calls, Call: creation.Call{ID: id, Get: w.choose(3) > 0}}
	n := slices.Index(w.names, id)
	if w.chance(w.others) {
		n++
	}
	if c.Kind, c.Type = store.Actor, actorTypes[n%2]; n%3 == 1 {
		c.Kind, c.Type = store.UserSpot, spotType
	}
	c.timeout = [...]time.Duration{5_000, 1_000, 300, 10_000}[w.choose(4)] * time.Millisecond
	if w.chance(w.abandons) {
		c.abandonAfter = [...]time.Duration{2, 200, 2_000}[w.choose(3)] * time.Millisecond
	}
	c.request = fmt.Append(nil, "request of call ", c.n)
	return c
}

// hosts reports whether the process hosts what the call wants.
func (p *process) hosts(c *creation.Call) bool {
	return c.Kind == store.Actor && slices.Contains(p.actors, c.Type) || c.Kind == store.UserSpot && slices.Contains(p.spots, c.Type)
}

// drawPart draws what the application does with one creation.
func (w *World) drawPart() *part {
	p := &part{name: "accepts", takes: [...]time.Duration{1, 100, 2_000, 30_000}[w.choose(4)] * time.Microsecond}
	switch {
	case w.chance(w.hangs):
		p.takes = 12 * time.Second
	case w.chance(w.drags):
		p.takes = [...]time.Duration{200, 700, 2_500}[w.choose(3)] * time.Millisecond
	}
	switch {
	case w.chance(w.rejects):
		p.name, p.rejects = "rejects", true
	case w.chance(w.breaks):
		p.name, p.fails = "fails", true
	}
	return p
}
