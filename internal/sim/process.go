package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/store"
)

// What internal/node waits for, and how long.
var (
	timing = creation.Timing{
		Wait: 2 * time.Millisecond, WaitMax: 100 * time.Millisecond, Settle: 500 * time.Millisecond, Nudge: 300 * time.Millisecond,
	}
	leasing = lease.Config{}.WithDefaults()
)

const (
	storeCallMax      = 3 * time.Second
	listEvery         = time.Second
	dialEvery         = 500 * time.Millisecond
	reservationsEvery = 3 * time.Second
	again             = 100 * time.Millisecond
	meshName          = "mesh"
)

// slot is a place for processes of one RID.
type slot struct {
	rid     string
	process *process // nil: none yet
}

// process is a node's process: its cores, and the registries around them.
type process struct {
	w              *World
	slot, number   int
	rid            string
	clockStart     clock.Mono
	drift          int64
	actors, spots  []string // the types that it hosts
	dead, stopping bool
	serving        bool
	paused         bool
	awake          clock.Mono // when it went on last
	backlog        []func()   // what came while it was paused

	lease  store.Lease
	keeper *lease.Keeper
	tick   alarm
	epoch  store.Epoch
	freed  uint64
	unread bool // rows were freed, and it has yet to learn which
	nodes  []store.Descriptor

	machines []*machine // that run, in the order of their begin
	running  map[store.OpID]*run
	claims   map[store.OpID]bool // reservations by calls here for this process: the call runs them, nobody else
	objects  map[string]*object
	places   int
	entering []*run // that wait for a place
	apps     int    // parts of the application that run
	calls    int
	seen     map[string]store.Version  // reservations that the last scan found
	links    []*link                   // by slot; nil: none
	dialled  []*link                   // that are being opened or not over, by slot
	newest   map[string]store.LeaseGen // of each RID that was ever linked
	opens    int                       // links that were opened
	heard    []int                     // the latest of them by which a record came, by slot
	revision uint64                    // of the descriptor
	host     *host                     // in a world of moves: what is at it
	requests map[uint64]*request
	asked    uint64
}

// machine is what the oracle and the coverage know of a machine that runs.
type machine struct {
	doing string // as the coverage names it
	peer  *link  // on which it waits for an answer
	with  place  // of the process at its other end, also when it is lost
}

// waitsFor says with which process the machine has to do now.
func (p *process) waitsFor(m *machine, other place) {
	m.with, m.peer = other, p.linkTo(other.RID, other.Lifecycle)
}

func (p *process) name() string { return fmt.Sprintf("%s/%d", p.rid, p.number) }

// clock is what the process's monotonic clock shows.
func (p *process) clock() clock.Mono {
	return p.clockStart.Add(drifted(p.w.now, p.drift))
}

// after has something happen when the process's clock shows so much more.
func (p *process) after(d time.Duration, run func()) { p.at(p.clock().Add(d), run) }

func (p *process) at(t clock.Mono, run func()) {
	p.w.post(undrifted(t.Sub(p.clockStart), p.drift)-p.w.now, p, run)
}

// soon has something happen now, in a step of its own.
func (p *process) soon(run func()) { p.w.post(0, p, run) }

// alarm calls back at the last time that was set.
type alarm struct{ at clock.Mono }

func (a *alarm) set(p *process, at clock.Mono, ok bool, ring func()) {
	if !ok || at == clock.Never || at == a.at {
		return
	}
	a.at = at
	p.at(at, func() {
		if a.at == at {
			a.at = 0
			ring()
		}
	})
}

// restart starts a process of the slot after a while.
func (w *World) restart(slot int, after time.Duration) {
	w.post(after, nil, func() {
		s := w.slots[slot]
		if s.process != nil {
			return
		}
		w.processes++
		p := &process{
			w: w, slot: slot, number: w.processes, rid: s.rid, drift: w.drawDrift(),
			clockStart: clock.Mono(w.processes) * clock.Mono(time.Hour),
			running:    map[store.OpID]*run{}, claims: map[store.OpID]bool{}, objects: map[string]*object{}, seen: map[string]store.Version{},
			links: make([]*link, len(w.slots)), dialled: make([]*link, len(w.slots)), heard: make([]int, len(w.slots)),
			newest: map[string]store.LeaseGen{}, requests: map[uint64]*request{},
		}
		for _, t := range actorTypes {
			if !w.chance(w.others / 2) {
				p.actors = append(p.actors, t)
			}
		}
		if !w.chance(w.others / 2) {
			p.spots = append(p.spots, spotType)
		}
		s.process = p
		if w.moves != nil {
			p.host = newHost(p)
		}
		w.living = append(w.living, p)
		w.note(p, "starts", "", "", 0)
		p.acquire()
	})
}

