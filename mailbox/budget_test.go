package mailbox

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// The exploration of budget.reserve: 2 producers with 2 and 3 messages and a
// consumer share a budget of 2 messages; one atomic action per step.
type budgetState struct {
	admitted, seen, finished int8
	producer                 [2]reserver
	wrong                    bool // a message was refused though there always was room
}

type reserver struct {
	pc                  reservePC
	left                int8 // messages to push
	admitted, seen, now int8 // what it has read
	calling             bool
	full                bool // the budget was used up at some moment of this call
}

type reservePC int8

const (
	readsAdmitted reservePC = iota
	readsSeen
	readsFinished
	readsAgain
	setsSeen
	swapsAdmitted
)

const budgetMax = 2

func budgetSystem(recheck bool) system[budgetState] {
	var start budgetState
	start.producer[0].left, start.producer[1].left = 2, 3
	return system[budgetState]{
		start: start,
		steps: func(s budgetState) (out []step[budgetState]) {
			for i := range s.producer {
				n := s
				if n.producer[i].left > 0 {
					n.reserveStep(&n.producer[i], recheck)
					n.noteFull()
					out = append(out, step[budgetState]{[]string{"producer 0", "producer 1"}[i], n})
				}
			}
			if s.finished < s.admitted {
				s.finished++
				out = append(out, step[budgetState]{"a turn ends", s})
			}
			return out
		},
		always: func(s budgetState) string {
			switch {
			case s.admitted-s.finished > budgetMax:
				return "over the budget"
			case s.admitted-s.seen > budgetMax || s.seen > s.finished:
				return "seen is wrong"
			case s.wrong:
				return "refused though there was room"
			}
			return ""
		},
		atRest: func(budgetState) string { return "" },
	}
}

func (s *budgetState) noteFull() {
	for i := range s.producer {
		p := &s.producer[i]
		p.full = p.full || p.calling && s.admitted-s.finished == budgetMax
	}
}

func (s *budgetState) reserveStep(p *reserver, recheck bool) {
	end := func() { *p = reserver{left: p.left - 1} }
	switch p.pc {
	case readsAdmitted:
		p.calling = true
		p.admitted, p.pc = s.admitted, readsSeen
	case readsSeen:
		p.seen = s.seen
		if p.pc = swapsAdmitted; p.admitted-p.seen >= budgetMax {
			p.pc = readsFinished
		}
	case readsFinished:
		p.now, p.pc = s.finished, readsAgain
	case readsAgain:
		used := p.admitted - p.now
		switch {
		case recheck && s.admitted != p.admitted:
			p.pc = readsAdmitted
		case used < 0 || used >= budgetMax: // below 0 it wraps around to very much
			s.wrong = s.wrong || !p.full
			end()
		default:
			p.pc = setsSeen
		}
	case setsSeen:
		if s.seen == p.seen {
			s.seen = p.now
		}
		p.pc = swapsAdmitted
	case swapsAdmitted:
		if s.admitted != p.admitted {
			p.pc = readsAdmitted
			return
		}
		s.admitted++
		end()
	}
}

func TestBudgetIsExactInEveryInterleaving(t *testing.T) {
	states, wrong := budgetSystem(true).explore()
	if wrong != "" {
		t.Fatal(wrong)
	}
	t.Logf("%d states", states)
}

func TestExplorationFindsARefusalWithoutTheReCheck(t *testing.T) {
	if _, wrong := budgetSystem(false).explore(); !strings.Contains(wrong, "refused though there was room") {
		t.Errorf("found %q", wrong)
	}
}

func TestBudgetAgreesWithPlainSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{Messages: rapid.IntRange(1, 5).Draw(t, "messages"), Bytes: rapid.Int64Range(1, 3000).Draw(t, "bytes")}
		var b budget
		var finished atomic.Uint64
		b.init(limits)
		// Start anywhere, so that the sums wrap around.
		start := rapid.Uint64().Draw(t, "start")
		b.admitted.Store(start)
		b.seen.Store(start)
		finished.Store(start)
		var in []int
		sum := func() (n int64) {
			for _, bytes := range in {
				n += int64(bytes) + messageOverhead
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(in) > 0 && rapid.Bool().Draw(t, "finish") {
				finished.Store(finished.Load() + costOf(in[0]))
				in = in[1:]
				continue
			}
			bytes := rapid.IntRange(0, 1500).Draw(t, "size")
			want := len(in) < limits.Messages && sum()+int64(bytes)+messageOverhead <= limits.Bytes
			if got := b.reserve(costOf(bytes), &finished, &quota{max: 1 << 40}); got != want {
				t.Fatalf("%d bytes beside %v within %+v: %v, want %v", bytes, in, limits, got, want)
			}
			if want {
				in = append(in, bytes)
			}
			if got := b.messages(&finished); got != len(in) {
				t.Fatalf("%d messages, want %d", got, len(in))
			}
		}
	})
}

func TestBudgetIsNeverExceededByManyProducers(t *testing.T) {
	const limit, producers, each = 3, 4, 5000
	var b budget
	var finished atomic.Uint64
	b.init(Limits{Messages: limit})
	q := quota{max: 1 << 40}
	var inUse, most atomic.Int64
	tokens := make(chan struct{}, producers*each)
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			for range each {
				if !b.reserve(costOf(1), &finished, &q) {
					continue
				}
				n := inUse.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				tokens <- struct{}{}
			}
		})
	}
	go func() {
		wg.Wait()
		close(tokens)
	}()
	for range tokens {
		inUse.Add(-1)
		finished.Store(finished.Load() + costOf(1))
	}
	if n := most.Load(); n > limit {
		t.Errorf("%d messages in use, the limit is %d", n, limit)
	}
	if n := b.messages(&finished); n != 0 {
		t.Errorf("%d messages left in the budget", n)
	}
}

func TestLimitsAboveTheFieldsAreTheirMaxima(t *testing.T) {
	var b budget
	b.init(Limits{Messages: math.MaxInt, Bytes: 1 << 62})
	if b.max>>costBits != costCount || b.max&costBytes != costBytes {
		t.Errorf("limits %#x", b.max)
	}
}

func TestNegativeSizePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	costOf(-1)
}
