package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zlnode/zlnode/client"
)

// joinEvidence is what is known of the hops of a run.
type joinEvidence struct {
	within, crossed, rejected uint64
	failed                    map[string]uint64 // by kind

	sealed, took, seen, during, apart path

	census []roomCensus
	astray error // the rooms count other members than there are players, or were not asked
}

// joins collects what is known of the hops, when all players have stopped.
func (d *demo) joins(outcomes []outcome) *joinEvidence {
	m := &d.meter.hops
	e := &joinEvidence{
		within: m.within.Load(), crossed: m.crossed.Load(), rejected: m.rejected.Load(), failed: m.failures(),
		sealed: m.sealed.path(), took: m.took.path(), seen: m.seen.path(), during: m.during.path(), apart: m.apart.path(),
	}
	e.census, e.astray = d.takeCensus(outcomes)
	return e
}

// takeCensus asks the rooms until they count the players that are in them. Nobody waits for
// what tells a room that a player has left it, so that may take a moment.
func (d *demo) takeCensus(outcomes []outcome) (all []roomCensus, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	again := time.NewTicker(settleLook)
	defer again.Stop()
	for {
		if all, err = d.askCensus(ctx); err == nil {
			err = astray(all, outcomes)
		}
		if err == nil || errors.Is(err, client.ErrDisconnected) {
			return all, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return all, err
		}
	}
}

func (d *demo) askCensus(ctx context.Context) (all []roomCensus, err error) {
	v := d.visitors[0]
	if v.client == nil {
		return nil, client.ErrDisconnected
	}
	err = v.client.RequestJSON(ctx, packetCensus, struct{}{}, &all)
	return all, err
}

// astray says which rooms count other members than there are players in them.
func astray(all []roomCensus, outcomes []outcome) error {
	players := map[string]uint64{}
	for _, o := range outcomes {
		players[o.room]++
	}
	var wrong []string
	for _, c := range all {
		if c.Joined-c.Left != players[c.ID] {
			wrong = append(wrong, fmt.Sprintf("%s on %s: %d came and %d went, and %d players are there", c.ID, c.RID, c.Joined, c.Left, players[c.ID]))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("rooms count their members wrong: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// joinReport is the part of a verdict that is about hops.
type joinReport struct {
	CrossNode  uint64            `json:"cross_node"`
	WithinNode uint64            `json:"within_node"`
	Rejected   uint64            `json:"rejected"`
	Failed     map[string]uint64 `json:"failed"` // by kind
	// Overtaken is how many messages of nodes came behind later ones of the same sender, to
	// players that had moved.
	Overtaken uint64 `json:"overtaken"`

	// Sealed is from the capture of a player's state at one node to its first turn at the
	// other, Took from the end of the handler that asked for the hop to that.
	Sealed span `json:"sealed"`
	Took   span `json:"took"`
	// Seen is the same as Took for the client. During is from a packet that it sent
	// meanwhile to its answer, Apart the same for those that it sent while no hop was open.
	Seen   span `json:"seen"`
	During span `json:"during"`
	Apart  span `json:"apart"`

	Nodes []nodeMoves `json:"nodes"`

	evidence *joinEvidence
}

// nodeMoves is how moves went for one node, by its own clock.
type nodeMoves struct {
	RID          string `json:"rid"`
	MovedOut     uint64 `json:"moved_out"`
	MovedIn      uint64 `json:"moved_in"`
	SourceStop   span   `json:"source_stop"`
	TargetResume span   `json:"target_resume"`
}

// judgeJoins decides about the hops of a run. A node that was ended by hand excuses what
// needed two of them.
func (v *verdict) judgeJoins(e *evidence, dead map[string]bool) {
	j := e.joins
	if j == nil {
		return
	}
	r := &joinReport{
		CrossNode: j.crossed, WithinNode: j.within, Rejected: j.rejected, Failed: j.failed,
		Sealed: j.sealed.span(), Took: j.took.span(), Seen: j.seen.span(), During: j.during.span(), Apart: j.apart.span(),
		Nodes: []nodeMoves{}, evidence: j,
	}
	for _, c := range j.census {
		if !slices.ContainsFunc(r.Nodes, func(n nodeMoves) bool { return n.RID == c.RID }) {
			r.Nodes = append(r.Nodes, nodeMoves{c.RID, c.MovedOut, c.MovedIn, c.SourceStop, c.TargetResume})
		}
	}
	slices.SortFunc(r.Nodes, func(a, b nodeMoves) int { return cmp.Compare(a.RID, b.RID) })
	for _, o := range e.outcomes {
		r.Overtaken += o.overtaken
	}
	v.Joins = r
	if len(dead) > 0 {
		return
	}
	if n := uint64(len(e.outcomes)); r.CrossNode < n {
		v.fail(fmt.Errorf("%d players have changed their node, and there are %d bots", r.CrossNode, n))
	}
	if j.astray != nil && !slices.ContainsFunc(e.outcomes, func(o outcome) bool { return o.cause != nil }) {
		v.fail(j.astray)
	}
}

func (p path) span() span { return spanOf(p.P50, p.P99, p.Max) }

// failures returns how many hops failed, with their kinds.
func (r *joinReport) failures() string {
	var sum uint64
	var kinds []string
	for kind, n := range r.Failed {
		sum += n
		kinds = append(kinds, fmt.Sprint(kind, " ", grouped(n)))
	}
	if sum == 0 {
		return "0"
	}
	slices.Sort(kinds)
	return fmt.Sprintf("%s (%s)", grouped(sum), strings.Join(kinds, ", "))
}

// text writes the report for people.
func (r *joinReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  hops to another node %s   within a node %s   rejected %s   failed %s\n\n",
		grouped(r.CrossNode), grouped(r.WithinNode), grouped(r.Rejected), r.failures())
	fmt.Fprintf(&b, "  %-10s %12s %10s %10s %10s\n", "move", "count", "p50", "p99", "max")
	line := func(name string, p path, what string) { fmt.Fprintf(&b, "%s   %s\n", p.row(name), what) }
	for _, n := range r.Nodes {
		line("stop", n.SourceStop.path(n.MovedOut), "sealed at "+n.RID+", until all it held was relayed")
		line("resume", n.TargetResume.path(n.MovedIn), "opened at "+n.RID+", from the commit on")
	}
	line("sealed", r.evidence.sealed, "from the capture to the first turn at the other node")
	line("hop", r.evidence.took, "from the end of the handler that asked for it")
	line("seen", r.evidence.seen, "from the packet that asked for it to its answer, at the client")
	line("during", r.evidence.during, "packets that were sent meanwhile, to their answers")
	line("apart", r.evidence.apart, "packets that were sent while no hop was open")
	if r.Overtaken > 0 {
		fmt.Fprintf(&b, "\n  messages of nodes to players that had moved, which came behind later ones, as they may: %s\n", grouped(r.Overtaken))
	}
	b.WriteByte('\n')
	return b.String()
}

func (s span) path(count uint64) path {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return path{count, us(s.P50US), us(s.P99US), us(s.MaxUS)}
}
