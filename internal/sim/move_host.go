package sim

import (
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// host is what a process has in a world of moves: as internal/node has it, by hand.
type host struct {
	*process
	actors    map[string]*actor // the table of objects, of which some are another's
	rooms     map[string]*room
	out       []*leaving
	in        []*arriving
	preparing map[string]*arriving
	pending   map[correlation]*pending
	corrs     uint64 // of requests within the process
	routes    map[string]*route
	sessions  []*conn
	known     store.Epoch              // the Store's
	round     int                      // of writing all rows again
	seen      map[string]store.Version // moves to here that the last scan found unknown
	permits   int                      // moves that leave now
	permitted []func()                 // that wait for a place
	writers   []*writer
	late      []func()        // what waits until the process may act
	life      *lifecycle.Host // of a world of drains
	lifeTick  alarm
}

func newHost(p *process) *host {
	h := &host{
		process: p, actors: map[string]*actor{}, rooms: map[string]*room{}, preparing: map[string]*arriving{},
		pending: map[correlation]*pending{}, routes: map[string]*route{}, seen: map[string]store.Version{},
	}
	if p.w.moves.drains {
		h.life = newLife(p)
	}
	return h
}

// place is one process, as others name it.
type place = relay.Process

func (h *host) self() place { return place{RID: h.rid, Lifecycle: h.lease.Gen} }

func (h *host) linkOf(to place) *link { return h.linkTo(to.RID, to.Lifecycle) }

// peer names the process at the other end.
func (h *host) peer(l *link) place { return l.other(h.process).host.self() }

// lost reports whether the link is gone, as this end sees it.
func (h *host) lost(l *link) bool { return l.end(h.process).gone }

// tell sends a record that is not answered.
func (h *host) tell(l *link, at func(to *host)) {
	to := l.other(h.process).host
	h.send(l, func() { at(to) })
}

// failure is why something was not done.
type failure struct {
	kind  errkind.Kind
	text  string
	stale bool // the way that it took is old, and it was certainly not taken
}

func (f *failure) relay() *relay.Failure { return &relay.Failure{Kind: f.kind, Text: f.text} }

var (
	errLinkLost  = &failure{errkind.Unavailable, "the link was lost", false}
	errNoReply   = &failure{errkind.DeadlineExceeded, "no reply in time", false}
	errStopping  = &failure{errkind.ShuttingDown, "the node stops", false}
	errNotOwner  = &failure{errkind.Unavailable, "the lease is in doubt", false}
	errNotHere   = &failure{errkind.Unavailable, "the object is not here", true}
	errNoWay     = &failure{errkind.Unavailable, "no way to the object", false}
	errGone      = &failure{errkind.NotFound, "the object is gone", false}
	errQueueFull = &failure{errkind.CapacityExceeded, "the queue is full", false}
	errMoving    = &failure{errkind.Unavailable, "the object is moving", true}
	errMoved     = &failure{errkind.Unavailable, "the object has moved", true}
	errHanded    = &failure{errkind.Unavailable, "the object has moved, perhaps with the message", false}
	errStranded  = &failure{errkind.Unavailable, "the object is at no node", false}
	errStuck     = &failure{errkind.Unavailable, "the object is sealed", false}
	errTooFar    = &failure{errkind.Unavailable, "the message was carried too often", false}
	errUnbound   = &failure{errkind.Unavailable, "another binding is in force", false}
	errBusy      = &failure{errkind.CapacityExceeded, "the session waits for too much", false}

	errSessionOver = &failure{errkind.Unavailable, "the session is closed", false}
	errIncarnation = &failure{errkind.InvalidOperation, "another incarnation", false}
	errTaken       = &failure{errkind.InvalidOperation, "another session has the actor", false}
)

// reply is the one end of a request.
type reply struct {
	fail *failure
	lost bool // with its link
	late bool
	from *link
	v    any
}

// correlation tells a request from the others that went by the same link; nil: within the
// process.
type correlation struct {
	link *link
	n    uint64
}

type pending struct{ done func(reply) }

// await registers a request that was sent by the link, until its deadline.
func (h *host) await(l *link, deadline clock.Mono, done func(reply)) (corr uint64) {
	last := &h.corrs
	if l != nil {
		last = &l.end(h.process).corrs
	}
	*last++
	is := correlation{l, *last}
	h.pending[is] = &pending{done}
	if deadline != clock.Never {
		h.at(deadline, func() {
			if p := h.pending[is]; p != nil {
				delete(h.pending, is)
				p.done(reply{fail: errNoReply, late: true})
			}
		})
	}
	return is.n
}

// complete ends a request with what came over its link.
func (h *host) complete(l *link, corr uint64, r reply) {
	is := correlation{l, corr}
	p := h.pending[is]
	if p == nil {
		h.w.Cover.Mark("late reply")
		return
	}
	delete(h.pending, is)
	p.done(r)
}

// answer sends the end of a request that came by the link.
func (h *host) answer(l *link, corr uint64, r reply) {
	h.tell(l, func(to *host) {
		r.from = l
		to.complete(l, corr, r)
	})
}

// linked is told of a new link.
func (h *host) linked(l *link) {
	p := h.peer(l)
	for _, o := range slices.Clone(h.out) {
		if o.to == p {
			o.linked(l)
		}
	}
	h.changed()
}

// unlinked ends what hangs on a link.
func (h *host) unlinked(l *link) {
	here := l.end(h.process)
	for n := here.corrsAt + 1; n <= here.corrs; n++ {
		is := correlation{l, n}
		if p := h.pending[is]; p != nil {
			delete(h.pending, is)
			p.done(reply{fail: errLinkLost, lost: true})
		}
	}
	for _, id := range h.w.moves.ids {
		if a := h.actors[id]; a != nil && a.binding.key.link == l {
			key := a.binding.key
			a.control(func(refused *failure) {
				if refused == nil {
					a.unregister(key)
				}
			})
		}
	}
	for _, s := range slices.Clone(h.sessions) {
		s.unlinked(l)
	}
	h.changed()
}

// changed has the moves that wait look at their links again.
func (h *host) changed() {
	h.lives(lifecycle.Event{Is: lifecycle.Nodes, Nodes: h.linkedNodes(h.nodes)})
	for _, o := range slices.Clone(h.out) {
		o.soon()
	}
}

// enterPermit takes a place among the moves that leave, by the deadline.
func (h *host) enterPermit(until clock.Mono, done func(ok bool)) {
	if h.permits < h.w.moves.places {
		h.permits++
		h.soon(func() { done(true) })
		return
	}
	h.w.Cover.Mark("a move waited for its permit")
	over := false
	h.permitted = append(h.permitted, func() {
		if over {
			h.leavePermit()
			return
		}
		over = true
		done(true)
	})
	if until != clock.Never {
		h.at(until, func() {
			if !over {
				over = true
				done(false)
			}
		})
	}
}

func (h *host) leavePermit() {
	h.permits--
	if len(h.permitted) > 0 {
		next := h.permitted[0]
		h.permitted = h.permitted[1:]
		h.permits++
		h.soon(next)
	}
}

// serve begins what a process does again and again.
func (h *host) serve() {
	h.known = h.epoch
	h.lives(lifecycle.Event{Is: lifecycle.Started})
	h.sweep()
	h.after(reservationsEvery, h.scan)
	h.w.moves.serves(h)
}

// sweepEvery is how often deadlines are looked at that nobody waits for.
const sweepEvery = 250 * time.Millisecond

func (h *host) sweep() {
	h.after(sweepEvery, h.sweep)
	now := h.clock()
	for _, s := range slices.Clone(h.sessions) {
		s.sweep(now)
	}
	for _, o := range slices.Clone(h.out) {
		if now.Reached(o.until) {
			o.forget()
		}
	}
	h.out = slices.DeleteFunc(h.out, func(o *leaving) bool {
		if o.r != nil {
			return o.stranded && h.rooms[o.r.ref.id] != o.r
		}
		return o.stranded && h.actors[o.a.ref.id] != o.a
	})
	h.in = slices.DeleteFunc(h.in, func(i *arriving) bool { return now.Reached(i.until) })
	if h.mayAct() {
		waiting := h.late
		h.late = nil
		for _, f := range waiting {
			f()
		}
	}
}

// scan frees what moves to here have reserved of which this process knows nothing, once
// they are not valid any more.
func (h *host) scan() {
	h.after(reservationsEvery, h.scan)
	for _, r := range h.roomCells() {
		r.recount()
	}
	before := h.seen
	h.seen = map[string]store.Version{}
	ask(h.process, asking{"held", nil, storeCallMax}, func() ([]string, error) {
		return h.w.store.Held(background, h.rid, h.lease.Gen, store.HeldReserved, "", store.PageMax)
	}, func(ids []string, err error) {
		for _, id := range ids {
			if h.actors[id] != nil || h.rooms[id] != nil || h.preparing[id] != nil {
				continue
			}
			h.read(nil, id, storeCallMax, func(row store.Authority, found bool, err error) {
				switch {
				case err != nil, !found, row.Move == nil, row.Move.TargetRID != h.rid, row.Move.TargetLifecycle != h.lease.Gen:
				case before[id] != row.Version:
					h.seen[id] = row.Version
				default:
					h.change("sweep", nil, false, func() (store.Change, error) {
						return h.w.store.EndMove(background, store.EndOf(&row, store.Sweep, h.lease, h.newOp()))
					}, func(c store.Change, err error) {
						if err == nil && c.Reason == store.Applied {
							h.w.Cover.Mark("a move that nobody ended was swept")
						}
					})
				}
			})
		}
	})
}

func (h *host) newOp() store.OpID {
	h.w.ops++
	return store.OpID{byte(h.w.ops >> 16), byte(h.w.ops >> 8), byte(h.w.ops), 3}
}

// change makes one change of an object's row. One that needs the lease is not sent without.
func (h *host) change(what string, by *machine, leased bool, call func() (store.Change, error), done func(store.Change, error)) {
	if leased && !h.mayFinish() {
		h.soon(func() { done(store.Change{}, store.ErrUnavailable) })
		return
	}
	ask(h.process, asking{what, by, storeCallMax}, func() (store.Change, error) {
		w := h.w
		w.moves.mark()
		c, err := call()
		w.note(nil, what, c.Record.ID, h.name()+" "+c.Reason.String(), uint64(c.Record.Version))
		w.moves.book.changed(h, what, &c, err)
		return c, err
	}, func(c store.Change, err error) {
		if err == nil {
			h.w.Cover.Mark(what + " " + c.Reason.String())
		}
		done(c, err)
	})
}
