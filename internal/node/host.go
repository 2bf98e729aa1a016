package node

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/store"
)

// What the public package needs of the core.
type (
	HostState        = store.HostState
	RelocateMode     = host.Mode
	RelocateRequest  = host.Request
	RelocateResult   = host.Result
	RelocateOutcome  = host.Outcome
	RelocateReason   = host.Reason
	UnitKind         = host.UnitKind
	RelocationCounts = host.Count
	BlockedUnit      = host.BlockedUnit
)

var (
	errTakesNothing    = &Error{Kind: errkind.Unavailable, Text: "this node is being relocated and takes nothing new"}
	errRelocatingThere = &Error{Kind: errkind.Unavailable, Text: "the other node is being relocated and takes nothing new"}
	errRelocatingHere  = &Error{Kind: errkind.Unavailable, Text: "the node is being relocated, so it creates nothing now", stale: true}
	errOwnRelocation   = &Error{Kind: errkind.InvalidOperation, Text: "an object's handler cannot wait until its own node is relocated; let a goroutine of the program do it"}
)

// hosting is the shell of the node's host.Host. Whoever has an event takes it to the core
// (step); what the core wants then is done at once or by tasks. While anything is under way a task
// watches the nodes and the time.
type hosting struct {
	node  *Node
	state atomic.Uint32 // the core's
	// joins are the Joins of this node's Actors from their registration on.
	joins atomic.Int64
	// units end with it: when the node begins to stop.
	units context.Context
	stop  context.CancelFunc
	wake  chan struct{} // has one place

	mu        sync.Mutex
	core      *host.Host
	revisions uint64                    // of the descriptor
	watched   bool                      // the task is there
	waiting   map[uint64]*relocationEnd // for the ends of operations
	ids       map[uint64]store.OpID     // of the last operations, as the moves of their units name them
}

// relocationEnd is the end of an operation, for those who wait for it.
type relocationEnd struct {
	over   chan struct{}
	result host.Result // once over is closed
	cancel context.CancelFunc
	ctx    context.Context // ends with it
}

var hostTiming = host.Timing{Wait: createWaitMin, WaitMax: settleWaitMax, Shun: shunTime}

func (n *Node) openHosting() {
	h := &n.host
	h.node, h.wake, h.waiting = n, make(chan struct{}, 1), map[uint64]*relocationEnd{}
	h.ids = map[uint64]store.OpID{}
	h.units, h.stop = context.WithCancel(n.life)
	h.core = host.New(host.Self{RID: n.cfg.RID, Mesh: n.home.cfg.Name, Version: n.cfg.AppVersion, Wave: n.cfg.MaintenanceWave}, hostTiming)
}

// State returns the node's state.
func (n *Node) State() HostState { return store.HostState(n.host.state.Load()) }

// relocates reports whether the node takes nothing new, as it is being relocated or was.
func (n *Node) relocates() bool {
	s := n.State()
	return s == store.Relocating || s == store.Relocated
}

// Relocate moves all that lives at the node to others. Those who ask for the same at once share
// one operation and its deadline. The error is about arguments, or says that ctx has ended, with
// which only this wait has.
func (n *Node) Relocate(ctx context.Context, r RelocateRequest) (RelocateResult, error) {
	if t := turnFrom(ctx); t != nil && t.cell != nil {
		return RelocateResult{}, errOwnRelocation.of(opRelocate, n.cfg.RID)
	}
	answer, end := n.host.ask(r)
	switch {
	case answer.Wrong != "":
		return RelocateResult{}, fail(errkind.InvalidOperation, opRelocate, n.cfg.RID, "%s", answer.Wrong)
	case end == nil:
		return answer.Result, nil
	}
	var err *Error
	blocking(ctx, func() {
		select {
		case <-end.over:
		case <-ctx.Done():
			err = fromContext(ctx, opRelocate, n.cfg.RID)
		}
	})
	if err != nil {
		return RelocateResult{}, err
	}
	return end.result, nil
}

func (h *hosting) ask(r RelocateRequest) (host.Answer, *relocationEnd) {
	h.mu.Lock()
	a := h.core.Ask(clock.Now(), r)
	var end *relocationEnd
	if a.Op != 0 {
		if end = h.waiting[a.Op]; end == nil {
			end = &relocationEnd{over: make(chan struct{})}
			end.ctx, end.cancel = context.WithCancel(h.units)
			h.waiting[a.Op], h.ids[a.Op] = end, newOpID()
			delete(h.ids, a.Op-2) // at most one trails
		}
	}
	next := h.stepped()
	h.mu.Unlock()
	h.perform(&next)
	return a, end
}

// step takes an event to the core, and does what that wants then. It waits for nothing, so turns may
// call it.
func (h *hosting) step(e host.Event) {
	h.mu.Lock()
	h.core.Step(clock.Now(), e)
	next := h.stepped()
	h.mu.Unlock()
	h.perform(&next)
}

// stepNext is what is to be done behind a step.
type stepNext struct {
	effects []host.Effect
	watch   bool // nobody watches yet
}

