package relay

import (
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// FuzzSource gives a Source any events at any time: two bytes each.
func FuzzSource(f *testing.F) {
	events := sourceEvents()
	f.Add([]byte{1, 0})
	f.Add([]byte{1, 0, 200, 1, 3, 1, 5, 0, 6, 0, 8, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		move := SourceMove{
			Unit: store.Fence{ID: "u", ObjectGen: unitGen, Version: 10, OwnerID: "s-1", LeaseGen: 1}, OwnerGen: ownerGen, Epoch: 1,
			Self: sourceLease, To: Process{"t", 2}, Relocation: relocation, Attempt: 1, Deadline: clock.Mono(len(in)),
			InUserSpot: len(in)%2 == 0, Asks: len(in)%4 != 1, Wide: len(in)%4 == 3, PrepareOp: prepareOp,
		}
		s := NewSource(0, move, briefTiming)
		var w sourceWatch
		for {
			if e, ok := s.Effect(); ok {
				if err := w.check(&move, e); err != nil {
					t.Fatalf("%v, by %+v", err, w.last)
				}
			}
			if len(in) < 2 {
				return
			}
			w.last, w.now = events[int(in[0])%len(events)], w.now+clock.Mono(in[1]%8)
			w.last.SealedAt = w.now
			in = in[2:]
			s.Step(w.now, w.last)
		}
	})
}

// FuzzTarget gives a Target any events at any time: two bytes each.
func FuzzTarget(f *testing.F) {
	var kinds [2][]TargetEvent
	for i := range kinds {
		kinds[i] = targetEvents(i == 1)
	}
	f.Add([]byte{1, 0})
	f.Add([]byte{5, 0, 40, 1, 9, 0, 11, 0, 13, 0, 80, 1, 18, 0, 15, 0, 16, 0, 17, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		m, events := NewTarget(targetJob(), briefTiming), kinds[len(in)%2]
		var w targetWatch
		for ; len(in) >= 2; in = in[2:] {
			w.last, w.now = events[int(in[0])%len(events)], w.now+clock.Mono(in[1]%8)
			w.last.Deadline = w.now + 4
			m.Step(w.now, w.last)
			if e, ok := m.Effect(); ok {
				if err := w.check(e, &m.restore); err != nil {
					t.Fatalf("%v, by %+v", err, w.last)
				}
			}
		}
	})
}
