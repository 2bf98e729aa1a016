package main

import (
	"errors"
	"testing"
	"time"

	"github.com/zlnode/zlnode/store"
)

// raceOf is a race of three ids and two processes, of which the second was killed:
//
//	id 0: call 1 is told Created of generation 1 at objects-1, and call 2 Existing
//	id 1: call 3 is rejected (generation 2), call 4 fails as ordered (3), call 5 is told
//	      Created (4) at objects-2, which is killed
//	id 2: call 6 is told Created (5) at objects-1, call 7 destroys it, call 8 finds nothing
func raceOf(change func(e *raceEvidence)) *raceEvidence {
	first, second := raceRef{Lifecycle: 11, RID: "objects-1"}, raceRef{Lifecycle: 12, RID: "objects-2"}
	ref := func(r raceRef, gen uint64) raceRef {
		r.Gen = gen
		return r
	}
	call := func(number uint64, object uint32, op raceOp, end raceEnd, r raceRef) raceCall {
		at := time.Duration(number) * time.Second
		return raceCall{number: number, object: object, op: op, end: end, began: at, ended: at + 900*time.Millisecond, limit: callTime, ref: r}
	}
	run := func(number uint64, object uint32, gen, lifecycle uint64, end runEvent) []runRecord {
		at := time.Duration(number)*time.Second + 300*time.Millisecond
		began := runRecord{Event: runBegan, Object: object, Gen: gen, Lifecycle: lifecycle, At: at}
		ended := began
		ended.Event, ended.Call, ended.At = end, number, at+300*time.Millisecond
		return []runRecord{began, ended}
	}
	e := &raceEvidence{
		processes: []raceProcess{{rid: "objects-1", lifecycle: 11, alive: true}, {rid: "objects-2", lifecycle: 12}},
		calls: []raceCall{
			call(1, 0, opGetOrCreate, endCreated, ref(first, 1)),
			call(2, 0, opGetOrCreate, endExisting, ref(first, 1)),
			call(3, 1, opCreate, endRejected, raceRef{}),
			call(4, 1, opGetOrCreate, endFailed, raceRef{}),
			call(5, 1, opCreate, endCreated, ref(second, 4)),
			call(6, 2, opGetOrCreate, endCreated, ref(first, 5)),
			call(7, 2, opDestroy, endDestroyed, ref(first, 5)),
			call(8, 2, opFind, endMissing, raceRef{}),
		},
		rows: []raceRow{
			{object: 0, state: store.Ready, ref: ref(first, 1), leased: true, find: raceCall{end: endFound, ref: ref(first, 1)}, answer: ref(first, 1)},
			{object: 1, state: store.Ready, ref: ref(second, 4), find: raceCall{end: endUnavailable, ref: ref(second, 4)}},
			{object: 2, find: raceCall{end: endMissing}},
		},
		probe: 6,
	}
	for _, number := range []int{0, 2, 4, 5} {
		e.calls[number].replied = e.calls[number].number
	}
	e.calls[2].order, e.calls[3].order = orderReject, orderFail
	for _, r := range [][]runRecord{run(1, 0, 1, 11, runAccepted), run(3, 1, 2, 11, runRejected), run(4, 1, 3, 11, runFailed), run(6, 2, 5, 11, runAccepted)} {
		e.processes[0].runs = append(e.processes[0].runs, r...)
	}
	e.processes[1].runs = run(5, 1, 4, 12, runAccepted)
	change(e)
	return e
}

// again appends the record to the process's own, with that change.
func again(p *raceProcess, at int, change func(r *runRecord)) {
	r := p.runs[at]
	change(&r)
	p.runs = append(p.runs, r)
}

