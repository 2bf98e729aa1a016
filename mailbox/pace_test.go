package mailbox

import "testing"

func TestPausesComeWithManySmallLooksInARow(t *testing.T) {
	type look struct {
		found uint64
		pause bool
	}
	f := func(name string, looks ...look) {
		t.Helper()
		var p pace
		var turns uint64
		for i, l := range looks {
			turns += l.found
			if got := p.due(turns); got != l.pause {
				t.Errorf("%s: look %d after %d messages: pause %v, want %v", name, i, l.found, got, l.pause)
			}
		}
	}
	f("a stream", look{5, false}, look{5, false}, look{5, false}, look{5, false}, look{5, true}, look{20, true}, look{20, true})
	f("a large batch", look{5, false}, look{5, false}, look{5, false}, look{5, false}, look{fewMessages, false}, look{5, false})
	f("nobody else", look{1, false}, look{1, false}, look{1, false}, look{1, false}, look{1, true}, look{1, false}, look{1, false}, look{5, false})
}
