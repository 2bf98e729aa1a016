package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/zlnode/zlnode/store"
)

// raceProcess is one process that hosted objects, and what it noted.
type raceProcess struct {
	rid       string
	lifecycle uint64
	runs      []runRecord
	alive     bool // to the end
}

// raceRow is one id in the end.
type raceRow struct {
	object uint32
	state  store.State // 0: Missing
	ref    raceRef
	leased bool // the owner's lease is valid
	find   raceCall
	answer raceRef // of the object itself, if its owner lives
	failed error   // why it did not answer
}

// raceEvidence is everything that a race is judged by.
type raceEvidence struct {
	processes []raceProcess
	calls     []raceCall
	rows      []raceRow
	probe     uint64   // an ObjectGeneration that the Store has not issued, nor a higher one; 0: none is known
	books     []string // what the Store's audit found wrong
	left      []string // rows that the nodes left when they stopped in order
	failures  []string // of the race itself, such as a node that did not start again
}

// raceViolation says which rule was broken.
type raceViolation string

const (
	twoRuns      raceViolation = "a factory ran twice for one incarnation"
	oneGenTwoIDs raceViolation = "two ids have one ObjectGeneration"
	unwonRun     raceViolation = "a factory ran and no reservation was won"
	brokenRun    raceViolation = "the records of a factory's run do not fit"
	twoCreated   raceViolation = "two calls were told Created of one incarnation"
	unmadeSeen   raceViolation = "an incarnation was seen whose factory had not run to its end"
	foreignEnd   raceViolation = "a call got the end of another one's creation"
	stale        raceViolation = "an incarnation was seen after its end"
	hung         raceViolation = "a call did not return in time"
	wrongEnd     raceViolation = "a call ended in no way that is allowed"
	leftCreating raceViolation = "a creation was never ended"
	wrongRow     raceViolation = "an id is in no state that is allowed"
	noAnswer     raceViolation = "an object is Ready at a living node and does not answer"
	vanished     raceViolation = "an incarnation is gone that nobody destroyed"
	wrongBooks   raceViolation = "the Store's books do not fit its rows"
	leftBehind   raceViolation = "a row is left after all nodes have stopped"
	ownFailure   raceViolation = "the race did not go as planned"
)

// found is one violation, with what it is about.
type found struct {
	rule raceViolation
	text string
}

// judgeRace returns all violations.
func judgeRace(e *raceEvidence) []found {
	j := raceJudge{
		evidence: e, runs: map[incarnation]*factoryRun{}, byCall: map[uint64]*raceCall{},
		processes: map[process]*raceProcess{}, ends: map[callRun]bool{},
	}
	for i := range e.calls {
		j.byCall[e.calls[i].number] = &e.calls[i]
	}
	j.readRuns()
	j.judgeRuns()
	j.judgeCalls()
	j.judgeOrder()
	j.judgeRows()
	for _, line := range e.books {
		j.fail(wrongBooks, "%s", line)
	}
	for _, id := range e.left {
		j.fail(leftBehind, "%s", id)
	}
	for _, text := range e.failures {
		j.fail(ownFailure, "%s", text)
	}
	return j.found
}

// incarnation names one attempt to create an object: a reservation has a new
// ObjectGeneration.
type incarnation struct {
	object uint32
	gen    uint64
}

func (i incarnation) String() string { return fmt.Sprintf("%s generation %d", raceID(i.object), i.gen) }

func (i incarnation) compare(o incarnation) int {
	return cmp.Or(cmp.Compare(i.object, o.object), cmp.Compare(i.gen, o.gen))
}

// process names one lifecycle of a node.
type process struct {
	rid       string
	lifecycle uint64
}

// factoryRun is one run of a factory.
type factoryRun struct {
	process process
	began   runRecord
	end     runRecord // Event 0: there is none
}

type raceJudge struct {
	evidence  *raceEvidence
	processes map[process]*raceProcess
	runs      map[incarnation]*factoryRun
	byCall    map[uint64]*raceCall
	ends      map[callRun]bool
	found     []found
}

// callRun says that the factory ran with the request of a call, and how that ended.
type callRun struct {
	call  uint64
	event runEvent
}

func (j *raceJudge) fail(rule raceViolation, format string, args ...any) {
	j.found = append(j.found, found{rule, fmt.Sprintf(format, args...)})
}