// raceFaults are what must be seen, each by the rule that it breaks.
var raceFaults = []struct {
	name   string
	rule   raceViolation
	change func(e *raceEvidence)
}{
	{"two factory runs in one process", twoRuns, func(e *raceEvidence) { again(&e.processes[0], 0, func(*runRecord) {}) }},
	{"two factory runs in two processes", twoRuns, func(e *raceEvidence) {
		r := e.processes[0].runs[0]
		r.Lifecycle = 12
		e.processes[1].runs = append(e.processes[1].runs, r)
	}},
	{"a generation of two ids", oneGenTwoIDs, func(e *raceEvidence) { e.processes[0].runs[6].Gen, e.processes[0].runs[7].Gen = 1, 1 }},
	{"a generation that was never issued", unwonRun, func(e *raceEvidence) { e.probe = 5 }},
	{"a run with the request of a call for another id", unwonRun, func(e *raceEvidence) { e.processes[0].runs[3].Call = 6 }},
	{"a run with the request of no call", unwonRun, func(e *raceEvidence) { e.processes[0].runs[3].Call = 99 }},
	{"a run with the request of a call that creates nothing", unwonRun, func(e *raceEvidence) { e.processes[0].runs[7].Call = 8 }},
	{"a run before its call", unwonRun, func(e *raceEvidence) { e.processes[0].runs[6].At = 0 }},
	{"a run without end in a process that lives", brokenRun, func(e *raceEvidence) {
		again(&e.processes[0], 0, func(r *runRecord) { r.Object, r.Gen = 9, 5 })
	}},
	{"an end without run", brokenRun, func(e *raceEvidence) { again(&e.processes[0], 1, func(r *runRecord) { r.Gen = 3 }) }},
	{"a run of another lifecycle", brokenRun, func(e *raceEvidence) { e.processes[1].runs[0].Lifecycle = 11 }},
	{"two calls were told Created", twoCreated, func(e *raceEvidence) { e.calls[1].end = endCreated }},
	{"Created of a factory that had not ended", unmadeSeen, func(e *raceEvidence) { e.processes[1].runs = e.processes[1].runs[:1] }},
	{"Existing before the factory's end", unmadeSeen, func(e *raceEvidence) { e.processes[0].runs[1].At = time.Hour }},
	{"Existing of what was rejected", unmadeSeen, func(e *raceEvidence) { e.processes[0].runs[1].Event = runRejected }},
	{"Existing at another process", unmadeSeen, func(e *raceEvidence) { e.calls[1].ref.Lifecycle = 12 }},
	{"another call's Created", foreignEnd, func(e *raceEvidence) { e.calls[0].replied = 2 }},
	{"Created of what another call's request made", foreignEnd, func(e *raceEvidence) { e.processes[0].runs[1].Call = 2 }},
	{"another call's rejection", foreignEnd, func(e *raceEvidence) { e.calls[2].replied = 4 }},
	{"a rejection without a run", foreignEnd, func(e *raceEvidence) { e.processes[0].runs[3].Event = runFailed }},
	{"another call's failure", foreignEnd, func(e *raceEvidence) { e.processes[0].runs[5].Call = 5 }},
	{"an object that is seen after its end", stale, func(e *raceEvidence) {
		e.calls[7].end, e.calls[7].ref = endFound, e.calls[5].ref
	}},
	{"a caller that never returned", hung, func(e *raceEvidence) { e.calls[3].end = endNever }},
	{"a caller that returned too late", hung, func(e *raceEvidence) { e.calls[1].ended = e.calls[1].began + callTime + hangSlack + 1 }},
	{"an error that must not be", wrongEnd, func(e *raceEvidence) { e.calls[7].end = endWrong }},
	{"a reservation that is leaked", leftCreating, func(e *raceEvidence) { e.rows[2].state = store.Creating }},
	{"no row, and it is found", wrongRow, func(e *raceEvidence) { e.rows[2].find.end = endFound }},
	{"a row of an unknown process", wrongRow, func(e *raceEvidence) { e.rows[0].ref.Lifecycle = 13 }},
	{"a row of a living node that is not found", wrongRow, func(e *raceEvidence) { e.rows[0].find.end = endUnavailable }},
	{"a row of a dead node that is found", wrongRow, func(e *raceEvidence) { e.rows[1].find.end = endFound }},
	{"a row of a dead node with a lease", wrongRow, func(e *raceEvidence) { e.rows[1].leased = true }},
	{"an object that does not answer", noAnswer, func(e *raceEvidence) { e.rows[0].failed = errors.New("no answer") }},
	{"another incarnation that answers", noAnswer, func(e *raceEvidence) { e.rows[0].answer.Gen = 3 }},
	{"a row of a factory that had not ended", unmadeSeen, func(e *raceEvidence) {
		e.processes[1].runs = e.processes[1].runs[:1]
		e.calls[4].end = endDeadline
	}},
	{"an object that is gone", vanished, func(e *raceEvidence) { e.rows[0] = raceRow{find: raceCall{end: endMissing}} }},
	{"an object that is gone, and its destroy was refused", vanished, func(e *raceEvidence) { e.calls[6].end = endGone }},
	{"books that do not fit", wrongBooks, func(e *raceEvidence) { e.books = []string{"capacity"} }},
	{"a row that is left", leftBehind, func(e *raceEvidence) { e.left = []string{"race-1"} }},
	{"a node that does not start", ownFailure, func(e *raceEvidence) { e.failures = []string{"objects-1"} }},
	{"two processes of one lifecycle", ownFailure, func(e *raceEvidence) {
		e.processes = append(e.processes, raceProcess{rid: "objects-2", lifecycle: 12})
	}},
}

func TestAFaultOfCreationIsSeenByTheRuleThatItBreaks(t *testing.T) {
	if found := judgeRace(raceOf(func(*raceEvidence) {})); len(found) != 0 {
		t.Fatalf("without a fault: %v", found)
	}
	for _, f := range raceFaults {
		v := raceVerdictOf(raceOf(f.change), raceTally{}, 0)
		if v.OK || v.Violations[f.rule] == 0 {
			t.Errorf("%s: %v, want %q", f.name, v.found, f.rule)
		}
	}
}

// What a kill, an unknown outcome or a lost lease may do is no fault.
func TestWhatADeathMayDoIsNoFaultOfCreation(t *testing.T) {
	for name, change := range map[string]func(e *raceEvidence){
		"a run cut short by a kill": func(e *raceEvidence) {
			again(&e.processes[1], 0, func(r *runRecord) { r.Object, r.Gen = 2, 3 })
			e.processes[0].runs = append(e.processes[0].runs[:4], e.processes[0].runs[6:]...)
			e.calls[3].end = endDeadline
		},
		"an accepted one that no caller was told of": func(e *raceEvidence) { e.calls[4].end = endDeadline },
		"a destroy whose outcome nobody knows":       func(e *raceEvidence) { e.calls[6].end = endDeadline },
		"one call that won twice, as its first reservation was cancelled": func(e *raceEvidence) {
			e.processes[1].runs[1].Call = 6
			e.calls[4].end, e.calls[5].object = endDeadline, 1
			e.processes[0].runs[6].Object, e.processes[0].runs[7].Object = 1, 1
			for i := range 2 {
				e.processes[1].runs[i].At = e.processes[0].runs[6].At
			}
			e.calls = e.calls[:6]
			e.rows[1] = raceRow{object: 1, state: store.Ready, ref: e.calls[5].ref, leased: true, find: raceCall{end: endFound, ref: e.calls[5].ref}, answer: e.calls[5].ref}
		},
		"a call that saw an object while it was destroyed": func(e *raceEvidence) {
			e.calls[7].end, e.calls[7].ref, e.calls[7].began = endFound, e.calls[5].ref, e.calls[6].began
		},
	} {
		if found := judgeRace(raceOf(change)); len(found) != 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}
