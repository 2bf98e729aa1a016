package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// fullListEvery is how many polls may find the list unchanged before it is read
// again: leases and capacity in it age without a change number.
const fullListEvery = 5

// discovery knows the nodes of the namespace, by its Store, and has each mesh dial those that
// are needed. One goroutine, run, owns it. Without a Store the list is empty, and there are
// only the peers of the configuration.
type discovery struct {
	node *Node
	list atomic.Pointer[store.NodeList]
	wake chan struct{} // capacity 1
	met  atomic.Bool   // a link was opened: its peer may be news

	// Owned by its goroutine.
	read      clock.Mono // when the list was last found complete
	unchanged int        // polls that found nothing new since the whole list was read; fullListEvery: read it
}

func newDiscovery(n *Node) *discovery {
	d := &discovery{node: n, wake: make(chan struct{}, 1), unchanged: fullListEvery}
	d.list.Store(&store.NodeList{})
	return d
}

// nodes returns the last complete list. It must not be changed.
func (d *discovery) nodes() []store.Descriptor { return d.list.Load().Nodes }

// poke makes it look again soon.
func (d *discovery) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// meet makes it read the list soon: it has changed, or a node has linked that may not be in
// it yet.
func (d *discovery) meet() {
	d.met.Store(true)
	d.poke()
}

// run polls the node list and dials until the node's life ends.
func (d *discovery) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	poll := clock.Now()
	if d.node.store == nil {
		poll = clock.Never
	}
	for {
		now := clock.Now()
		if poll != clock.Never && (d.met.Swap(false) || now.Reached(poll)) {
			poll = now.Add(descriptorPoll)
			d.refresh()
		}
		next := min(poll, d.connect(clock.Now()))
		var due <-chan time.Time
		if next != clock.Never {
			timer.Reset(max(next.Sub(clock.Now()), 0))
			due = timer.C
		}
		select {
		case <-d.node.life.Done():
			return
		case <-d.wake:
		case <-due:
		}
	}
}

// connect starts the dials that are due, of all meshes and channels, and returns when the next
// one will be.
func (d *discovery) connect(now clock.Mono) clock.Mono {
	next := clock.Never
	for m := range d.node.eachNet() {
		next = min(next, m.connect(d.nodes(), now))
	}
	return next
}

// watch makes it read the list when the Store says that it has changed. Polling goes on:
// notices may be lost.
func (d *discovery) watch() {
	if err := d.node.store.WatchNodes(d.node.life, d.meet); err != nil && d.node.life.Err() == nil {
		d.node.log.Warn().Err(err).Msg("changes of the node list are not heard of; it is polled")
	}
}

// outage goes on with the last complete list for a while (FO-18): its links and dials
// stay. Then what it says is too old to dial or place by; links that are open stay,
// as their liveness decides. The Store's next answer is the whole list.
func (d *discovery) outage(err error, now clock.Mono) {
	d.unchanged = fullListEvery
	log := d.node.log.Warn().Err(err)
	switch {
	case errors.Is(err, context.Canceled):
	case now.Sub(d.read) < d.node.cfg.StoreFailureGrace:
		log.Msg("the node list was not read; the last one stays in use")
	case len(d.nodes()) > 0:
		log.Dur("grace", d.node.cfg.StoreFailureGrace).Msg("the node list was not read for too long; no node is dialled or chosen until it is")
		d.list.Store(&store.NodeList{})
		d.node.news.tell()
	}
}

// refresh reads the list, if it has changed or is due to be read as a whole.
func (d *discovery) refresh() {
	ctx, cancel := context.WithTimeout(d.node.life, storeCallMax)
	defer cancel()
	since := d.list.Load().Change
	if d.unchanged >= fullListEvery {
		since = 0
	}
	list, err := d.node.store.ListNodes(ctx, since)
	now := clock.Now()
	if err != nil {
		d.outage(err, now)
		return
	}
	d.read = now
	if list.Nodes == nil {
		d.unchanged++
		return
	}
	d.unchanged = 0
	d.list.Store(&list)
	d.node.news.tell()
}
