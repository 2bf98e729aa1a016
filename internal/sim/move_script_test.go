package sim

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"testing"
)

var everyFlag = flag.Int("every", 11, "of the scripts with one fault play one in so many")

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

func TestEachFaultBeforeEachStepOfAMove(t *testing.T) {
	scripts := oneFault(t)
	var some []Script
	for n := 0; n < len(scripts); n += *everyFlag {
		some = append(some, scripts[n])
	}
	cover := playScripts(t, some)
	t.Logf("%d of %d scripts\n%v", len(some), len(scripts), cover)
}
