package mailbox

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Random programs of mailboxes that join and leave groups, yield and break, judged by
// what they did: each turn notes its steps, and an obvious model with one list for each
// gate says whether they may stand in that order.

type deed uint8

const (
	deedNothing deed = iota
	deedYield
	deedYieldAll
	deedYieldTwice
	deedJoin0
	deedJoin1
	deedLeave
	deedPanic
	deeds
)

// order is a message: what its turn does.
type order struct {
	from, seq int
	life      bool
	deed      deed
	spins     int // of the scheduler while it waits
}

// noted is a step of a turn.
type noted struct {
	box  int
	gate int // a group, or none
	what string
	order
}

const noGate = -1

type traced struct {
	t      *rapid.T
	groups [2]*Group
	boxes  []*Mailbox[order]
	done   sync.WaitGroup

	mu  sync.Mutex
	log []noted
}

// actor is a mailbox's consumer.
type actor struct {
	tr    *traced
	box   int
	gate  int  // the claim's
	roams bool // it may change its group, and so not use YieldAll
}

func (a *actor) Begin(*Claim[order]) {}

func (a *actor) Consume(c *Claim[order], v *order) {
	o := *v
	gate := a.gate
	note := func(what string) {
		a.tr.mu.Lock()
		a.tr.log = append(a.tr.log, noted{a.box, gate, what, o})
		a.tr.mu.Unlock()
	}
	defer a.tr.done.Done()
	note("begin")
	defer note("end")
	wait := func() {
		for range o.spins {
			runtime.Gosched()
		}
	}
	switch {
	case a.roams && (o.deed == deedYieldAll || o.deed == deedYieldTwice):
		o.deed = deedYield
	case !a.roams && (o.deed == deedJoin0 || o.deed == deedJoin1 || o.deed == deedLeave):
		o.deed = deedNothing
	}
	switch o.deed {
	case deedYield, deedYieldAll, deedYieldTwice:
		if gate == noGate {
			c.Blocking(wait)
			return
		}
		if o.deed != deedYield {
			note("yield all")
			c.YieldAll(wait)
			note("resume")
		}
		if o.deed != deedYieldAll {
			note("yield")
			c.Yield(wait)
			note("resume")
		}
	case deedJoin0, deedJoin1:
		a.gate = int(o.deed - deedJoin0)
		c.Join(a.tr.groups[a.gate])
	case deedLeave:
		a.gate = noGate
		c.Join(nil)
	case deedPanic:
		panic("as ordered")
	}
}

// judge replays the notes on the model.
func (tr *traced) judge() string {
	type turn struct{ from, seq int }
	gates := map[int]turn{} // who has it
	boxes := map[int]turn{} // who has the claim
	last := map[[3]int]int{}
	for i, e := range tr.log {
		me := turn{e.from, 2*e.seq + map[bool]int{true: 1}[e.life]}
		gate := e.gate
		if gate == noGate {
			gate = -2 - e.box // its own
		}
		holder, taken := gates[gate]
		claim, claimed := boxes[e.box]
		switch e.what {
		case "begin":
			if taken || claimed {
				return fmt.Sprintf("step %d: a turn of %d begins, %v has the gate, %v the claim", i, e.box, holder, claim)
			}
			gates[gate], boxes[e.box] = me, me
			key := [3]int{e.box, e.from, map[bool]int{true: 1}[e.life]}
			if before, ok := last[key]; ok && e.seq <= before {
				return fmt.Sprintf("step %d: message %d of %d comes behind %d", i, e.seq, e.from, before)
			}
			last[key] = e.seq
		case "yield", "yield all":
			delete(gates, gate)
			if e.what == "yield all" {
				delete(boxes, e.box)
			}
		case "resume":
			if taken {
				return fmt.Sprintf("step %d: a turn of %d goes on, %v has the gate", i, e.box, holder)
			}
			gates[gate] = me
		case "end":
			if holder != me {
				return fmt.Sprintf("step %d: a turn of %d ends, %v has the gate", i, e.box, holder)
			}
			delete(gates, gate)
			if claim == me {
				delete(boxes, e.box)
			}
		}
	}
	return ""
}

func TestGatesAgreeWithTheObviousModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPool(Config{Workers: rapid.IntRange(1, 4).Draw(t, "workers"), OnPanic: func(any, []byte) {}})
		tr := &traced{t: t, groups: [2]*Group{NewGroup(p), NewGroup(p)}}
		for i := range rapid.IntRange(1, 5).Draw(t, "boxes") {
			a := &actor{tr: tr, box: i, gate: rapid.IntRange(noGate, 1).Draw(t, "gate"), roams: rapid.Bool().Draw(t, "roams")}
			if a.gate == noGate {
				tr.boxes = append(tr.boxes, New(p, a, Limits{}))
			} else {
				tr.boxes = append(tr.boxes, NewIn(tr.groups[a.gate], a, Limits{}))
			}
		}
		var producers sync.WaitGroup
		for from := range rapid.IntRange(1, 3).Draw(t, "producers") {
			orders := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) order {
				return order{
					from: from, life: rapid.Bool().Draw(t, "life"), deed: deed(rapid.IntRange(0, int(deeds)-1).Draw(t, "deed")),
					spins: rapid.IntRange(0, 20).Draw(t, "spins"),
				}
			}), 1, 40).Draw(t, "orders")
			to := rapid.SliceOfN(rapid.IntRange(0, len(tr.boxes)-1), len(orders), len(orders)).Draw(t, "to")
			tr.done.Add(len(orders))
			producers.Go(func() {
				for seq, o := range orders {
					o.seq = seq
					if m := tr.boxes[to[seq]]; o.life {
						m.PushLifecycle(o)
					} else if err := m.Push(o, 0); err != nil {
						panic(err)
					}
				}
			})
		}
		producers.Wait()
		tr.done.Wait()
		closePool(t, p)
		if wrong := tr.judge(); wrong != "" {
			t.Fatal(wrong)
		}
	})
}
