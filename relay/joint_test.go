package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// joint is a Source and a Target with the Store between them, and a link. Both shells do
// what the effects say; what goes wrong, and in which order things happen, is chosen.
type joint struct {
	now clock.Mono
	s   Source
	sDo SourceEffect // under way
	t   Target
	tDo TargetEffect // under way
	jointFacts
}

type jointFacts struct {
	sDead    bool
	relaying bool
	sOpen    bool // the unit runs at the Source
	sEnd     SourceOutcome

	quiet    bool // the Actor is moved by its node
	tThere   bool
	tDead    bool
	tOpen    bool // something of the unit runs at the Target
	tOwns    bool // the Target has ended with it
	tGone    bool // it has ended without, or its source was told so: it is never prepared again
	tVersion store.Version

	row    jointRow
	before jointRow // the last change, which a failover may lose
	epoch  store.Epoch
	late   string // changes whose answer was lost and that may be applied yet, each with the version that it expects
	link   bool
	toT    string // A admission, R Restore, C cutover, X off, ? progress
	toS    string // a accepted, n refused, y ready, u not restored, m committed, g gone
	faults int
}

// jointKey is all that a joint goes by.
type jointKey struct {
	source     sourceStands
	sDo        SourceStep
	target     targetStands
	tDo        TargetStep
	facts      jointFacts
	deadlineIn clock.Mono
}

type jointRow struct {
	owner   byte // 's' or 't'
	gen     store.OwnerGen
	version store.Version
	moving  bool
	fixed   bool // so is the inventory of its members
	op      byte // of the last change
	epoch   store.Epoch
}

const (
	jointReserve = 'r'
	jointPrepare = 'p'
	jointAbort   = 'a'
	jointCommit  = 'c'
	jointGiveUp  = 'g'
)

// change does to the row what the Store does, for one that expects version.
func (j *joint) change(op byte, version store.Version, epoch store.Epoch) store.Reason {
	r := &j.row
	switch {
	case r.op == op:
		return store.AlreadyApplied
	case op == jointReserve && r.version != version:
		return store.VersionConflict
	case op == jointReserve && r.owner != 's':
		return store.OwnerConflict
	case op != jointReserve && !r.moving:
		return store.MoveConflict
	case op != jointReserve && r.version != version:
		return store.VersionConflict
	case epoch != j.epoch || r.epoch != j.epoch:
		return store.EpochChanged
	case op == jointPrepare && r.fixed, op == jointCommit && r.fixed != j.s.move.Wide:
		return store.InventoryConflict
	}
	j.before = *r
	r.version, r.op, r.moving, r.fixed = r.version+1, op, op == jointReserve || op == jointPrepare, op == jointPrepare
	if op == jointCommit {
		r.owner, r.gen = 't', r.gen+1
	}
	return store.Applied
}

// reassert writes the row again for an owner that has it as gen and version.
func (j *joint) reassert(owner byte, gen store.OwnerGen, version store.Version) bool {
	r := &j.row
	if r.owner != owner && r.version > version {
		return false
	}
	j.before = *r
	*r = jointRow{owner: owner, gen: gen, version: max(r.version, version) + 1, op: 'w', epoch: j.epoch}
	return true
}

func (j *joint) authority() store.Authority {
	w := words{args: map[string]string{"of": string(j.row.owner)}}
	row, _ := w.row(uint64(j.row.version), false)
	row.OwnerGen, row.Epoch = j.row.gen, j.row.epoch
	if j.row.moving {
		row.Move = &store.Move{
			ID: relocation, Attempt: 1, TargetRID: "t", TargetOwnerID: "t-2", TargetLifecycle: 2, SpotID: j.s.move.SpotID,
			InUserSpot: j.s.move.InUserSpot,
		}
	}
	return row
}

