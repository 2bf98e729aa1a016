package host

import (
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// blockedMax bounds the units that a Progress names.
const blockedMax = 100

// inventory is what an operation moves, and how far that is.
type inventory struct {
	units   []unitState
	members map[int][]int // of PerActor Spots, by their units
	counts  [kinds]Count
	blocked []BlockedUnit
	moves   clock.Mono // when the first unit could begin

	batch       int
	lines       []*line // none of them is empty
	queues      map[lineKey]*line
	failure     *Result // why nothing new begins
	flights     flights // how many units may be that
	flying      int     // units that are under way and not cut over
	flyingAlone int     // of these, those that are no members
	open        int     // PerActor Spots whose move has not ended
	asked       bool    // for a permit
	permitAt    clock.Mono
	lacks       string // why no unit has a target; "": one has, or none waits
}

// batches: PerActor Spots, then Actors, then what moves as a whole.
const batches = 3

func batchOf(k UnitKind) int {
	switch k {
	case Shell:
		return 0
	case Actor:
		return 1
	default:
		return 2
	}
}

// line is units of the present batch that wait, and that want the same of their target.
type line struct {
	lineKey
	units     []int
	notBefore clock.Mono
}

// lineKey is what they want: a target for the part, or that of their Spot.
type lineKey struct {
	part  Part
	shell int
}

type unitState struct {
	Unit
	at    unitAt
	to    Process
	noted bool // it is among those that are named as blocked
}

type unitAt uint8

const (
	waits unitAt = iota
	flies
	cut // over
	left
	stays
	lost
)

// Count is how far the units of a kind are. Those that are in none of the others wait.
type Count struct {
	Total   int
	Left    int // their cutover was submitted, and nothing else is known of them
	Moving  int
	Blocked int // their move failed, and they are here
	Lost    int
}

// BlockedUnit is one that did not leave.
type BlockedUnit struct {
	Kind   UnitKind
	ID     string
	Reason Reason
	Text   string
}

// fill takes the inventory.
func (v *inventory) fill(units []Unit) {
	v.units, v.members, v.queues = make([]unitState, len(units)), map[int][]int{}, map[lineKey]*line{}
	for i := range units {
		v.units[i] = unitState{Unit: units[i]}
		v.counts[units[i].Kind].Total++
		if s := units[i].Shell; s != NoShell {
			v.members[s] = append(v.members[s], i)
		}
	}
	v.line()
}

// line lines the units of the batch up.
func (v *inventory) line() {
	v.flights.begin()
	for i := range v.units {
		if u := &v.units[i]; u.at == waits && batchOf(u.Kind) == v.batch {
			v.queue(i, 0)
		}
	}
}

// queue puts a unit behind those of its kind.
func (v *inventory) queue(i int, notBefore clock.Mono) {
	u := &v.units[i]
	key := lineKey{shell: u.Shell}
	if u.Shell == NoShell {
		key.part = u.Needs[0].Part
	}
	l := v.queues[key]
	if l == nil {
		l = &line{lineKey: key}
		v.queues[key] = l
		v.lines = append(v.lines, l)
	}
	l.units = append(l.units, i)
	l.notBefore = max(l.notBefore, notBefore)
}

// next takes the first unit of a line.
func (v *inventory) next(at int) (unit int) {
	l := v.lines[at]
	unit, l.units = l.units[0], l.units[1:]
	if len(l.units) == 0 {
		v.lines = slices.Delete(v.lines, at, at+1)
		delete(v.queues, l.lineKey)
	}
	return unit
}

// at returns how far a unit is; waits if there is none of that number.
func (v *inventory) at(unit int) unitAt {
	if unit < 0 || unit >= len(v.units) {
		return waits
	}
	return v.units[unit].at
}

func (v *inventory) gone() (n int) {
	for _, c := range v.counts {
		n += c.Left
	}
	return n
}

// batchOver reports whether the next batch may begin. Members need to know where their Spots are.
func (v *inventory) batchOver() bool {
	return len(v.lines) == 0 && v.flying == 0 && (v.batch > 0 || v.open == 0)
}

// stop lets nothing new begin but the members of PerActor Spots that have moved.
func (v *inventory) stop(why Result) {
	v.failure, v.lines, v.queues = &why, nil, map[lineKey]*line{}
	for shell := range v.units {
		if v.units[shell].at == left {
			v.follow(shell)
		}
	}
}

// follow has the members of a PerActor Spot that has moved go after it, whatever else happens.
func (v *inventory) follow(shell int) {
	for _, i := range v.members[shell] {
		if v.units[i].at == waits {
			v.queue(i, 0)
		}
	}
}

// runsOn reports whether a PerActor Spot is, or may come to be, apart from its members. Only asked
// when nothing else begins any more.
func (v *inventory) runsOn() bool {
	return v.open > 0 || len(v.lines) > 0 || v.flying > v.flyingAlone
}

func (v *inventory) fly(i int, to Process) *unitState {
	u := &v.units[i]
	u.at, u.to = flies, to
	v.counts[u.Kind].Moving++
	v.flying++
	if u.Shell == NoShell {
		v.flyingAlone++
	}
	if u.Kind == Shell {
		v.open++
	}
	return u
}

// landed is for a unit that flies no more.
func (v *inventory) landed(now clock.Mono, u *unitState) {
	v.flights.land(now, v.flying > v.flights.size/2)
	v.counts[u.Kind].Moving--
	v.flying--
	if u.Shell == NoShell {
		v.flyingAlone--
	}
}

func (v *inventory) cutOver(now clock.Mono, i int) {
	u := &v.units[i]
	v.landed(now, u)
	v.counts[u.Kind].Left++
	u.at = cut
}

// note names a unit as blocked.
func (v *inventory) note(u *Unit, why Reason, text string) {
	if len(v.blocked) < blockedMax {
		v.blocked = append(v.blocked, BlockedUnit{u.Kind, u.ID, why, text})
	}
}

func (o *operation) unitEnded(now clock.Mono, e *Event) {
	u := &o.units[e.Unit]
	o.targets.landed(u.to, u.Needs, e.Ended == Left)
	if u.Kind == Shell {
		o.open--
	}
	was, count := u.at, &o.counts[u.Kind]
	if was == flies {
		o.landed(now, u)
	} else {
		count.Left--
	}
	switch e.Ended {
	case Left:
		u.at = left
		if count.Left++; u.Kind == Shell && o.failure != nil {
			o.follow(e.Unit)
		}
	case Lost:
		u.at = lost
		count.Lost++
		o.fails(u, RelocationFailed, e.Failure)
	case Stayed:
		o.stayed(now, u, e)
	}
}

// stayed is for a unit that goes on here. If its target did not take it, another one may; a member
// has to follow its Spot in any case.
func (o *operation) stayed(now clock.Mono, u *unitState, e *Event) {
	u.at = stays
	again := e.Reason == TargetUnavailable && o.failure == nil && !now.Reached(o.deadline)
	switch {
	case u.Shell != NoShell:
		if !again {
			o.fails(u, e.Reason, e.Failure)
		}
		u.at = waits
		o.queue(e.Unit, now.Add(o.host.timing.Shun))
	case again:
		u.at = waits
		o.targets.shunned[u.to] = now.Add(o.host.timing.Shun)
		o.queue(e.Unit, 0)
	default:
		o.counts[u.Kind].Blocked++
		o.fails(u, e.Reason, e.Failure)
	}
}

// fails notes that a unit does not leave, behind which nothing new begins.
func (o *operation) fails(u *unitState, why Reason, text string) {
	if why == None {
		why = RelocationFailed
	}
	if !u.noted {
		u.noted = true
		o.note(&u.Unit, why, text)
	}
	if o.phase == moving && o.failure == nil {
		o.stop(blocked(why, u.Kind.String()+" \""+u.ID+"\": "+text))
	}
}

// Progress is how far an operation is, or how it ended.
type Progress struct {
	Request         Request
	Began, Deadline clock.Mono
	Running         bool // its result is not known
	RunsOn          bool // PerActor Spots have yet to be whole behind its end
	Counts          [Kinds]Count
	Blocked         []BlockedUnit
	Result          Result
	// End is when it will have ended if units go on to leave as fast; Never: not known.
	End clock.Mono
}

// Progress returns that of the operation that runs, or else of the last one; false: there was
// none.
func (h *Host) Progress(now clock.Mono) (Progress, bool) {
	o := h.last
	if o == nil {
		return Progress{}, false
	}
	p := Progress{
		Request: o.request, Began: o.began, Deadline: o.deadline, Running: o == h.op, RunsOn: o == h.tail,
		Blocked: append([]BlockedUnit(nil), o.blocked...), Result: o.result, End: clock.Never,
	}
	copy(p.Counts[:], o.counts[Actor:])
	if gone := o.gone(); gone > 0 && (p.Running || p.RunsOn) {
		took := now.Sub(o.moves)
		p.End = now.Add(time.Duration(float64(took) / float64(gone) * float64(len(o.units)-gone)))
	}
	return p, true
}
