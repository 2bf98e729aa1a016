package main

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// outcome is how one bot ended.
type outcome struct {
	tally     tally
	wrong     error      // what no single message accounts for, or nil
	place     loginReply // empty if it never logged in
	cause     error      // what took its Actor or the gateway away, or nil
	arenaLost bool       // its Actor found the arena's node dead
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
	dead := v.deadNodes(e.nodes)
	var sum tally
	for _, o := range e.outcomes {
		sum.add(o.tally)
		if o.wrong != nil {
			v.fail(o.wrong)
		}
		switch {
		case o.cause != nil && (v.gatewayDead || dead[o.place.PlayerRID] || o.place.PlayerRID == "" && len(dead) > 0):
			v.Unavailable++
		case o.cause != nil:
			v.fail(fmt.Errorf("its nodes are up, and yet: %w", o.cause))
		case o.arenaLost && dead[o.place.ArenaRID]:
			v.Unavailable++
		case o.arenaLost:
			v.fail(fmt.Errorf("a player lost its arena, and the arena's node %s is up", o.place.ArenaRID))
		}
	}
	if v.Requests == 0 && len(dead) == 0 {
		v.fail(errors.New("not one request was answered"))
	}
	v.Lost, v.Duplicated, v.Reordered = sum.Lost, sum.Duplicated, sum.Reordered
	v.OK = v.Errors == 0 && sum == tally{}
	return v
}

// deadNodes returns the nodes that were ended by hand. One that failed is an error.
func (v *verdict) deadNodes(nodes []nodeEnd) map[string]bool {
	dead := map[string]bool{}
	for _, n := range nodes {
		switch n.fate {
		case fateKilled:
			dead[n.rid] = true
			v.gatewayDead = v.gatewayDead || n.role == roleGateway
		case fateFailed:
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
