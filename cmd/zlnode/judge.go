package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// outcome is how one bot ended.
type outcome struct {
	tally     tally  // of what went between client and Actor
	nodes     tally  // of messages of nodes
	overtaken uint64 // of those, that were allowed to come out of order
	wrong     error  // what no single message accounts for, or nil
	crossed   bool   // its Actor has changed its node
	room      string // that its Actor is in; "": none
	arena     string // the node of the arena
	roams     bool   // its Actor and the arena change their nodes, and nobody is told
	// cause is what took its Actor or the gateway away, or nil; needs are the nodes that it
	// needed then besides the gateway, and none if it had not logged in.
	cause     error
	needs     []string
	arenaLost bool   // its Actor found the arena's node dead
	unsent    string // why the arena could not send to its Actor; "": it could
	visited   error  // what its visitor met
}

// nodeEnd is how one node process ended.
type nodeEnd struct {
	rid  string
	role string
	fate fate
	text string
}

// evidence is everything that a run is judged by.
type evidence struct {
	outcomes         []outcome
	nodes            []nodeEnd
	errors           uint64   // counted during the run
	failures         []string // the first different ones
	requests, pushes path
	played           time.Duration
	joins            *joinEvidence  // nil: nobody hopped
	rolls            *rollEvidence  // nil: no node was to be relocated
	gateway          *gatewayReport // nil: none was to be killed
}

// verdict is the result of a run. Its JSON form is what --json prints.
type verdict struct {
	OK          bool    `json:"ok"`
	Errors      uint64  `json:"errors"`
	Unavailable uint64  `json:"unavailable"`
	Lost        uint64  `json:"lost"`
	Duplicated  uint64  `json:"duplicated"`
	Reordered   uint64  `json:"reordered"`
	Requests    uint64  `json:"requests"`
	Pushes      uint64  `json:"pushes"`
	RPS         float64 `json:"rps"`
	P50US       int64   `json:"p50_us"`
	P99US       int64   `json:"p99_us"`

	Joins   *joinReport    `json:"joins,omitempty"`   // nil: nobody hopped
	Rolling *rollReport    `json:"rolling,omitempty"` // nil: no node was to be relocated
	Gateway *gatewayReport `json:"gateway,omitempty"` // nil: none was to be killed

	requests, pushes path
	failures         []string
	gatewayDead      bool
}

// judge decides about a run. A node that was killed by hand excuses those who
// needed it, each counted once as unavailable, and nobody else: an Unavailable
// while all nodes live is an error.
func judge(e evidence) verdict {
	v := verdict{
		Errors: e.errors, failures: e.failures,
		Requests: e.requests.Count, Pushes: e.pushes.Count, requests: e.requests, pushes: e.pushes,
		P50US: e.requests.P50.Microseconds(), P99US: e.requests.P99.Microseconds(),
	}
	if s := e.played.Seconds(); s > 0 {
		v.RPS = math.Round(float64(v.Requests)/s*10) / 10
	}
	if e.gateway != nil {
		e.nodes = slices.DeleteFunc(slices.Clone(e.nodes), func(n nodeEnd) bool { return n.rid == e.gateway.Killed && n.fate == fateKilled })
	}
	dead := v.deadNodes(e.nodes)
	var sum tally
	for _, o := range e.outcomes {
		sum.add(o.tally)
		if o.wrong != nil {
			v.fail(o.wrong)
		}
		// What was on its way by a node where the Actor had been is gone with that.
		excused := len(dead) > 0 && o.crossed
		if excused {
			o.nodes.Lost = 0
		}
		sum.add(o.nodes)
		switch {
		case o.cause != nil && (v.gatewayDead || slices.ContainsFunc(o.needs, func(rid string) bool { return dead[rid] }) || len(o.needs) == 0 && len(dead) > 0):
			v.Unavailable++
			continue
		case o.cause != nil:
			v.fail(fmt.Errorf("its nodes are up, and yet: %w", o.cause))
		case o.arenaLost && (dead[o.arena] || o.roams && len(dead) > 0):
			v.Unavailable++
		case o.arenaLost:
			v.fail(fmt.Errorf("a player lost its arena, and the arena's node %s is up", o.arena))
		}
		if o.unsent != "" && !excused {
			v.fail(fmt.Errorf("an arena could not send to a player: %s", o.unsent))
		}
		if o.visited != nil && !excused {
			v.fail(o.visited)
		}
	}
	v.judgeJoins(&e, dead)
	v.judgeRoll(&e, dead)
	v.judgeGateway(e.gateway)
	if v.Requests == 0 && len(dead) == 0 {
		v.fail(errors.New("not one request was answered"))
	}
	v.Lost, v.Duplicated, v.Reordered = sum.Lost, sum.Duplicated, sum.Reordered
	v.OK = v.Errors == 0 && sum == tally{}
	return v
}

// deadNodes returns the nodes that were ended by hand. One that failed is an error, and so
// is one that did not stop in order.
func (v *verdict) deadNodes(nodes []nodeEnd) map[string]bool {
	dead := map[string]bool{}
	for _, n := range nodes {
		switch n.fate {
		case fateKilled:
			dead[n.rid] = true
			v.gatewayDead = v.gatewayDead || n.role == roleGateway
		case fateDisorder, fateFailed:
			v.fail(fmt.Errorf("node %s %s", n.rid, n.text))
		case fateUp, fateStopped:
		}
	}
	return dead
}

// fail counts an error and keeps its text if it is one of the first.
func (v *verdict) fail(err error) {
	v.Errors++
	v.failures = keepFailure(v.failures, err.Error())
}

// keepFailure adds a text to the first different ones.
func keepFailure(kept []string, text string) []string {
	for _, known := range kept {
		if known == text {
			return kept
		}
	}
	if len(kept) < failuresKept {
		kept = append(kept, text)
	}
	return kept
}
