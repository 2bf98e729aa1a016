package node

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// deed is what a message does to its Actor.
type deed int

const (
	deedNote deed = iota // nothing
	deedJoin             // its handler registers a Join
	deedFail             // the same, and then fails
	deedEnd              // it begins a destroy
	deeds
)

// model is what the plain model says of one Actor: a queue whose head runs unless a Join
// or a destroy stands in its way.
type model struct {
	queue  []int
	does   map[int]deed
	stands deed // deedJoin or deedEnd; deedNote: nothing does
	gone   bool
	log    []string
	refuse []int
}

func (f *model) push(number int, d deed) {
	f.does[number] = d
	f.queue = append(f.queue, number)
	f.work()
}

func (f *model) work() {
	for len(f.queue) > 0 && (f.gone || f.stands == deedNote) {
		number := f.queue[0]
		f.queue = f.queue[1:]
		switch d := f.does[number]; {
		case d == deedEnd:
			if !f.gone {
				f.stands = deedEnd
			}
		case f.gone:
			f.refuse = append(f.refuse, number)
		default:
			f.log = append(f.log, fmt.Sprint(number))
			if d == deedJoin {
				f.stands = deedJoin
			}
		}
	}
}

// pass ends what stands in the way.
func (f *model) pass(gone bool) {
	if f.stands == deedJoin {
		f.log = append(f.log, "join", "told")
	}
	f.stands, f.gone = deedNote, gone
	f.work()
}

// One Actor with sends, Joins that end in any way, and destroys that succeed or not,
// beside the model: all runs once or is refused once, in order, and nothing between a
// handler and the end of its Join, of which the Actor is told before.
// req: JN-17
func TestBarriersDoWhatAPlainQueueDoes(t *testing.T) {
	w := newJoins(t)
	answer, actors := make(chan error), 0
	w.store.remove = func(store.Fence) (store.Change, error) { return store.Change{Reason: store.Applied}, <-answer }
	rapid.Check(t, func(rt *rapid.T) {
		actors++
		w.fns = nil
		a := w.actor(fmt.Sprint("actor-", actors))
		var mu sync.Mutex
		var log []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, what)
		}
		fails := false // the first try of each OnJoinCompleted, at times
		a.typ.OnJoinCompleted = func(_ *Call, _ any, done JoinDone) error {
			if fails = !fails && done.Operation[0]%2 == 0; fails {
				return Errorf(errkind.Rejected, "fails")
			}
			note("told")
			return nil
		}
		model := &model{does: map[int]deed{}}
		answers := map[int]<-chan result{}
		var ends []chan destroyEnd
		pushed := 0
		push := func(d deed) {
			number := pushed
			pushed++
			model.push(number, d)
			if d == deedEnd {
				end := make(chan destroyEnd, 2)
				ends = append(ends, end)
				a.ended(func(t *turn) { w.node.destroyInTurn(t, newOpID(), func(e destroyEnd) { end <- e }) })
				return
			}
			answers[number] = w.ask(a, func(c *Call) (Reply, error) {
				note(fmt.Sprint(number))
				if d == deedNote {
					return Reply{}, nil
				}
				err := c.Registration().Defer(toRoom7)
				if err == nil && d == deedFail {
					err = Errorf(errkind.Rejected, "fails")
				}
				return Reply{}, err
			})
		}
		pass := func(how int) {
			if model.stands == deedJoin {
				j := w.standing()
				note("join")
				won := []func() bool{j.Accept, j.Reject, func() bool { return j.Fail(errStopping) }}[how]()
				if !won {
					rt.Errorf("the join had ended with %+v", j.Outcome())
				}
				model.pass(false)
				return
			}
			gone := how == 0
			if gone {
				answer <- nil
			} else {
				answer <- store.ErrUnavailable
			}
			model.pass(gone)
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			if step := rapid.IntRange(0, int(deeds)+2).Draw(rt, "step"); step < int(deeds) {
				push(deed(step))
			} else if model.stands != deedNote {
				pass(rapid.IntRange(0, 2).Draw(rt, "how"))
			}
		}
		for model.stands != deedNote {
			pass(1)
		}
		barrier(t, a)
		if mu.Lock(); !slices.Equal(log, model.log) {
			rt.Errorf("it ran %v, want %v", log, model.log)
		}
		mu.Unlock()
		for number, answer := range answers {
			r, want := await(t, "an answer", answer), errkind.Kind(errkind.Count)
			switch {
			case slices.Contains(model.refuse, number):
				want = errkind.NotFound
			case model.does[number] == deedFail:
				want = errkind.Rejected
			}
			if want != errkind.Count && (r.err == nil || r.err.Kind != want) || want == errkind.Count && r.err != nil {
				rt.Errorf("message %d ended with %v", number, r.err)
			}
			select {
			case <-answer:
				rt.Errorf("message %d ended twice", number)
			default:
			}
		}
		for _, end := range ends {
			if await(t, "a destroy's end", end); len(end) > 0 {
				rt.Error("a destroy ended twice")
			}
		}
		w.none()
		if n := w.node.counters.panics.Load(); n != 0 {
			rt.Errorf("%d panics", n)
		}
		a.refuseAll(errGone)
		barrier(t, a)
	})
}
