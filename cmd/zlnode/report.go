package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// snapshot is all that is shown of a run at one moment.
type snapshot struct {
	Store       string
	Phase       phase
	Played, For time.Duration
	Bots        int
	Online      int64
	Messages    uint64  // of bots, both ways
	PerSecond   float64 // of them
	Rolling     bool
	Rolled      int // nodes that were relocated
	ToRoll      int // of so many
	Hopping     bool
	Hops        uint64  // to another node
	HopsASecond float64 // of them
	Requests    path
	Pushes      path
	Errors      uint64
	Unavailable int64
	Nodes       []nodeRow
}

// nodeRow is one node process in a snapshot.
type nodeRow struct {
	RID, Role string
	Version   string // "": the demo gives none
	PID       int
	Up        bool
	State     string
}

// role is what the node is, with its version.
func (n *nodeRow) role() string { return strings.TrimSpace(n.Role + " " + n.Version) }

// phase is what a run is doing.
type phase uint8

const (
	phaseStart phase = iota
	phaseLogin
	phasePlay
	phaseSettle
	phaseStop
)

func (p phase) String() string {
	switch p {
	case phaseStart:
		return "starting the nodes"
	case phaseLogin:
		return "logging in"
	case phasePlay:
		return "playing"
	case phaseSettle:
		return "checking that everything arrived"
	case phaseStop:
		return "stopping the nodes"
	}
	return "phase " + strconv.Itoa(int(p))
}

// barWidth is the length of the progress bar, in characters.
const barWidth = 40

// table returns the lines of the live view.
func (s *snapshot) table() []string {
	lines := []string{
		"zlnode demo   store " + s.Store,
		fmt.Sprintf("%s %.1fs of %s   %v", bar(s.Played, s.For), s.Played.Seconds(), s.For, s.Phase),
		"",
		fmt.Sprintf("  bots online   %-12s errors        %s", fmt.Sprintf("%d of %d", s.Online, s.Bots), grouped(s.Errors)),
		fmt.Sprintf("  messages/s    %-12s unavailable   %s", grouped(uint64(s.PerSecond)), grouped(uint64(s.Unavailable))),
	}
	if s.Rolling {
		lines = append(lines, fmt.Sprintf("  relocated     %d of %d nodes", s.Rolled, s.ToRoll))
	}
	if s.Hopping {
		lines = append(lines, fmt.Sprintf("  hops/s        %-12s to another node   %s", grouped(uint64(s.HopsASecond)), grouped(s.Hops)))
	}
	lines = append(lines,
		"",
		fmt.Sprintf("  %-10s %12s %10s %10s %10s", "path", "count", "p50", "p99", "max"),
		s.Requests.row("request"),
		s.Pushes.row("push"),
		"",
		fmt.Sprintf("  %-12s %-13s %8s  %s", "node", "role", "pid", "state"),
	)
	for _, n := range s.Nodes {
		lines = append(lines, fmt.Sprintf("  %-12s %-13s %8d  %s", n.RID, n.role(), n.PID, firstLine(n.State)))
	}
	if pid := s.victim(); pid != 0 && s.Phase == phasePlay {
		lines = append(lines, "", fmt.Sprintf("  Try what happens:  kill -9 %d   (Ctrl-C ends the demo)", pid))
	}
	return lines
}

// victim returns the process that is the best one to kill: an object node.
func (s *snapshot) victim() int {
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		if n := s.Nodes[i]; n.Up && n.Role == roleObjects {
			return n.PID
		}
	}
	return 0
}

func (p *path) row(name string) string {
	return fmt.Sprintf("  %-10s %12s %10s %10s %10s", name, grouped(p.Count), short(p.P50), short(p.P99), short(p.Max))
}

// line is the snapshot for output that is no terminal.
func (s *snapshot) line() string {
	hops := ""
	if s.Hopping {
		hops = fmt.Sprintf("  hops/s %s  to another node %s", grouped(uint64(s.HopsASecond)), grouped(s.Hops))
	}
	if s.Rolling {
		hops += fmt.Sprintf("  relocated %d of %d nodes", s.Rolled, s.ToRoll)
	}
	return fmt.Sprintf("%5.1fs of %s  bots %d of %d  messages/s %s%s  request p50 %s p99 %s  push p50 %s p99 %s  errors %d  unavailable %d",
		s.Played.Seconds(), s.For, s.Online, s.Bots, grouped(uint64(s.PerSecond)), hops,
		short(s.Requests.P50), short(s.Requests.P99), short(s.Pushes.P50), short(s.Pushes.P99), s.Errors, s.Unavailable)
}

// line is the node for output that is no terminal.
func (n *nodeRow) line() string {
	return fmt.Sprintf("node %s  role %s  pid %d  %s", n.RID, n.role(), n.PID, firstLine(n.State))
}

func bar(done, whole time.Duration) string {
	n := barWidth
	if whole > 0 && done < whole {
		n = int(barWidth * done / whole)
	}
	return "[" + strings.Repeat("#", n) + strings.Repeat("-", barWidth-n) + "]"
}

// short writes a latency with three digits.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.3gms", float64(d.Microseconds())/1e3)
	}
	return fmt.Sprintf("%.3gs", d.Seconds())
}

// grouped writes a number with its thousands apart.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// firstLine returns what there is place for of a text, which is not that a log comes next.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.TrimSuffix(line, logEnds)
}

// cut shortens a line to that many characters.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}

// writeJSON writes the verdict as one object.
func (v *verdict) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(v) }

// writeText writes the verdict for people.
func (v *verdict) writeText(w io.Writer) error {
	var b strings.Builder
	switch {
	case !v.OK:
		b.WriteString("\nFAILED\n\n")
	case v.Unavailable > 0:
		b.WriteString("\nok: but for what ended with a node, every message was executed once, in its order, and answered once.\n\n")
	default:
		b.WriteString("\nok: every message was executed once, in its order, and answered once.\n\n")
	}
	fmt.Fprintf(&b, "  %-10s %12s %10s %10s %10s\n", "path", "count", "p50", "p99", "max")
	fmt.Fprintf(&b, "%s   %s/s\n", v.requests.row("request"), grouped(uint64(v.RPS)))
	fmt.Fprintf(&b, "%s\n\n", v.pushes.row("push"))
	if v.Joins != nil {
		b.WriteString(v.Joins.text())
	}
	if v.Rolling != nil {
		b.WriteString(v.Rolling.text())
	}
	if v.Gateway != nil {
		b.WriteString(v.Gateway.text())
	}
	fmt.Fprintf(&b, "  lost %d   duplicated %d   reordered %d   errors %d   unavailable %d\n", v.Lost, v.Duplicated, v.Reordered, v.Errors, v.Unavailable)
	switch {
	case v.gatewayDead:
		b.WriteString("\n  The gateway was ended by hand, and every bot lost its connection with it.\n")
	case v.Unavailable > 0:
		fmt.Fprintf(&b, "\n  %d bots met a node that was ended by hand: their player was there, or their arena, whose\n  count cannot be checked then. What did not need it played on.\n", v.Unavailable)
	}
	if len(v.failures) > 0 {
		b.WriteString("\n  First different errors:\n")
	}
	for _, text := range v.failures {
		fmt.Fprintf(&b, "    %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
