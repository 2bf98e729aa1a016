package wire

import (
	"errors"
	"testing"
)

// Each part says how long it is, so that several follow each other; what is cut off is refused.
func TestPartsOfAnAggregateFollowEachOther(t *testing.T) {
	head := AggregateHead{Ready: true, Count: 2}
	b := head.AppendTo(nil)
	parts := []AggregatePart{{[]byte("ada"), []byte("her state")}, {[]byte("bob"), nil}}
	for _, p := range parts {
		b = p.AppendTo(b)
	}
	read := func(b []byte) error {
		got, rest, err := DecodeAggregateHead(b)
		if err != nil || got != head {
			return err
		}
		for k := range got.Count {
			var p AggregatePart
			if p, rest, err = DecodeAggregatePart(rest); err != nil {
				return err
			}
			if want := parts[k]; string(p.ID) != string(want.ID) || string(p.State) != string(want.State) {
				t.Errorf("part %d is %q, want %q", k, p, want)
			}
		}
		if len(rest) > 0 {
			t.Errorf("%d bytes are left", len(rest))
		}
		return nil
	}
	if err := read(b); err != nil {
		t.Fatal(err)
	}
	for n := range len(b) {
		if err := read(b[:n]); !errors.Is(err, ErrTruncated) && (n > 0 || !errors.Is(err, ErrValue)) {
			t.Fatalf("the first %d bytes are refused by %v", n, err)
		}
	}
	if _, _, err := DecodeAggregateHead([]byte{2, 0, 0, 0, 0, 1}); !errors.Is(err, ErrValue) {
		t.Errorf("another version is refused by %v", err)
	}
	if _, _, err := DecodeAggregateHead((&AggregateHead{}).AppendTo(nil)); !errors.Is(err, ErrEmpty) {
		t.Errorf("an aggregate of none is refused by %v", err)
	}
}