// answer is a change with its answer.
func (j *joint) answer(op byte, version store.Version, epoch store.Epoch) store.Change {
	reason := j.change(op, version, epoch)
	return store.Change{Reason: reason, Record: j.authority(), Found: true, Epoch: j.epoch}
}

func (j *joint) source(e SourceEvent) {
	if j.sDead {
		return
	}
	j.s.Step(j.now, e)
	for {
		e, ok := j.s.Effect()
		if !ok {
			return
		}
		j.sDo = e
		switch e.Do {
		case SourceAdmit:
			j.sDo = SourceEffect{}
			if !j.sendT("A") {
				j.s.Step(j.now, SourceEvent{Is: SourceLinkLost})
			}
		case SourceRestore:
			j.sDo = SourceEffect{}
			if !j.sendT("R") {
				j.s.Step(j.now, SourceEvent{Is: SourceLinkLost})
			}
		case SourceRelay:
			j.sDo, j.relaying = SourceEffect{}, true
			j.sendT("C")
		case SourceSettle:
			j.sDo = SourceEffect{}
			if !strings.Contains(j.toT, "?") {
				j.sendT("X?")
			}
			if j.tDead {
				j.s.Step(j.now, SourceEvent{Is: SourceTargetGone})
			}
		case SourceEnd:
			j.sDo, j.sEnd = SourceEffect{}, e.End.Outcome
			j.sOpen = e.End.Outcome == SourceRejected || e.End.Outcome == SourceFailed
			if e.End.Prepared {
				j.sendT("X")
			}
		default: // ends by a choice
		}
	}
}

func (j *joint) sendT(what string) bool {
	if j.link && !j.tDead {
		j.toT += what
	}
	return j.link && !j.tDead
}

func (j *joint) sendS(what string) {
	if j.link && !j.sDead && !strings.HasSuffix(j.toS, what) { // twice in a row says no more than once
		j.toS += what
	}
}

func (j *joint) target(e TargetEvent) {
	if j.tDead || !j.tThere {
		return
	}
	j.t.Step(j.now, e)
	for {
		e, ok := j.t.Effect()
		if !ok {
			return
		}
		switch e.Do {
		case TargetAnswer:
			j.sendS(map[bool]string{true: "a", false: "n"}[!e.Reject && e.Failure == nil])
		case TargetReady:
			j.sendS("y")
		case TargetRefuse:
			j.sendS("u")
		case TargetEnd:
			j.tDo, j.tThere, j.tOwns = TargetEffect{}, false, e.Outcome != TargetDropped
			if j.tGone = !j.tOwns; j.tGone {
				j.sendS("u")
			}
		case TargetMerge:
			j.tDo, j.tOpen, j.tVersion = e, true, e.Row.Version
			j.sendS("m")
		default:
			j.tDo = e
		}
	}
}

// choice is one thing that may happen next.
type choice struct {
	name string
	do   func(*joint)
}