func (p *process) acquire() {
	w := p.w
	asked := p.clock()
	ask(p, asking{"acquire", nil, storeCallMax}, func() (store.LeaseResult, error) {
		return p.w.store.AcquireLease(background, p.rid, fmt.Sprint("owner", p.number), leasing.TTL)
	}, func(r store.LeaseResult, err error) {
		switch {
		case err == nil && (r.Reason == store.Applied || r.Reason == store.AlreadyApplied):
			p.lease, p.epoch = r.Lease, r.Epoch
			p.keeper = lease.New(w.leasing(), lease.Answered{SentAt: asked, Remaining: r.Lease.Remaining, Epoch: uint64(r.Epoch)})
			p.w.note(p, "has the lease", "", "", uint64(r.Lease.Gen))
			p.keep(lease.Tick{})
			p.publish()
		case err == nil && r.Reason == store.LeaseHeld:
			p.after(min(r.Lease.Remaining+time.Millisecond, time.Second), p.acquire)
		default:
			p.after(again, p.acquire)
		}
	})
}

func (p *process) entryID() string { return fmt.Sprint("entry", p.number) }

// descriptor is how the process presents itself now.
func (p *process) descriptor() store.Descriptor {
	d := store.Descriptor{
		RID: p.rid, Lifecycle: p.lease.Gen, Mesh: meshName, Role: store.RoleServer, State: store.Serving, Weight: 100,
		MaxActors: p.w.actorsMax, MaxSpots: p.w.spotsMax, ActorTypes: p.actors, EntrySpotID: p.entryID(), Revision: 1,
	}
	for _, t := range p.spots {
		d.SpotTypes = append(d.SpotTypes, store.SpotType{Type: t, Kind: store.UserSpot})
	}
	if p.host != nil && p.host.life != nil {
		p.revision++
		d.Revision = p.revision
		if p.serving {
			d.State = p.host.life.State()
		}
	}
	return d
}

func (p *process) publish() {
	d := p.descriptor()
	ask(p, asking{"publish", nil, storeCallMax}, func() (store.Reason, error) {
		return p.w.store.PublishNode(background, p.lease, d)
	}, func(r store.Reason, err error) {
		if err != nil || r != store.Applied && r != store.AlreadyApplied {
			p.after(again, p.publish)
			return
		}
		p.w.note(p, "serves", "", "", 0)
		if p.serving { // it was only written again
			return
		}
		p.serving = true
		p.list()
		p.dial()
		if p.host != nil {
			p.host.serve()
			return
		}
		p.after(reservationsEvery, p.scan)
	})
}

// list reads who else there is.
func (p *process) list() {
	ask(p, asking{"list", nil, storeCallMax}, func() (store.NodeList, error) {
		return p.w.store.ListNodes(background, 0)
	}, func(l store.NodeList, err error) {
		if err == nil {
			p.nodes = l.Nodes
			if p.host != nil {
				p.host.lives(lifecycle.Event{Is: lifecycle.Nodes, Nodes: p.host.linkedNodes(l.Nodes)})
			}
		}
		p.after(listEvery, p.list)
	})
}

// keep gives the lease's keeper an event, and does what it says.
func (p *process) keep(e lease.Event) {
	p.keeper.Step(p.clock(), e)
	for _, effect := range p.keeper.Effects(nil) {
		switch effect {
		case lease.Renew:
			p.renew()
		case lease.Reassert:
			p.host.beginReassertion(store.Epoch(p.keeper.Epoch()))
		case lease.Lost:
			p.w.Cover.Mark("lease superseded")
			p.die("lost its lease")
			return
		}
	}
	at, ok := p.keeper.NextDeadline()
	p.tick.set(p, at, ok, func() { p.keep(lease.Tick{}) })
	p.w.acts(p)
}

func (p *process) mayAct() bool {
	return p.keeper != nil && !p.unread && p.clock() < p.keeper.AdmitUntil()
}

func (p *process) mayFinish() bool { return !p.unread && p.clock() < p.keeper.LeasedUntil() }