// readRuns joins the records of each run.
func (j *raceJudge) readRuns() {
	for i := range j.evidence.processes {
		p := &j.evidence.processes[i]
		self := process{p.rid, p.lifecycle}
		if j.processes[self] != nil {
			j.fail(ownFailure, "two processes are lifecycle %d of %s", p.lifecycle, p.rid)
		}
		j.processes[self] = p
		for _, r := range p.runs {
			j.readRun(self, r)
		}
	}
}

func (j *raceJudge) readRun(self process, r runRecord) {
	at := incarnation{r.Object, r.Gen}
	run := j.runs[at]
	switch {
	case r.Object == noObject || r.Gen == 0 || r.Lifecycle != self.lifecycle:
		j.fail(brokenRun, "%v at %s: %+v", at, self.rid, r)
	case r.Event == runBegan && run != nil:
		j.fail(twoRuns, "%v: at %v and at %v", at, run.process, self)
	case r.Event == runBegan:
		j.runs[at] = &factoryRun{process: self, began: r}
	case run == nil || run.process != self || run.end.Event != 0:
		j.fail(brokenRun, "%v at %v: its end %+v is no end of a run that is known", at, self, r)
	default:
		run.end = r
		j.ends[callRun{r.Call, r.Event}] = true
	}
}

// judgeRuns compares the runs with the calls that may have won a reservation for them.
// The request that a factory's process handed on can only have come from the row.
func (j *raceJudge) judgeRuns() {
	owner := map[uint64]uint32{}
	for _, at := range slices.SortedFunc(maps.Keys(j.runs), incarnation.compare) {
		run := j.runs[at]
		if other, known := owner[at.gen]; known {
			j.fail(oneGenTwoIDs, "%v and %s", at, raceID(other))
		}
		owner[at.gen] = at.object
		if probe := j.evidence.probe; probe != 0 && at.gen >= probe {
			j.fail(unwonRun, "%v: the Store has issued none from %d on", at, probe)
		}
		if run.end.Event == 0 { // it was killed in between
			if j.processes[run.process].alive {
				j.fail(brokenRun, "%v at %v: the run has no end, and its process lives", at, run.process)
			}
			continue
		}
		c := j.byCall[run.end.Call]
		if c == nil || c.object != at.object || !c.op.creates() || c.began > run.began.At {
			j.fail(unwonRun, "%v at %v, with the request of call %d, which did not ask for it", at, run.process, run.end.Call)
		}
	}
}

// made reports whether the incarnation's factory ran to its end at that process before
// then, and OnCreateActor accepted.
func (j *raceJudge) made(at incarnation, by process) (run *factoryRun, ok bool) {
	run = j.runs[at]
	return run, run != nil && run.process == by && run.end.Event == runAccepted
}

func (j *raceJudge) judgeCalls() {
	created := map[incarnation]uint64{}
	for i := range j.evidence.calls {
		c := &j.evidence.calls[i]
		at, by := incarnation{c.object, c.ref.Gen}, process{c.ref.RID, c.ref.Lifecycle}
		if c.end == endNever || c.ended-c.began > c.limit+hangSlack {
			j.fail(hung, "%s of %s, with a deadline of %v", c.op, raceID(c.object), c.limit)
		}
		if c.end == endWrong {
			j.fail(wrongEnd, "%s of %s: %s", c.op, raceID(c.object), c.text)
		}
		if c.end.seen() {
			if run, ok := j.made(at, by); !ok || run.end.At > c.ended {
				j.fail(unmadeSeen, "%v at %v, %s by %s", at, by, c.end, c.op)
			}
		}
		switch c.end {
		case endCreated:
			if other := created[at]; other != 0 {
				j.fail(twoCreated, "%v: calls %d and %d", at, other, c.number)
			}
			created[at] = c.number
			if run := j.runs[at]; c.order != orderAccept || c.replied != c.number || run != nil && run.end.Call != c.number {
				j.fail(foreignEnd, "%v: call %d was told Created with the reply to call %d", at, c.number, c.replied)
			}
		case endRejected:
			if c.order != orderReject || c.replied != c.number || !j.ends[callRun{c.number, runRejected}] {
				j.fail(foreignEnd, "%s: call %d was told Rejected with the reply to call %d", raceID(c.object), c.number, c.replied)
			}
		case endFailed:
			if !j.ends[callRun{c.number, runFailed}] {
				j.fail(foreignEnd, "%s: call %d was told that its creation failed, which never ran", raceID(c.object), c.number)
			}
		default:
		}
	}
}

