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
		e := escape(one)
		if back, ok := unescape(e); strings.ContainsAny(e, "{}:\x00\n\r ") || back != one || !ok {
			t.Fatalf("%q becomes %q", one, e)
		}
	})
}

func TestOperationsReadBackAsWritten(t *testing.T) {
	op := store.OperationKey{SourceRID: "node.a-1_x", SourceLifecycle: store.GenMax, Op: newOp()}
	if got, ok := parseOperation(operation(op)); got != op || !ok {
		t.Errorf("operation %+v reads back as %+v, %v", op, got, ok)
	}
}

// FuzzAnswer: whatever words come, reading a row ends, and either all of them made
// sense or the error is ErrCorrupt.
func FuzzAnswer(f *testing.F) {
	row := "Exists\n5\n1\n15000\nstate\n2\nkind\n1\ntype\nplayer\nobject_gen\n7\nowner_gen\n1\nversion\n9\nmesh\nmesh\nrid\nnode-a\n" +
		"owner\n0a1b\nlease_gen\n3\nspot\nspot\nop\nc000102030405060708090a0b0c0d0e0f\nop_of\nnode-a:3\nepoch\n5"
	f.Add(row)
	f.Add(row + "\nmove\n000102030405060708090a0b0c0d0e0f\nattempt\n1\nto_rid\nnode-b\nto_owner\nx\nto_lease\n4\nto_until\n1")
	f.Add("Missing\n5\n0")
	f.Add(strings.Replace(row, "state\n2\n", "state\n1\n", 1))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := newAnswer("object_read", "key", strings.Split(text, "\n"))
		if err == nil {
			a.change("player-1")
			err = a.end()
		}
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("error is %v; want ErrCorrupt", err)
		}
	})
}