func (p *process) renew() {
	asked := p.clock()
	ask(p, asking{"renew", nil, leasing.Timeout}, func() (store.LeaseResult, error) {
		return p.w.store.RenewLease(background, p.lease, p.epoch, leasing.TTL)
	}, func(r store.LeaseResult, err error) {
		renewed := lease.Answered{SentAt: asked, Remaining: r.Lease.Remaining, Epoch: uint64(r.Epoch)}
		switch {
		case err != nil:
			p.keep(lease.Failed{})
		case r.Reason != store.Applied:
			p.keep(lease.Superseded{})
		case p.host != nil:
			p.epoch = r.Epoch
			p.host.heardFreed(&r, renewed)
		case r.Freed != p.freed || p.unread:
			p.unread = true
			p.w.Cover.Mark("freed rows noticed")
			p.reread(p.table(), func(read bool) {
				if !read {
					p.keep(lease.Failed{})
					return
				}
				p.freed, p.unread = r.Freed, false
				p.keep(renewed)
			})
		default:
			p.keep(renewed)
		}
	})
}

// reread drops those of the objects whose rows are not this process's any more.
func (p *process) reread(rest []*object, done func(read bool)) {
	if len(rest) == 0 {
		done(true)
		return
	}
	o := rest[0]
	p.read(nil, o.id, storeCallMax, func(row store.Authority, found bool, err error) {
		switch {
		case err != nil:
			done(false)
			return
		case !found, !p.owns(&row), row.ObjectGen != o.gen:
			p.w.Cover.Mark("freed object dropped")
			p.drop(o)
		}
		p.reread(rest[1:], done)
	})
}

func (p *process) owns(row *store.Authority) bool {
	return row.OwnerID == p.lease.OwnerID && row.LeaseGen == p.lease.Gen
}

// die ends the process with all that it has, but for what it has sent.
func (p *process) die(how string) {
	if p.dead {
		return
	}
	w := p.w
	w.note(p, how, "", "", 0)
	p.dead = true
	for i, o := range w.living {
		if o == p {
			w.living = append(w.living[:i:i], w.living[i+1:]...)
			break
		}
	}
	p.cutAll()
	if p.host != nil {
		w.moves.book.died(p.host)
	}
	w.ledger.died(p)
	if s := w.slots[p.slot]; s.process == p {
		s.process = nil
		w.restart(p.slot, w.choosePause())
	}
}

// cutAll cuts all links of the process.
func (p *process) cutAll() {
	for _, l := range slices.Clone(p.w.links) {
		if l.joins(p) {
			p.w.cut(l)
		}
	}
}

// sleep has the process get nothing for a while, as one that is stopped by its machine.
func (p *process) sleep(d time.Duration) {
	p.paused = true
	p.w.note(p, "sleeps", "", d.String(), 0)
	if d > 5*time.Second { // its peers' links notice
		p.cutAll()
	}
	p.w.post(d, nil, p.wake)
}

// wake lets the process go on with what came meanwhile, in order.
func (p *process) wake() {
	if p.dead || !p.paused {
		return
	}
	p.paused, p.awake = false, p.clock()
	p.w.note(p, "goes on", "", "", 0)
	p.w.post(0, nil, p.catchUp)
}

// catchUp takes the first of what came meanwhile. What comes before it has taken all waits
// behind that.
func (p *process) catchUp() {
	if p.dead || p.paused || len(p.backlog) == 0 {
		return
	}
	if len(p.machines) > 0 {
		if p.w.strike(p); p.dead || p.paused {
			return
		}
	}
	run := p.backlog[0]
	p.backlog = p.backlog[1:]
	run()
	p.w.post(1, nil, p.catchUp)
}

func (p *process) begins(doing string) *machine {
	m := &machine{doing: doing}
	p.machines = append(p.machines, m)
	return m
}

// rests says whether the machine waits for time to pass, after what it did last.
func (m *machine) rests(yes bool) {
	if yes && !strings.HasSuffix(m.doing, resting) {
		m.doing += resting
	}
}

const resting = ", rests"

func (p *process) ends(m *machine) {
	for i := range p.machines {
		if p.machines[i] == m {
			p.machines = append(p.machines[:i], p.machines[i+1:]...)
			return
		}
	}
}

// atRest says what of the registries is not empty although it should be.
func (p *process) atRest() string {
	left := len(p.machines) + len(p.running) + len(p.entering) + len(p.requests) + len(p.claims) + p.places + p.apps + p.calls
	if left == 0 {
		return ""
	}
	return fmt.Sprintf("%s has %d machines, %d creations, %d that wait for a place, %d requests, %d claims, %d places, %d parts of the application, %d calls",
		p.name(), len(p.machines), len(p.running), len(p.entering), len(p.requests), len(p.claims), p.places, p.apps, p.calls)
}
