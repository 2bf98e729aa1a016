package sim

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"testing"
)

var (
	everyFlag = flag.Int("every", 97, "of the scripts of moves play one in so many")
	pairsFlag = flag.Bool("pairs", false, "play also scripts with two faults around the commit")
)

// playScripts plays all scripts that make yields, on all processors, and reports the first that
// fails.
func playScripts(t *testing.T, all []Script) *Cover {
	t.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	next, cover, failed := 0, NewCover(), false
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				stop := n >= len(all) || failed
				mu.Unlock()
				if stop {
					return
				}
				o := Play(all[n], 0)
				mu.Lock()
				cover.Add(o.Cover)
				if o.Violation != nil && !failed {
					failed = true
					if *bareFlag {
						t.Errorf("violated %s after %d scripts, by %v: %s", o.Violation.ID, n, all[n], o.Violation.Text)
						mu.Unlock()
						return
					}
					t.Errorf("script %v: %v\n%s", all[n], o.Violation, strings.Join(Play(all[n], linesShown).Lines, "\n"))
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return cover
}

// oneFault returns the scripts in which each fault comes before each step.
func oneFault(t *testing.T) (all []Script) {
	t.Helper()
	for story := range Stories {
		calm := Play(Script{Story: story}, linesShown)
		if calm.Violation != nil || calm.ScriptSteps == 0 {
			t.Fatalf("story %d: %v\n%s", story, calm.Violation, strings.Join(calm.Lines, "\n"))
		}
		for step := range calm.ScriptSteps {
			for fault := range ScriptFaults {
				all = append(all, Script{story, []FaultAt{{step + 1, ScriptFault(fault)}}})
			}
		}
	}
	return all
}

// req: RL-09
// req: RL-11
// req: RL-14
// req: RL-19
// req: RL-20
// req: MF-02
func TestEachFaultBeforeEachStepOfAMove(t *testing.T) {
	playSome(t, oneFault(t))
}

// lostScripts returns scripts in which the client is lost, and comes back or does not, at many
// steps of its Actor's move, most of them around the commit; while the owner before may still push,
// since it is not heard of; and while the move fails.
func lostScripts(t *testing.T) (all []Script) {
	t.Helper()
	named := func(name string) ScriptFault {
		for f := range ScriptFaults {
			if ScriptFault(f).String() == name {
				return ScriptFault(f)
			}
		}
		t.Fatalf("no fault %q", name)
		return 0
	}
	calm, pair := Play(Script{Story: StoryRoom}, 0), Play(Script{Story: StoryPair}, 0)
	n := 0
	for f := range ScriptFaults {
		lost := ScriptFault(f)
		if !strings.HasPrefix(lost.String(), "the client is lost") {
			continue
		}
		for step := 1; step < calm.Known+15; step++ {
			every := 17
			switch {
			case step > calm.Known+1 || step < calm.Ready-22:
			case step < calm.Known-5:
				every = 4
			default:
				every = 1
			}
			if n++; n%every == 0 {
				all = append(all, Script{StoryRoom, []FaultAt{{step, lost}}})
			}
		}
		all = append(all,
			Script{StoryRoom, []FaultAt{{calm.Ready - 14, named("O hears nothing of S for 2 s")}, {calm.Known + 2, lost}}},
			Script{StoryPair, []FaultAt{{pair.Ready - 14, named("O hears nothing of S for 2 s")}, {pair.Known + 2, lost}}},
			Script{StoryPair, []FaultAt{{pair.Ready, lost}}},
			Script{StoryRoom, []FaultAt{{calm.Ready - 12, lost}, {calm.Ready - 2, named("crash T")}}})
	}
	return all
}

// A client loses its connection at each step of a move of its Actor.
//
// req: MB-04
// req: FO-15
func TestAClientThatIsLostAtEachStepOfAMove(t *testing.T) {
	all := lostScripts(t)
	cover := playScripts(t, all)
	t.Logf("%d scripts\n%v", len(all), cover)
	if missing := cover.Missing(lostWanted); len(missing) > 0 && !t.Failed() && !*bareFlag {
		t.Errorf("the scripts proved nothing of %q, which they never reached", missing)
	}
}

func playSome(t *testing.T, scripts []Script) {
	t.Helper()
	var some []Script
	for n := 0; n < len(scripts); n += *everyFlag {
		some = append(some, scripts[n])
	}
	cover := playScripts(t, some)
	t.Logf("%d of %d scripts\n%v", len(some), len(scripts), cover)
}

// From relay-ready to the commit each pair of faults may come in each order.
func TestTwoFaultsAroundTheCommitOfAMove(t *testing.T) {
	if !*pairsFlag {
		t.Skip("no -pairs")
	}
	var all []Script
	for _, story := range []Story{StoryRoom, StoryEntry} {
		calm := Play(Script{Story: story}, 0)
		var one []FaultAt
		for step := calm.Ready; step <= calm.Known+1; step++ {
			for fault := range ScriptFaults {
				one = append(one, FaultAt{step, ScriptFault(fault)})
			}
		}
		for n, a := range one {
			for _, b := range one[n:] {
				all = append(all, Script{story, []FaultAt{a, b}})
			}
		}
	}
	playSome(t, all)
}
