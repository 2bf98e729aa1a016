package link

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPrefer(t *testing.T) {
	f := func(self, peer string, existing, incoming uint64, existingDialled, incomingDialled bool, want Decision) {
		t.Helper()
		got := Prefer(LinkID{Peer: peer, Lifecycle: existing, Dialled: existingDialled}, LinkID{Peer: peer, Lifecycle: incoming, Dialled: incomingDialled}, self)
		if got != want {
			t.Errorf("at %s with %s: %d, want %d", self, peer, got, want)
		}
	}
	// Opposite directions: the one that the smaller RID dialled stays.
	f("a", "b", 5, 5, true, false, RefuseDuplicate)
	f("a", "b", 5, 5, false, true, Replace)
	f("b", "a", 5, 5, true, false, Replace)
	f("b", "a", 5, 5, false, true, RefuseDuplicate)
	f("B", "a", 5, 5, false, true, Replace) // byte order: upper case is smaller
	// Same direction: the newer stays.
	f("a", "b", 5, 5, true, true, Replace)
	f("a", "b", 5, 5, false, false, Replace)
	// Another lifecycle is another process, whoever dialled.
	for _, dialled := range []bool{true, false} {
		f("a", "b", 5, 6, true, dialled, Replace)
		f("a", "b", 6, 5, false, dialled, RefuseStale)
	}
}

// Both ends of a pair keep the same link of two that were dialled in opposite
// directions, in whatever order each of them learns of the two.
func TestBothEndsKeepTheSameLink(t *testing.T) {
	rid := rapid.StringMatching(`[A-Za-z0-9._-]{1,5}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := rid.Draw(t, "a"), rid.Draw(t, "b")
		if a == b {
			t.Skip()
		}
		keeps := func(self, peer string, first bool) (dialledBy string) {
			existing := LinkID{Peer: peer, Lifecycle: 1, Dialled: first}
			incoming := LinkID{Peer: peer, Lifecycle: 1, Dialled: !first}
			kept := existing
			if Prefer(existing, incoming, self) == Replace {
				kept = incoming
			}
			if kept.Dialled {
				return self
			}
			return peer
		}
		atA := keeps(a, b, rapid.Bool().Draw(t, "order at a"))
		atB := keeps(b, a, rapid.Bool().Draw(t, "order at b"))
		if atA != atB || atA != min(a, b) {
			t.Fatalf("%s keeps the one dialled by %s, %s by %s", a, atA, b, atB)
		}
		if ShouldDial(a, b, false) == ShouldDial(b, a, false) || !ShouldDial(min(a, b), max(a, b), false) {
			t.Fatalf("both or none of %s and %s dial", a, b)
		}
		if !ShouldDial(a, b, true) || !ShouldDial(b, a, true) {
			t.Fatal("a manual peer is not dialled")
		}
	})
}