func (j *joint) choices() (all []choice) {
	add := func(name string, do func(*joint)) { all = append(all, choice{name, do}) }
	fault := func(name string, do func(*joint)) {
		if j.faults > 0 {
			add("FAULT "+name, func(j *joint) { j.faults--; do(j) })
		}
	}
	if !j.sDead && j.sDo.Do != 0 {
		j.sourceChoices(add, fault)
	}
	if !j.tDead && j.tThere && j.tDo.Do != 0 {
		j.targetChoices(add, fault)
	}
	if j.toT != "" {
		add("deliver "+j.toT[:1], (*joint).deliverT)
	}
	if j.toS != "" {
		add("deliver "+j.toS[:1], (*joint).deliverS)
	}
	if !j.link && !j.sDead && !j.tDead {
		add("link", (*joint).linkUp)
	}
	if at, ok := j.deadline(); ok {
		add("time", func(j *joint) {
			j.now = max(at, j.now)
			j.source(SourceEvent{Is: SourceTick})
			j.target(TargetEvent{Is: TargetTick})
		})
	}
	for i, op := range j.late {
		if i%2 == 0 {
			add("late "+string(op), func(j *joint) {
				version := store.Version(j.late[i+1])
				j.late = j.late[:i] + j.late[i+2:]
				j.change(byte(op), version, 1)
			})
		}
	}
	if j.row.epoch < j.epoch && j.tOpen && !j.tDead {
		add("target writes again", func(j *joint) { j.tOpen = j.reassert('t', ownerGen+1, j.tVersion) })
	}
	if j.row.epoch < j.epoch && j.sOpen && !j.sDead {
		add("source writes again", func(j *joint) { j.sOpen = j.reassert('s', ownerGen, j.s.reserved.Version+1) })
	}
	if j.link {
		fault("link lost", func(j *joint) {
			j.link, j.toT, j.toS = false, "", ""
			j.source(SourceEvent{Is: SourceLinkLost})
		})
	}
	if !j.sDead && j.sEnd == 0 {
		fault("source stops", func(j *joint) { j.source(SourceEvent{Is: SourceStopping}) })
		if j.relaying {
			fault("source waits no longer", func(j *joint) { j.source(SourceEvent{Is: SourceHalting}) })
		}
		fault("source dies", func(j *joint) { j.sDead, j.sDo, j.toT, j.toS, j.link = true, SourceEffect{}, "", "", false })
	}
	if !j.tDead && j.tThere {
		fault("target stops", func(j *joint) { j.target(TargetEvent{Is: TargetStopping}) })
	}
	if !j.tDead {
		fault("target dies", func(j *joint) {
			j.tDead, j.tThere, j.tDo, j.tOpen, j.toT, j.toS, j.link = true, false, TargetEffect{}, false, "", "", false
			j.source(SourceEvent{Is: SourceTargetGone})
		})
	}
	if j.epoch == 1 {
		fault("epoch", func(j *joint) { j.epoch = 2 })
		if j.before.version != 0 {
			fault("epoch without the last change", func(j *joint) { j.epoch, j.row = 2, j.before })
		}
	}
	return all
}

func (j *joint) deadline() (clock.Mono, bool) {
	at := clock.Never
	if s, ok := j.s.NextDeadline(); ok && !j.sDead {
		at = s
	}
	if t, ok := j.t.NextDeadline(); ok && j.tThere && !j.tDead {
		at = min(at, t)
	}
	return at, at != clock.Never
}

// storeChoices are the ends of a change: it is applied and answered, or its answer is lost,
// before, behind or long before it is applied.
func storeChoices(add, fault func(string, func(*joint)), op byte, version store.Version, done func(*joint, store.Change, error)) {
	add("store "+string(op), func(j *joint) { done(j, j.answer(op, version, 1), nil) })
	fault("answer lost "+string(op), func(j *joint) {
		j.change(op, version, 1)
		done(j, store.Change{}, store.ErrUnknown)
	})
	fault("late "+string(op), func(j *joint) {
		if late := string([]byte{op, byte(version)}); !strings.Contains(j.late, late) {
			j.late += late
		}
		done(j, store.Change{}, store.ErrUnknown)
	})
	fault("lease expired "+string(op), func(j *joint) {
		done(j, store.Change{Reason: store.LeaseExpired, Record: j.authority(), Found: true, Epoch: j.epoch}, nil)
	})
	fault("store away "+string(op), func(j *joint) { done(j, store.Change{}, store.ErrUnavailable) })
}

