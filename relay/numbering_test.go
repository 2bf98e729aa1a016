package relay

import (
	"fmt"
	"hash/crc32"
	"math/rand"
	"slices"
	"testing"
)

// One sender and one receiver over links that are lost at any point, with acknowledgements
// that are lost too: all comes once, in order, and the cutover behind what was before it.
func TestRelayedRecordsComeOnceInOrderOverLinksThatAreLost(t *testing.T) {
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		var out Out[string]
		var in In
		var sent, got, released []string
		var wire []Sent[string] // on the link
		acked, cut, cutAt := Seq(0), false, -1
		deliver := func() {
			s := wire[0]
			wire = wire[1:]
			switch a := Arrival(0); {
			case s.Cutover:
				if a = in.Cutover(s.Seq, s.CRC); a == Fresh {
					cutAt = len(got)
				}
				if a == Gap {
					t.Fatalf("seed %d: cutover behind %d is a gap, at %d", seed, s.Seq, in.Last())
				}
			default:
				if a = in.Accept(s.Seq, []byte(s.Item)); a == Fresh {
					got = append(got, s.Item)
				}
				if a == Gap {
					t.Fatalf("seed %d: record %d is a gap behind %d", seed, s.Seq, in.Last())
				}
			}
		}
		before := -1
		for n := 0; n < 200 || len(got) < len(sent) || cutAt < 0; n++ {
			switch r.Intn(8) {
			case 0, 1:
				if n < 200 {
					item := fmt.Sprint("m", len(sent))
					sent = append(sent, item)
					wire = append(wire, Sent[string]{Seq: out.Add(item, []byte(item)), Item: item})
				}
			case 2, 3, 4:
				if len(wire) > 0 {
					deliver()
				}
			case 5:
				acked = in.Last()
			case 6:
				if !out.Acked(acked, func(s string) { released = append(released, s) }) {
					t.Fatalf("seed %d: %d is refused", seed, acked)
				}
			case 7:
				if n > 100 && !cut {
					cut, before = true, len(sent)
					last, crc := out.Cutover()
					wire = append(wire, Sent[string]{Seq: last, Cutover: true, CRC: crc})
				} else if r.Intn(4) == 0 { // a new link
					wire = slices.Collect(out.Again(in.Last()))
				}
			}
		}
		out.Acked(in.Last(), func(s string) { released = append(released, s) })
		if !slices.Equal(got, sent) || !slices.Equal(released, sent) || cutAt != before || out.Kept() != 0 {
			t.Fatalf("seed %d: sent %v, got %v, released %v, cutover at %d of %d", seed, sent, got, released, cutAt, before)
		}
	}
}

func TestACutoverCarriesTheChecksumOfWhatIsBeforeIt(t *testing.T) {
	var out Out[int]
	out.Add(1, []byte("ab"))
	out.Add(2, []byte("c"))
	last, crc := out.Cutover()
	out.Add(3, []byte("behind"))
	if again, same := out.Cutover(); last != 2 || again != 2 || same != crc || crc != crc32.Checksum([]byte("abc"), crc32.MakeTable(crc32.Castagnoli)) {
		t.Errorf("cutover behind %d with %x, again %d with %x", last, crc, again, same)
	}
}

func TestAReceiverRefusesWhatIsMissingOrAnother(t *testing.T) {
	var out Out[int]
	var in In
	for i := range 3 {
		out.Add(i, []byte{byte(i)})
	}
	last, crc := out.Cutover()
	for _, step := range []struct {
		name string
		got  Arrival
		want Arrival
	}{
		{"the second record first", in.Accept(2, nil), Gap},
		{"the first", in.Accept(1, []byte{0}), Fresh},
		{"the first again", in.Accept(1, []byte{0}), Duplicate},
		{"the cutover too early", in.Cutover(last, crc), Gap},
		{"the second", in.Accept(2, []byte{1}), Fresh},
		{"the third", in.Accept(3, []byte{2}), Fresh},
		{"another checksum", in.Cutover(last, crc+1), Gap},
		{"the cutover", in.Cutover(last, crc), Fresh},
		{"the cutover again", in.Cutover(last, crc), Duplicate},
		{"one behind it", in.Accept(4, []byte{3}), Fresh},
		{"the cutover at another place", in.Cutover(4, crc), Gap},
	} {
		if step.got != step.want {
			t.Errorf("%s: %d, want %d", step.name, step.got, step.want)
		}
	}
}

func TestAnAcknowledgementOfWhatWasNeverSentIsRefused(t *testing.T) {
	var out Out[int]
	out.Add(1, nil)
	if out.Acked(2, func(int) { t.Error("something is given back") }) || out.Kept() != 1 {
		t.Errorf("2 of 1 is acknowledged, %d kept", out.Kept())
	}
	if !out.Acked(1, func(int) {}) || !out.Acked(0, func(int) { t.Error("given back twice") }) || out.Kept() != 0 {
		t.Errorf("%d kept", out.Kept())
	}
}

// What was acknowledged is let go, and the memory of many is used again.
func TestAcknowledgedRecordsAreLetGo(t *testing.T) {
	var out Out[*int]
	for i := range 10_000 {
		out.Add(&i, nil)
		if i >= 8 {
			out.Acked(Seq(i-7), func(*int) {})
		}
	}
	if n := cap(out.kept); n > 64 || out.Kept() != 8 {
		t.Errorf("room for %d, %d kept", n, out.Kept())
	}
	for i, p := range out.kept[:cap(out.kept)] {
		if p != nil && (i < out.head || i >= len(out.kept)) {
			t.Errorf("place %d still holds what was acknowledged", i)
		}
	}
}

// Whoever takes what is to be sent again may stop anywhere.
func TestSendingAgainMayEndAnywhere(t *testing.T) {
	var out Out[int]
	for i := range 4 {
		out.Add(i, nil)
		if i == 1 {
			out.Cutover()
		}
	}
	for n := range 6 {
		got := 0
		for range out.Again(0) {
			if got++; got > n {
				break
			}
		}
		if want := min(n+1, 5); got != want {
			t.Errorf("%d of 5, want %d", got, want)
		}
	}
	for s := range out.Again(2) { // it may have the cutover or not
		if !s.Cutover || s.Seq != 2 {
			t.Errorf("first again: %+v", s)
		}
		break
	}
	for s := range out.Again(3) { // it has it
		if s.Cutover || s.Seq != 4 {
			t.Errorf("again: %+v", s)
		}
	}
}
