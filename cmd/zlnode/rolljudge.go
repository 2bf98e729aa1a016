package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/zlnode/zlnode"
)

// rollEvidence is what is known of the relocations of a run.
type rollEvidence struct {
	steps    []rollStep
	wanted   int
	failure  error // why not all nodes were relocated, or what was not to be learnt
	dropped  uint64
	homeless map[string]uint64 // players that did not come to their rooms, by kind of failure
	stood    []stoodPath
}

// stoodPath is how long the objects of a kind stood still.
type stoodPath struct {
	kind stoodKind
	path
}

// rolls collects what is known of the relocations, when all players have stopped.
func (d *demo) rolls() *rollEvidence {
	r := d.roller
	e := &rollEvidence{dropped: d.meter.dropped.Load(), homeless: d.meter.hops.failures()}
	asked := r.collect()
	_, e.wanted = r.replaced()
	r.mu.Lock()
	defer r.mu.Unlock()
	e.steps, e.failure = r.steps, r.failure
	if e.failure == nil {
		e.failure = asked
	}
	for _, kind := range stoodKinds {
		e.stood = append(e.stood, stoodPath{kind, r.stood.of(kind).path()})
	}
	return e
}

// rollReport is the part of a verdict that is about relocations.
type rollReport struct {
	Nodes []rolledNode `json:"nodes"`
	// Dropped is how many clients lost their connection.
	Dropped uint64 `json:"dropped"`
	// Interruption is how long objects stood still, by kind: from the capture of the state at
	// one node to the turn behind all that had waited, at the other.
	Interruption map[string]stoodSpan `json:"interruption"`
	// Overtaken is how many messages of nodes came behind later ones of the same sender, to
	// what had moved.
	Overtaken uint64 `json:"overtaken"`

	evidence *rollEvidence
}

// rolledNode is how the relocation of a node went. Times are in microseconds.
type rolledNode struct {
	RID     string         `json:"rid"`
	Mode    string         `json:"mode"`
	From    string         `json:"from"` // the version
	To      string         `json:"to"`   // "": no process follows it
	Outcome string         `json:"outcome"`
	Reason  string         `json:"reason"`
	Text    string         `json:"text,omitempty"`
	Units   map[string]int `json:"units"` // that left, by kind
	Blocked []string       `json:"blocked,omitempty"`
	MovedUS int64          `json:"moved_us"` // until the last object had left
	SafeUS  int64          `json:"safe_us"`  // from then on until messages found their way without the node
	EndedUS int64          `json:"ended_us"` // from then on until the process was gone
	StartUS int64          `json:"start_us"` // from then on until the next one served
	TotalUS int64          `json:"total_us"`
}

type stoodSpan struct {
	Count uint64 `json:"count"`
	span
}

func (s *rollStep) report() rolledNode {
	n := rolledNode{
		RID: s.rid, Mode: s.mode.String(), From: s.version, To: s.next,
		Outcome: s.answer.Outcome.String(), Reason: s.answer.Reason.String(), Text: s.answer.Text, Units: map[string]int{}, Blocked: s.answer.Blocked,
		MovedUS: s.moved.Microseconds(), SafeUS: s.safe.Microseconds(), EndedUS: s.ended.Microseconds(), StartUS: s.start.Microseconds(),
		TotalUS: s.total().Microseconds(),
	}
	for _, u := range s.answer.Units {
		n.Units[u.Kind.String()] = u.Left
	}
	return n
}