func (j *joint) sourceChoices(add, fault func(string, func(*joint))) {
	end := func(e SourceEvent) func(*joint) {
		return func(j *joint) {
			j.sDo = SourceEffect{}
			e.SealedAt = j.now
			j.source(e)
		}
	}
	storeEnd := func(is SourceFact) func(*joint, store.Change, error) {
		return func(j *joint, c store.Change, err error) { end(SourceEvent{Is: is, Change: c, Err: err})(j) }
	}
	broken := &Failure{errkind.InternalFailure, "broken"}
	switch do := j.sDo.Do; do {
	case SourceReserve:
		storeChoices(add, fault, jointReserve, 10, storeEnd(SourceReserved))
	case SourceAbort:
		storeChoices(add, fault, jointAbort, j.sDo.Abort.Version, storeEnd(SourceAborted))
	case SourcePrepare:
		storeChoices(add, fault, jointPrepare, j.sDo.Prepare.Version, storeEnd(SourcePrepared))
		fault("no inventory", end(SourceEvent{Is: SourcePrepared, Failure: broken}))
	case SourcePermit:
		add("permit", end(SourceEvent{Is: SourcePermitted}))
	case SourceSealSession:
		add("seal", end(SourceEvent{Is: SourceSessionSealed, Bound: true}))
	case SourceCapture:
		add("capture", end(SourceEvent{Is: SourceCaptured}))
		fault("no capture", end(SourceEvent{Is: SourceCaptured, Failure: broken}))
	case SourceRead:
		add("source reads", func(j *joint) { end(SourceEvent{Is: SourceRow, Row: j.authority(), Found: true})(j) })
	case SourceConfirm:
		add("source confirms", func(j *joint) {
			e := SourceEvent{Is: SourceConfirmed, Found: true}
			if !j.reassert('s', ownerGen, j.s.reserved.Version) {
				e.Failure = &Failure{errkind.Unavailable, "another's"}
			}
			e.Row = j.authority()
			end(e)(j)
		})
	default:
		panic(do)
	}
}

func (j *joint) targetChoices(add, fault func(string, func(*joint))) {
	end := func(e TargetEvent) func(*joint) {
		return func(j *joint) {
			j.tDo = TargetEffect{}
			j.target(e)
		}
	}
	storeEnd := func(is TargetFact) func(*joint, store.Change, error) {
		return func(j *joint, c store.Change, err error) { end(TargetEvent{Is: is, Change: c, Err: err})(j) }
	}
	broken := &Failure{errkind.InternalFailure, "broken"}
	switch do := j.tDo.Do; do {
	case TargetRead:
		add("target reads", func(j *joint) { end(TargetEvent{Is: TargetRow, Row: j.authority(), Found: true})(j) })
	case TargetAsk:
		add("accept", end(TargetEvent{Is: TargetDecided}))
		fault("reject", end(TargetEvent{Is: TargetDecided, Reject: true}))
	case TargetAssemble:
		add("assemble", end(TargetEvent{Is: TargetAssembled}))
		fault("broken", end(TargetEvent{Is: TargetBroken, Failure: &Failure{errkind.DataLost, "broken"}}))
	case TargetStage:
		add("stage", end(TargetEvent{Is: TargetStaged, MayAct: true}))
		fault("not staged", end(TargetEvent{Is: TargetStaged, Failure: broken}))
	case TargetCommit:
		storeChoices(add, fault, jointCommit, j.tDo.Commit.Version, storeEnd(TargetCommitted))
	case TargetGiveUp:
		storeChoices(add, fault, jointGiveUp, j.tDo.GiveUp.Version, storeEnd(TargetGaveUp))
	case TargetConfirm:
		add("target confirms", func(j *joint) {
			e := TargetEvent{Is: TargetConfirmed, Found: true}
			if (j.row.owner != 't' || j.row.epoch != j.epoch) && !j.reassert('t', ownerGen+1, j.tDo.Row.Version) {
				e.Failure = &Failure{errkind.Unavailable, "another's"}
			}
			e.Row = j.authority()
			end(e)(j)
		})
	case TargetMerge:
		add("merge", end(TargetEvent{Is: TargetMerged}))
	case TargetJoined:
		add("joined", end(TargetEvent{Is: TargetJoinedDone}))
		fault("joined fails", end(TargetEvent{Is: TargetJoinedDone, Failure: broken}))
	case TargetComplete:
		add("complete", end(TargetEvent{Is: TargetCompleted}))
	default:
		panic(do)
	}
}

