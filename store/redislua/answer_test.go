package redislua

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/store"
)

func TestEscapedIDsAreHarmlessAndDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]rune("aA%2F{}:\x00\n é"))
		one := rapid.StringOfN(alphabet, 0, 12, -1).Draw(t, "one")
		two := rapid.StringOfN(alphabet, 0, 12, -1).Draw(t, "two")
		if (escape(one) == escape(two)) != (one == two) {
			t.Fatalf("%q and %q become %q and %q", one, two, escape(one), escape(two))
		}
		if e := escape(one); strings.ContainsAny(e, "{}:\x00\n\r ") || unescape(e) != one {
			t.Fatalf("%q becomes %q", one, e)
		}
	})
}

func TestOperationsReadBackAsWritten(t *testing.T) {
	op := store.OperationKey{SourceRID: "node.a-1_x", SourceLifecycle: store.GenMax, Op: newOp()}
	a := answer{words: []string{operation(op)}}
	if got := a.operation(); got != op || a.end() != nil {
		t.Errorf("operation %+v reads back as %+v, %v", op, got, a.err)
	}
}

// FuzzAnswer: whatever words come, reading a row ends, and either all of them made
// sense or the error is ErrCorrupt.
func FuzzAnswer(f *testing.F) {
	row := "Exists\n1\n15000\n2\nplayer\n7\n1\n9\nmesh\nnode-a\n0a1b\n3\nspot\nnode-a:3:000102030405060708090a0b0c0d0e0f\n\n"
	f.Add(row)
	f.Add("Missing\n0")
	f.Add(strings.Replace(row, "\n2\n", "\n1\n", 1))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := newAnswer("actor_read", "key", strings.Split(text, "\n"))
		if err == nil {
			a.row("player-1")
			err = a.end()
		}
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("error is %v; want ErrCorrupt", err)
		}
	})
}
