package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	redrawEvery = 250 * time.Millisecond
	lineEvery   = time.Second
)

// watcher shows a run while it goes on: a table that is drawn again and again on
// a terminal, else a line each second and one for each change of a node. Its
// goroutine ends with stop.
type watcher struct {
	out      io.Writer
	terminal *os.File // nil: out is none
	look     func() snapshot

	messages, hops         rate
	perSecond, hopsASecond float64           // as last measured
	drawn                  int               // lines of the table that stand on the terminal
	nodes                  map[string]string // state last told, by RID
	settles                bool              // it was told that the play is over

	end  chan struct{}
	done sync.WaitGroup
}

// watch starts a watcher. look is called from its goroutine.
func watch(out io.Writer, table bool, look func() snapshot) *watcher {
	w := &watcher{out: out, look: look, nodes: map[string]string{}, end: make(chan struct{})}
	if table {
		w.terminal = terminal(out)
	}
	w.done.Go(w.run)
	return w
}

// terminal returns out as a terminal, or nil if it is none.
func terminal(out io.Writer) *os.File {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// stop shows the last state and ends the watcher.
func (w *watcher) stop() {
	close(w.end)
	w.done.Wait()
}

func (w *watcher) run() {
	every := lineEvery
	if w.terminal != nil {
		every = redrawEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.show()
		case <-w.end:
			w.show()
			return
		}
	}
}

// show writes the present state. Output that fails is no reason to end a run: its
// verdict is what counts.
func (w *watcher) show() {
	s := w.look()
	if s.Phase == phasePlay {
		w.perSecond = w.messages.of(&s, s.Messages)
		w.hopsASecond = w.hops.of(&s, s.Hops)
	}
	s.PerSecond, s.HopsASecond = w.perSecond, w.hopsASecond
	if w.terminal == nil {
		_, _ = io.WriteString(w.out, w.lines(&s))
		return
	}
	width, _, err := term.GetSize(int(w.terminal.Fd()))
	if err != nil {
		width = 0
	}
	_, _ = io.WriteString(w.out, w.redraw(s.table(), width))
}

// redraw returns what replaces the table that was drawn last: up to its first
// line, then each line and the clearing of what stood there.
func (w *watcher) redraw(lines []string, width int) string {
	var b strings.Builder
	if w.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", w.drawn)
	}
	for _, line := range lines {
		b.WriteString(cut(line, width-1) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	w.drawn = len(lines)
	return b.String()
}

// lines returns a line for each node whose state has changed, one for the run while it
// plays, and once what it waits for then.
func (w *watcher) lines(s *snapshot) string {
	var b strings.Builder
	if s.Phase == phaseStart {
		return "" // a node that does not start ends the run, with an error
	}
	for _, n := range s.Nodes {
		if w.nodes[n.RID] != n.State {
			w.nodes[n.RID] = n.State
			b.WriteString(n.line() + "\n")
		}
	}
	switch {
	case s.Phase == phasePlay:
		b.WriteString(s.line() + "\n")
	case s.Phase == phaseSettle && !w.settles:
		w.settles = true
		b.WriteString(s.Phase.String() + "\n")
	}
	return b.String()
}

// rateOver is the time over which a rate is measured, or a little more.
const rateOver = time.Second

// rate turns a count that is looked at now and then into events per second.
type rate struct{ samples []sample }

type sample struct {
	at    time.Time
	count uint64
}

// of measures from the beginning of the play, when the count was 0.
func (r *rate) of(s *snapshot, count uint64) float64 {
	now := time.Now()
	if len(r.samples) == 0 {
		r.add(now.Add(-s.Played), 0)
	}
	return r.add(now, count)
}

// add takes the count at a time and returns the rate up to then.
func (r *rate) add(at time.Time, count uint64) float64 {
	r.samples = append(r.samples, sample{at, count})
	for len(r.samples) > 2 && at.Sub(r.samples[1].at) >= rateOver {
		r.samples = r.samples[1:]
	}
	first := r.samples[0]
	if d := at.Sub(first.at).Seconds(); d > 0 {
		return float64(count-first.count) / d
	}
	return 0
}