func (j *joint) linkUp() {
	j.link = true
	j.source(SourceEvent{Is: SourceLinkUp})
	if j.relaying {
		j.sendT("C?")
	}
}

func (j *joint) deliverT() {
	what := j.toT[0]
	j.toT = j.toT[1:]
	m := &j.s.move
	if !j.tThere && !j.tOwns && !j.tGone && (what == 'A' || what == 'R' && !m.Asks) {
		j.t, j.tThere = *NewTarget(targetJob(), briefTiming), true
	}
	switch what {
	case 'A':
		if j.tGone {
			j.sendS("n")
		}
		j.target(TargetEvent{Is: TargetAsked, Ask: Ask{Fence: fenceArg(words{}, 10), SpotID: m.SpotID}, Deadline: m.Deadline})
	case 'R':
		if !j.tThere && !j.tOwns {
			j.sendS("u")
		}
		r := restoreArg(words{})
		r.Move.Version, r.Move.MoveSpotID, r.InUserSpot, r.Asked, r.Quiet = j.s.reserved.Version, m.SpotID, m.InUserSpot, m.Asks, j.quiet
		if m.Wide {
			r.Root[0] = 1
		}
		j.target(TargetEvent{Is: TargetRestoring, Restore: r, Deadline: m.Deadline})
	case 'C':
		j.target(TargetEvent{Is: TargetCutover})
	case 'X':
		j.target(TargetEvent{Is: TargetAborted})
	}
	if what == '?' || what == 'R' && j.tOwns {
		switch {
		case j.tThere && j.t.Progress() == ProgressCommitted, j.tOwns:
			j.sendS("m")
		case !j.tThere:
			j.tGone = true
			j.sendS("g")
		}
	}
}

func (j *joint) deliverS() {
	what := j.toS[0]
	j.toS = j.toS[1:]
	switch what {
	case 'a':
		j.source(SourceEvent{Is: SourceAdmitted, ChunkBytes: 1024})
	case 'n':
		j.source(SourceEvent{Is: SourceAdmitted, Reject: true})
	case 'y':
		j.source(SourceEvent{Is: SourceReady, MayAct: true})
	case 'u':
		j.source(SourceEvent{Is: SourceRefused, Failure: &Failure{errkind.InternalFailure, "not restored"}})
	case 'm':
		j.source(SourceEvent{Is: SourceCommitted, OwnerGen: ownerGen + 1})
	case 'g':
		j.source(SourceEvent{Is: SourceGivenUp})
	}
}

// broken says which law does not hold.
func (j *joint) broken() string {
	switch {
	case j.sOpen && j.tOpen:
		return "the unit runs at both"
	case j.sOpen && j.row.owner == 't' && j.row.epoch == j.epoch && !j.sDead:
		return "it runs at the source, and its row says the target"
	case j.tOpen && j.row.owner == 's' && j.epoch == 1:
		return "it runs at the target, and its row says the source"
	case j.tOpen && j.sEnd == SourceLost && j.epoch == 1:
		return "it runs at the target, and the source has said that it is nowhere"
	case j.row.owner == 't' && j.epoch == 1 && j.tThere && j.t.Progress() == ProgressGone:
		return "the target has dropped what its row says it owns"
	case j.row.owner == 't' && j.epoch == 1 && !j.tThere && !j.tOwns && !j.tDead:
		return "the target owns what it does not have"
	}
	return ""
}

// settled runs on without further faults, and says what has not come to an end.
func (j joint) settled() string {
	j.faults = 0
	for range 200 {
		all := j.choices()
		if len(all) == 0 {
			break
		}
		all[0].do(&j)
		if broken := j.broken(); broken != "" {
			return broken
		}
	}
	switch {
	case !j.sDead && j.sEnd == 0:
		return "the source has not ended"
	case j.tThere && !j.tDead:
		return "the target has not ended"
	case !j.sDead && !j.tDead && j.epoch == 1 && j.sEnd == SourceMoved && !j.tOpen:
		return "it has moved, and nobody has it"
	}
	return ""
}