// stepped follows the core's state, which is the node's before anything else happens. mu is held.
func (h *hosting) stepped() (next stepNext) {
	h.state.Store(uint32(h.core.State()))
	if h.core.Busy() && !h.watched {
		h.watched, next.watch = true, true
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
	next.effects = h.core.Effects(nil)
	return next
}

// watch tells the core of time and nodes, while it is busy.
func (h *hosting) watch() {
	n := h.node
	changed := n.news.watch()
	for {
		h.mu.Lock()
		at, _ := h.core.NextDeadline()
		h.watched = h.core.Busy()
		busy := h.watched
		h.mu.Unlock()
		if !busy {
			return
		}
		ctx, cancel := untilTime(n.life, at)
		select {
		case <-h.wake:
		case <-changed:
			changed = n.news.watch() // before the list is read
			h.step(host.Event{Is: host.Nodes, Nodes: n.hostNodes(n.discovery.nodes())})
		case <-ctx.Done():
			if n.life.Err() != nil {
				cancel()
				return
			}
			h.step(host.Event{Is: host.Tick})
		}
		cancel()
	}
}

// hostNodes are the nodes of a list as the core wants them.
func (n *Node) hostNodes(list []store.Descriptor) []host.Node {
	nodes := make([]host.Node, len(list))
	for i := range list {
		d := &list[i]
		nodes[i] = host.Node{Descriptor: *d, Linked: n.home.links.to(d.RID, uint64(d.Lifecycle)) != nil}
	}
	return nodes
}

// publishes returns the state that the Store is to be told, under a number that grows: whichever
// of two publications comes last, the Store keeps the later one.
func (h *hosting) publishes() (store.HostState, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.revisions++
	return h.core.State(), h.revisions
}

func (h *hosting) perform(next *stepNext) {
	if next.watch {
		h.node.tasks.Go(h.watch) // unless the node has ended
	}
	for i := range next.effects {
		h.do(&next.effects[i])
	}
}

// do does it, or has a task do it. What a task cannot be had for ends with the node.
func (h *hosting) do(e *host.Effect) {
	n, op := h.node, e.Op
	tell := func(e host.Event) {
		e.Op = op
		h.step(e)
	}
	switch e.Do {
	case host.DoLook:
		n.tasks.Go(func() { tell(n.lookAround()) })
	case host.DoPublish:
		n.tasks.Go(func() { tell(n.publishState()) })
	case host.DoSettle:
		if end := h.endOf(op); end != nil {
			n.tasks.Go(func() { n.settleForRelocation(end.ctx, tell) })
		}
	case host.DoTake:
		n.tasks.Go(func() { tell(host.Event{Is: host.Taken, Units: n.takeInventory()}) })
	case host.DoPermit:
		n.tasks.Go(func() {
			e := host.Event{Is: host.Permitted}
			if err := n.movesOut.enter(h.units, clock.Never); err != nil {
				e.Failure = err.Error()
			}
			tell(e)
		})
	case host.DoRelease:
		n.movesOut.leave()
	case host.DoMove:
		moves := *e
		h.mu.Lock()
		id := h.ids[op]
		h.mu.Unlock()
		if !n.tasks.Go(func() { n.moveForHost(&moves, id, tell) }) {
			n.movesOut.leave()
		}
	case host.DoEnd:
		h.ended(op, e.Result)
	}
}

func (h *hosting) endOf(op uint64) *relocationEnd {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting[op]
}

// ended tells those who wait for the operation.
func (h *hosting) ended(op uint64, r host.Result) {
	h.mu.Lock()
	end := h.waiting[op]
	delete(h.waiting, op)
	h.mu.Unlock()
	n := h.node
	n.log.Info().Stringer("outcome", r.Outcome).Stringer("reason", r.Reason).Str("text", r.Text).Msg("a relocation of this node has ended")
	if end != nil {
		end.result = r
		end.cancel()
		close(end.over)
	}
}

// publishState tells the Store and the peers the present state.
func (n *Node) publishState() host.Event {
	e := host.Event{Is: host.Published}
	for m := range n.eachNet() {
		m.channels.follow()
	}
	if n.store == nil {
		return e
	}
	ctx, cancel := context.WithTimeout(n.life, storeCallMax)
	defer cancel()
	if err := n.publish(ctx, opRelocate); err != nil {
		e.Failure = err.Error()
	}
	return e
}

// Relocation is how far the operation that runs is, or how the last one ended.
type Relocation struct {
	host.Progress
	// SafeToShutdown: nothing that has left needs this process any more, not even to be followed.
	SafeToShutdown bool
}

// Relocation returns it; false: there was none.
func (n *Node) Relocation() (Relocation, bool) {
	h := &n.host
	h.mu.Lock()
	p, ok := h.core.Progress(clock.Now())
	h.mu.Unlock()
	if !ok {
		return Relocation{}, false
	}
	return Relocation{p, n.State() == store.Relocated && !n.follows()}, true
}

// follows reports whether anything that has left is relayed to, or may yet have to be.
func (n *Node) follows() (any bool) {
	n.moves.out.Range(func(_ string, o *moveOut) bool {
		any = !o.stranded.Load()
		return !any
	})
	return any
}
