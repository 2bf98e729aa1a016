package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zlnode/zlnode/store"
)

// raceTally counts calls by what they asked for and how they ended.
type raceTally [raceOps][raceEnds]uint64

func (c *course) tally() (t raceTally) {
	for op := range t {
		for end := range t[op] {
			t[op][end] = c.counts[op][end].Load()
		}
	}
	return t
}

// of counts the creations that ended so.
func (t *raceTally) of(end raceEnd) uint64 { return t[opGetOrCreate][end] + t[opCreate][end] }

func (t *raceTally) all() (n uint64) {
	for op := range t {
		for _, k := range t[op] {
			n += k
		}
	}
	return n
}

// raceVerdict is the result of a race. Its JSON form is what --json prints.
type raceVerdict struct {
	OK      bool    `json:"ok"`
	Store   string  `json:"store"`
	Nodes   int     `json:"nodes"`
	Clients int     `json:"clients"`
	IDs     int     `json:"ids"`
	Seconds float64 `json:"seconds"`
	Kills   int     `json:"kills"`

	Calls       uint64 `json:"calls"`
	Created     uint64 `json:"created"`
	Existing    uint64 `json:"existing"`
	Rejected    uint64 `json:"rejected"`
	Failed      uint64 `json:"failed"`
	Already     uint64 `json:"already_exists"`
	Unavailable uint64 `json:"unavailable"`
	Deadline    uint64 `json:"deadline_exceeded"`
	Destroyed   uint64 `json:"destroyed"`
	Freed       uint64 `json:"freed"`
	LongWaits   uint64 `json:"deadline_exceeded_long"` // of those with the long deadline
	SlowestMS   int64  `json:"past_deadline_ms"`       // the longest that a call returned after its deadline

	Runs      int `json:"factory_runs"`
	Cut       int `json:"factory_runs_killed"`
	Unclaimed int `json:"factory_runs_unclaimed"` // accepted, and no call was told Created
	Ready     int `json:"ready"`
	Orphaned  int `json:"orphaned"` // of a dead owner, in the end
	Missing   int `json:"missing"`

	Violations map[raceViolation]int `json:"violations,omitempty"`

	ends  raceTally
	found []found
	dir   string
}

// raceVerdictOf judges the evidence and counts.
func raceVerdictOf(e *raceEvidence, ends raceTally, kills int) raceVerdict {
	v := raceVerdict{
		Kills: kills, Calls: ends.all(), ends: ends, found: judgeRace(e),
		Created: ends.of(endCreated), Existing: ends.of(endExisting), Rejected: ends.of(endRejected), Failed: ends.of(endFailed),
		Already: ends.of(endAlready), Unavailable: ends.of(endUnavailable), Deadline: ends.of(endDeadline),
		Destroyed: ends[opDestroy][endDestroyed], Freed: ends[opFree][endDestroyed],
	}
	accepted := 0
	for _, p := range e.processes {
		for _, r := range p.runs {
			switch r.Event {
			case runBegan:
				v.Runs++
				v.Cut++
			case runAccepted:
				accepted++
				v.Cut--
			default:
				v.Cut--
			}
		}
	}
	v.Unclaimed = accepted - int(v.Created)
	for _, c := range e.calls {
		v.SlowestMS = max(v.SlowestMS, (c.ended - c.began - c.limit).Milliseconds())
		if c.end == endDeadline && c.limit == callTime {
			v.LongWaits++
		}
	}
	for _, r := range e.rows {
		switch {
		case r.state != store.Ready:
			v.Missing++
		case r.find.end == endFound:
			v.Ready++
		default:
			v.Orphaned++
		}
	}
	for _, f := range v.found {
		if v.Violations == nil {
			v.Violations = map[raceViolation]int{}
		}
		v.Violations[f.rule]++
	}
	v.OK = len(v.found) == 0
	return v
}

func (v *raceVerdict) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(v) }

// violationsShown is how many violations are written out; all are counted.
const violationsShown = 20

// writeText writes the verdict for people.
func (v *raceVerdict) writeText(w io.Writer) error {
	var b strings.Builder
	if v.OK {
		b.WriteString("\nok: every attempt that was won ran its factory once, and every call ended as the Store says.\n\n")
	} else {
		b.WriteString("\nFAILED\n\n")
	}
	fmt.Fprintf(&b, "  %-18s", "calls")
	for op := range raceOps {
		fmt.Fprintf(&b, "%12s", op)
	}
	b.WriteString("\n")
	for end := range raceEnds {
		if slices.ContainsFunc(v.ends[:], func(of [raceEnds]uint64) bool { return of[end] > 0 }) {
			fmt.Fprintf(&b, "  %-18s", end)
			for op := range raceOps {
				fmt.Fprintf(&b, "%12s", grouped(v.ends[op][end]))
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "\n  nodes killed %d   factory runs %s (cut short by a kill %d, told to no caller %d)\n",
		v.Kills, grouped(uint64(v.Runs)), v.Cut, v.Unclaimed)
	fmt.Fprintf(&b, "  ids in the end: %d ready, %d of dead nodes, %d missing; freed in the race and after it %d\n", v.Ready, v.Orphaned, v.Missing, v.Freed)
	fmt.Fprintf(&b, "  %d calls waited %v in vain; longest return after a deadline %d ms, %v would be a hang\n", v.LongWaits, callTime, v.SlowestMS, hangSlack)
	v.writeFound(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFound writes how often each rule was broken, and the first cases.
func (v *raceVerdict) writeFound(b *strings.Builder) {
	if v.OK {
		return
	}
	b.WriteString("\n")
	shown := map[raceViolation]bool{}
	for _, f := range v.found {
		if !shown[f.rule] {
			shown[f.rule] = true
			fmt.Fprintf(b, "  %d times: %s\n", v.Violations[f.rule], f.rule)
		}
	}
	b.WriteString("\n")
	for _, f := range v.found[:min(len(v.found), violationsShown)] {
		fmt.Fprintf(b, "    %s: %s\n", f.rule, f.text)
	}
	fmt.Fprintf(b, "\n  What the factories noted is in %s\n", v.dir)
}