func (j *joint) key() jointKey {
	return jointKey{standsOfSource(&j.s, j.now), j.sDo.Do, standsOfTarget(&j.t, j.now), j.tDo.Do, j.jointFacts, ahead(j.s.move.Deadline, j.now)}
}

// jointOf is a move that is walked.
type jointOf struct {
	name              string
	spot              string // that is entered; "": a Spot moves
	user, wide, quiet bool
}

func newJoint(of jointOf, faults int) joint {
	m := SourceMove{
		Unit:     store.Fence{ID: "u", ObjectGen: unitGen, Version: 10, OwnerID: "s-1", LeaseGen: 1, SpotID: "home"},
		OwnerGen: ownerGen, Epoch: 1, Self: sourceLease, To: Process{"t", 2}, SpotID: of.spot, InUserSpot: of.user,
		Asks: of.user || of.spot == "", Wide: of.wide, Relocation: relocation, Attempt: 1, ReserveOp: reserveOp, PrepareOp: prepareOp,
		AbortOp: abortOp, Deadline: 4,
	}
	j := joint{
		s: *NewSource(0, m, briefTiming),
		jointFacts: jointFacts{
			row: jointRow{owner: 's', gen: ownerGen, version: 10, epoch: 1}, epoch: 1, link: true, quiet: of.quiet, faults: faults,
		},
	}
	j.source(SourceEvent{Is: SourceTick}) // takes the first effect
	return j
}

// A Source and a Target, with all orders of what they do, of messages and of time, and with up
// to two faults anywhere: lost answers of the Store, changes that are applied late, links
// that are lost, leases in doubt, nodes that stop and die, new epochs in which the last change is lost or not,
// and an application that fails. Never both run the unit, and without further faults all
// comes to an end.
//
// req: AG-07 RL-10 RL-15 RL-16
func TestASourceAndATargetAreNeverBothOwners(t *testing.T) {
	for _, of := range []jointOf{
		{name: "a Join to an Entry Spot", spot: "lobby"},
		{name: "a Join", spot: "room", user: true},
		{name: "an aggregate", wide: true},
		{name: "an Actor by its node", spot: "lobby", quiet: true},
	} {
		faults := 2
		if testing.Short() || of.quiet { // which differs behind the merge alone
			faults = 1
		}
		first := newJoint(of, faults)
		type step struct {
			from jointKey
			by   string
		}
		seen := map[jointKey]step{first.key(): {}}
		queue := []joint{first}
		trace := func(k jointKey) string {
			var by []string
			for ; seen[k].by != ""; k = seen[k].from {
				by = append(by, seen[k].by)
			}
			slices.Reverse(by)
			return strings.Join(by, "\n")
		}
		ends := map[string]int{}
		for len(queue) > 0 {
			from := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			fromKey := from.key()
			if from.faults > 0 || len(seen)%16 == 0 { // the others are many
				if open := from.settled(); open != "" {
					t.Fatalf("%s, after\n%s", open, trace(fromKey))
				}
			}
			for _, c := range from.choices() {
				to := from
				c.do(&to)
				k := to.key()
				if _, ok := seen[k]; ok {
					continue
				}
				seen[k] = step{fromKey, c.name}
				if broken := to.broken(); broken != "" {
					t.Fatalf("%s, after\n%s", broken, trace(k))
				}
				if len(to.choices()) == 0 {
					ends[fmt.Sprintf("source %d dead %v, target open %v dead %v", to.sEnd, to.sDead, to.tOpen, to.tDead)]++
				}
				queue = append(queue, to)
			}
		}
		t.Logf("%s: %d states, ends %v", of.name, len(seen), ends)
	}
}
