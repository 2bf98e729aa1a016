package main

import (
	"strings"
	"testing"
	"time"
)

func TestATableIsDrawnOverTheOneBefore(t *testing.T) {
	w := &watcher{}
	if got, want := w.redraw([]string{"one", "two"}, 80), "one\x1b[K\ntwo\x1b[K\n\x1b[J"; got != want {
		t.Errorf("first %q, want %q", got, want)
	}
	if got, want := w.redraw([]string{"three"}, 4), "\x1b[2Athr\x1b[K\n\x1b[J"; got != want {
		t.Errorf("second %q, want %q", got, want)
	}
	if got, want := w.redraw(nil, 4), "\x1b[1A\x1b[J"; got != want {
		t.Errorf("third %q, want %q", got, want)
	}
}

func TestLinesTellEachChangeOfANodeOnce(t *testing.T) {
	w := &watcher{nodes: map[string]string{}}
	s := exampleSnapshot()
	s.Phase = phaseStart
	if got := w.lines(&s); got != "" {
		t.Errorf("during the start: %q", got)
	}
	s.Phase = phaseLogin
	if got := strings.Count(w.lines(&s), "\n"); got != 3 {
		t.Errorf("%d lines at first, want one for each node", got)
	}
	s.Nodes[1].State = "down (killed)"
	if got, want := w.lines(&s), "node objects-1  role objects 1.0.0  pid 4712  down (killed)\n"; got != want {
		t.Errorf("after a change %q, want %q", got, want)
	}
	s.Phase = phasePlay
	if got, want := w.lines(&s), s.line()+"\n"; got != want {
		t.Errorf("while playing %q, want %q", got, want)
	}
	s.Phase = phaseSettle
	if got, want := w.lines(&s)+w.lines(&s), "checking that everything arrived\n"; got != want {
		t.Errorf("when the play is over %q, want %q", got, want)
	}
}

func TestARateIsThatOfTheLastSecond(t *testing.T) {
	var r rate
	start := time.Unix(0, 0)
	if got := r.add(start, 0); got != 0 {
		t.Errorf("at first %v", got)
	}
	if got := r.add(start.Add(250*time.Millisecond), 100); got != 400 {
		t.Errorf("after a quarter of a second %v, want 400", got)
	}
	for i := 2; i <= 8; i++ {
		r.add(start.Add(time.Duration(i)*250*time.Millisecond), 100)
	}
	if got := r.add(start.Add(9*250*time.Millisecond), 110); got != 10/1.0 {
		t.Errorf("over the last second %v, want 10", got)
	}
	if n := len(r.samples); n > 6 {
		t.Errorf("%d samples are kept", n)
	}
}

func TestAWatcherShowsTheLastStateWhenItStops(t *testing.T) {
	var out strings.Builder
	w := watch(&out, true, exampleSnapshot) // a Builder is no terminal
	w.stop()
	if s := exampleSnapshot(); !strings.Contains(out.String(), s.Nodes[0].line()) {
		t.Errorf("shown: %q", out.String())
	}
}