// judgeOrder looks at what calls saw that began after others had ended: generations of an
// id never go back, and what was destroyed is not seen again.
func (j *raceJudge) judgeOrder() {
	byObject := map[uint32][]*raceCall{}
	for i := range j.evidence.calls {
		c := &j.evidence.calls[i]
		if c.end.seen() || c.end == endDestroyed {
			byObject[c.object] = append(byObject[c.object], c)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(byObject)) {
		begins := byObject[object]
		ends := slices.Clone(begins)
		slices.SortFunc(begins, func(a, b *raceCall) int { return cmp.Compare(a.began, b.began) })
		slices.SortFunc(ends, func(a, b *raceCall) int { return cmp.Compare(a.ended, b.ended) })
		floor, before := uint64(0), (*raceCall)(nil) // the least generation that may still be seen, and who says so
		for _, c := range begins {
			for ; len(ends) > 0 && ends[0].ended < c.began; ends = ends[1:] {
				if f := ends[0].floor(); f > floor {
					floor, before = f, ends[0]
				}
			}
			if c.end.seen() && c.ref.Gen < floor {
				j.fail(stale, "%s of %v %s, after %s of generation %d had %s", c.op, incarnation{object, c.ref.Gen}, c.end, before.op, before.ref.Gen, before.end)
			}
		}
	}
}

// floor is the least generation that may be seen after the call.
func (c *raceCall) floor() uint64 {
	if c.end == endDestroyed {
		return c.ref.Gen + 1
	}
	return c.ref.Gen
}

func (j *raceJudge) judgeRows() {
	last, ended := map[uint32]uint64{}, map[incarnation]bool{}
	for i := range j.evidence.calls {
		c := &j.evidence.calls[i]
		switch {
		case c.end.seen():
			last[c.object] = max(last[c.object], c.ref.Gen)
		case c.op == opDestroy || c.op == opFree:
			ended[incarnation{c.object, c.ref.Gen}] = c.end != endGone || ended[incarnation{c.object, c.ref.Gen}]
		}
	}
	for i := range j.evidence.rows {
		r := &j.evidence.rows[i]
		j.judgeRow(r)
		if was := (incarnation{r.object, last[r.object]}); was.gen != 0 && was.gen != r.ref.Gen && !ended[was] {
			j.fail(vanished, "%v; the id has generation %d in the end", was, r.ref.Gen)
		}
	}
}

// judgeRow checks the state of one id in the end.
func (j *raceJudge) judgeRow(r *raceRow) {
	at, by := incarnation{r.object, r.ref.Gen}, process{r.ref.RID, r.ref.Lifecycle}
	owner := j.processes[by]
	switch {
	case r.state == store.Creating:
		j.fail(leftCreating, "%v at %v", at, by)
	case r.state != store.Ready:
		if r.find.end != endMissing {
			j.fail(wrongRow, "%s has no row, and Find says: %s %s", raceID(r.object), r.find.end, r.find.text)
		}
	case owner == nil:
		j.fail(wrongRow, "%v is owned by %v, which is no process of this race", at, by)
	case owner.alive:
		switch {
		case !r.leased || r.find.end != endFound || r.find.ref != r.ref:
			j.fail(wrongRow, "%v is Ready at %v, which lives, and Find says: %s %s", at, by, r.find.end, r.find.text)
		case r.failed != nil || r.answer != r.ref:
			j.fail(noAnswer, "%v at %v: it says that it is %+v, error %v", at, by, r.answer, r.failed)
		}
	case r.leased || r.find.end != endUnavailable || r.find.ref != r.ref:
		j.fail(wrongRow, "%v is Ready at %v, which is dead, and Find says: %s %s", at, by, r.find.end, r.find.text)
	}
	if r.state == store.Ready && owner != nil {
		if _, ok := j.made(at, by); !ok {
			j.fail(unmadeSeen, "%v is Ready at %v in the end", at, by)
		}
	}
}
