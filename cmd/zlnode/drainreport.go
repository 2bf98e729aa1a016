package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/chunker"
)

// drainReport is the result of `zlnode bench drain`. Its JSON form is what --json prints.
type drainReport struct {
	Actors     int            `json:"actors"`
	Rooms      int            `json:"rooms"`
	Members    int            `json:"members"`
	StateBytes int            `json:"state_bytes"`
	Drains     []drainMeasure `json:"drains"`
}

// drainMeasure is one drain.
type drainMeasure struct {
	Store   string      `json:"store"`
	Limits  drainLimits `json:"limits"`
	Outcome string      `json:"outcome"`
	Reason  string      `json:"reason"`
	Text    string      `json:"text,omitempty"`
	Blocked []string    `json:"blocked,omitempty"`
	Units   int         `json:"units"` // that left
	Objects int         `json:"objects"`
	US      int64       `json:"us"`
	// Interruption is how long objects stood still, by kind.
	Interruption map[string]stoodSpan `json:"interruption"`
	// Source is what the source's heap had at most beside what it had when the relocation
	// began; Target, of the target where that was most, beside what it has in the end.
	Source int64 `json:"source_bytes"`
	Target int64 `json:"target_bytes"`
	// Permitted is the payload of as many of the largest units as may move at once, and what
	// links may have in flight: a bound of what moves have in memory.
	Permitted int64 `json:"permitted_bytes"`
}

const drainMovesDefault = 64 // of MaxMoves

// String returns the limits that are not the default.
func (l *drainLimits) String() string {
	var words []string
	if l.Moves > 0 {
		words = append(words, fmt.Sprint("moves ", l.Moves))
	}
	if l.LinkBytes > 0 {
		words = append(words, "link "+sizeText(l.LinkBytes))
	}
	if l.ChunkBytes > 0 {
		words = append(words, "chunk "+sizeText(int64(l.ChunkBytes)))
	}
	if len(words) == 0 {
		return "defaults"
	}
	return strings.Join(words, ", ")
}

func (m *drainMeasure) take(o *drainOptions, a *relocatedAnswer) {
	m.Outcome, m.Reason, m.Text, m.Blocked, m.US = a.Outcome.String(), a.Reason.String(), a.Text, a.Blocked, time.Duration(a.MovedNS).Microseconds()
	for _, u := range a.Units {
		m.Units += u.Left
		m.Objects += u.Left
		if u.Kind == zlnode.UnitSpotWideSpot {
			m.Objects += u.Left * o.members
		}
	}
	moves, link, largest := m.Limits.Moves, m.Limits.LinkBytes, o.stateBytes
	if moves == 0 {
		moves = drainMovesDefault
	}
	if link == 0 {
		link = chunker.LinkBytes
	}
	if o.rooms > 0 {
		largest *= o.members
	}
	m.Permitted = int64(min(moves, m.Units)*largest) + drainTargets*min(link, int64(o.stateBytes)*int64(m.Objects)/drainTargets)
}

func (m *drainMeasure) takeMemory(source bool, u memoryUse) {
	if source {
		m.Source = int64(u.Peak) - int64(u.Base)
	} else {
		m.Target = max(m.Target, int64(u.Peak)-int64(u.Now))
	}
}

func (m *drainMeasure) takeStood(s *stand) {
	m.Interruption = map[string]stoodSpan{}
	for _, kind := range stoodKinds {
		if p := s.of(kind).path(); p.Count > 0 {
			m.Interruption[kind.String()] = stoodSpan{p.Count, p.span()}
		}
	}
}

// ok reports whether every drain has moved all.
func (r *drainReport) ok() bool {
	for i := range r.Drains {
		m := &r.Drains[i]
		if m.Outcome != zlnode.RelocateRelocated.String() || m.Units != r.Actors+r.Rooms || m.Objects != r.Actors+r.Rooms*(r.Members+1) {
			return false
		}
	}
	return true
}

func (r *drainReport) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// writeText writes the drains for people.
func (r *drainReport) writeText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s actors and %d rooms with %d each, state of %s, from one node to %d\n\n",
		grouped(uint64(r.Actors)), r.Rooms, r.Members, sizeText(int64(r.StateBytes)), drainTargets)
	fmt.Fprintf(&b, "  %-24s %-10s %9s %9s %9s   %s %9s %9s %9s\n", "limits", "outcome", "seconds", "units/s", "objects/s",
		"interruption p50/p99: "+strings.Join([]string{stoodActor.String(), stoodWide.String(), stoodInRoom.String()}, ", "), "source", "target", "permitted")
	for i := range r.Drains {
		m := &r.Drains[i]
		took := time.Duration(m.US) * time.Microsecond
		var stood []string
		for _, kind := range []stoodKind{stoodActor, stoodWide, stoodInRoom} {
			p := m.Interruption[kind.String()].path(0)
			stood = append(stood, short(p.P50)+"/"+short(p.P99))
		}
		mib := func(n int64) string { return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20)) }
		fmt.Fprintf(&b, "  %-24s %-10s %9.2f %9s %9s   %-18s %-18s %-18s %9s %9s %9s\n", &m.Limits, m.Outcome, took.Seconds(),
			grouped(uint64(float64(m.Units)/took.Seconds())), grouped(uint64(float64(m.Objects)/took.Seconds())),
			stood[0], stood[1], stood[2], mib(m.Source), mib(m.Target), mib(m.Permitted))
		for _, text := range append([]string{m.Text}, m.Blocked...) {
			if text != "" {
				fmt.Fprintf(&b, "    %s: %s\n", m.Reason, text)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