// judgeRoll decides about the relocations of a run: each must end as Relocated, of each kind of
// object some must have moved, and no client may lose its connection. A node that was ended by
// hand excuses the first two.
func (v *verdict) judgeRoll(e *evidence, dead map[string]bool) {
	r := e.rolls
	if r == nil {
		return
	}
	v.Rolling = &rollReport{Nodes: []rolledNode{}, Dropped: r.dropped, Interruption: map[string]stoodSpan{}, evidence: r}
	for i := range r.steps {
		v.Rolling.Nodes = append(v.Rolling.Nodes, r.steps[i].report())
	}
	for _, s := range r.stood {
		v.Rolling.Interruption[s.kind.String()] = stoodSpan{s.Count, s.span()}
	}
	for _, o := range e.outcomes {
		v.Rolling.Overtaken += o.overtaken
	}
	if r.dropped > 0 && !v.gatewayDead {
		v.fail(fmt.Errorf("%d clients lost their connection", r.dropped))
	}
	if len(dead) > 0 {
		return
	}
	for kind, n := range r.homeless {
		v.fail(fmt.Errorf("%d players did not come to their rooms: %s", n, kind))
	}
	relocated := 0
	for _, n := range v.Rolling.Nodes {
		if n.Outcome == zlnode.RelocateRelocated.String() {
			relocated++
			continue
		}
		v.fail(fmt.Errorf("node %s was not relocated: %s, %s: %s%s", n.RID, n.Outcome, n.Reason, n.Text, n.blocked()))
	}
	switch {
	case r.failure != nil:
		v.fail(r.failure)
	case relocated < r.wanted:
		v.fail(fmt.Errorf("%d of %d nodes were relocated", relocated, r.wanted))
	default:
		v.judgeKinds(r, len(e.outcomes))
	}
}

// judgeKinds decides whether of each kind that there is some have moved: every object has been
// at a node that was relocated.
func (v *verdict) judgeKinds(r *rollEvidence, bots int) {
	for _, s := range r.stood {
		if s.Count == 0 && bots >= s.kind.bots() {
			v.fail(fmt.Errorf("of kind %q nothing has moved", s.kind))
		}
	}
}

// bots is how many there must be so that there is an object of that kind.
func (k stoodKind) bots() int {
	switch k {
	case stoodActor:
		return int(partyPlain) + 1
	case stoodWide, stoodInRoom:
		return int(partyWide) + 1
	case stoodMember:
		return int(partyShared) + 1
	case stoodInstance:
	}
	return int(partyInstance) + 1
}

func (n *rolledNode) blocked() string {
	if len(n.Blocked) == 0 {
		return ""
	}
	return "; " + strings.Join(n.Blocked, "; ")
}

// text writes the report for people.
func (r *rollReport) text() string {
	var b strings.Builder
	us := func(n int64) string { return short(time.Duration(n) * time.Microsecond) }
	fmt.Fprintf(&b, "  %-12s %-20s %-16s %-10s %6s %9s %9s %9s %9s %9s\n", "node", "mode", "version", "outcome", "units", "moved", "safe", "ended", "started", "total")
	for _, n := range r.Nodes {
		to, units := n.To, 0
		if to == "" {
			to = "gone"
		}
		for _, left := range n.Units {
			units += left
		}
		fmt.Fprintf(&b, "  %-12s %-20s %-16s %-10s %6d %9s %9s %9s %9s %9s\n",
			n.RID, n.Mode, n.From+" > "+to, n.Outcome, units, us(n.MovedUS), us(n.SafeUS), us(n.EndedUS), us(n.StartUS), us(n.TotalUS))
	}
	fmt.Fprintf(&b, "\n  %-18s %8s %10s %10s %10s   from its capture to the turn behind all that had waited\n", "interruption of", "count", "p50", "p99", "max")
	for _, s := range r.evidence.stood {
		fmt.Fprintf(&b, "  %-18s %8s %10s %10s %10s\n", s.kind, grouped(s.Count), short(s.P50), short(s.P99), short(s.Max))
	}
	fmt.Fprintf(&b, "\n  connections dropped %d\n", r.Dropped)
	if r.Overtaken > 0 {
		fmt.Fprintf(&b, "  messages of nodes to players that had moved, which came behind later ones, as they may: %s\n", grouped(r.Overtaken))
	}
	b.WriteByte('\n')
	return b.String()
}
