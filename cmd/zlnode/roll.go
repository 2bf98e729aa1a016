package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zlnode/zlnode"
)

const (
	// relocateTime bounds a relocation, and orderTime the wait for its end behind the follow:
	// members of PerActor rooms may end later.
	relocateTime = 30 * time.Second
	orderTime   = relocateTime + 2*settleTime
	// rollGateways is how many gateways there are if nodes are relocated.
	rollGateways = 2
	// versionNow is of the nodes that the demo begins with, versionNext of those that follow them.
	versionNow, versionNext = "1.0.0", "1.1.0"
)

// roller replaces the object nodes of a cluster, one after the other, while bots play. One
// goroutine runs it; its other methods are safe for concurrent use.
type roller struct {
	cluster *cluster
	options *demoOptions
	stood   *stand

	mu      sync.Mutex
	steps   []rollStep
	failure error // why it ended early
}

// rollStep is one node's end, and the start of its next process.
type rollStep struct {
	rid, version string // of the process that goes
	mode         zlnode.RelocateMode
	next         string // the version of the process that comes; "": none does
	answer       relocatedAnswer

	moved time.Duration // until the last object had left
	safe  time.Duration // from then on until messages found their way without the node
	ended time.Duration // from then on until the process was gone
	start time.Duration // from then on until its next one served
}

func (s *rollStep) total() time.Duration { return s.moved + s.safe + s.ended + s.start }

// run replaces all nodes, spread over the time that the bots play, and stops early when ctx
// ends, but never in the middle of a node.
func (r *roller) run(ctx context.Context) {
	if err := r.roll(ctx); err != nil {
		r.mu.Lock()
		r.failure = err
		r.mu.Unlock()
	}
}

func (r *roller) roll(ctx context.Context) error {
	nodes := r.cluster.objects()
	steps := len(nodes)
	if r.options.mode() == zlnode.RollingUpdate {
		// The first node that goes needs one of the next version, which goes last.
		steps++
		if err := r.startSpare(); err != nil {
			return err
		}
	}
	pace := time.NewTicker(max(r.options.duration/time.Duration(steps+1), time.Millisecond))
	defer pace.Stop()
	for i := range steps {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return fmt.Errorf("the run ended when %d of %d nodes had been relocated", i, steps)
		}
		step := rollStep{version: versionNow, mode: r.options.mode(), next: versionNow}
		switch {
		case i == len(nodes): // the spare one: all others are of its version by now
			step = rollStep{rid: r.spare(), version: versionNext, mode: zlnode.PlannedMaintenance}
		case step.mode == zlnode.RollingUpdate:
			step.next = versionNext
		}
		if i < len(nodes) {
			step.rid = nodes[i]
		}
		err := r.replace(&step)
		r.mu.Lock()
		r.steps = append(r.steps, step)
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// spare is the node that takes what the first one had.
func (r *roller) spare() string { return objectsRID(r.options.nodes) }

func (r *roller) startSpare() error {
	p, err := r.cluster.startObjects(r.spare(), versionNext, r.options.nodes)
	if err != nil {
		return err
	}
	return awaitNodes(context.Background(), []*nodeProc{p})
}

// replace relocates a node, ends its process and starts the next one. Every part of it is
// bounded in time.
func (r *roller) replace(s *rollStep) error {
	p := r.cluster.process(s.rid)
	began := time.Now()
	lap := func(took *time.Duration) {
		*took = time.Since(began)
		began = time.Now()
	}
	ctx, cancel := context.WithTimeout(context.Background(), orderTime+r.options.follow)
	defer cancel()
	p.doing.Store(true)
	defer p.doing.Store(false)
	order := relocateOrder{Mode: s.mode, Timeout: relocateTime}
	if s.mode == zlnode.RollingUpdate {
		order.Version = s.next
	}
	a, err := p.order(ctx, nodeOrder{Relocate: &order})
	switch {
	case err != nil:
		return err
	case a.Relocated == nil:
		return fmt.Errorf("node %s did not say what became of its relocation", s.rid)
	}
	s.answer = *a.Relocated
	if err := r.stood.merge(a.Stood); err != nil {
		return err
	}
	if s.answer.Outcome != zlnode.RelocateRelocated {
		return nil // the verdict says so
	}
	lap(&s.safe)
	s.moved = time.Duration(s.answer.MovedNS)
	s.safe -= s.moved
	stopNodes([]*nodeProc{p})
	lap(&s.ended)
	if fate, text := p.fate(); fate != fateStopped {
		return fmt.Errorf("node %s %s", s.rid, text)
	}
	if s.next == "" {
		r.cluster.retire(p)
		return nil
	}
	next, err := r.cluster.startObjects(s.rid, s.next, len(r.cluster.objects())-1)
	if err == nil {
		err = awaitNodes(context.Background(), []*nodeProc{next})
	}
	lap(&s.start)
	return err
}

// collect asks the nodes that are left what has come to them.
func (r *roller) collect() error {
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for _, rid := range r.cluster.objects() {
		p := r.cluster.process(rid)
		if fate, _ := p.fate(); fate != fateUp {
			continue // it was ended by hand, or the verdict says how
		}
		a, err := p.order(ctx, nodeOrder{})
		if err == nil {
			err = r.stood.merge(a.Stood)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// replaced is how many nodes have been, and of how many.
func (r *roller) replaced() (done, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = r.options.nodes
	if r.options.mode() == zlnode.RollingUpdate {
		all++
	}
	return len(r.steps), all
}

// goHome has the player of a bot go to the room where it is to be, if there is one.
func (b *bot) goHome(ctx context.Context) {
	if !b.plays() || len(b.place.Rooms) == 0 {
		return
	}
	b.mu.Lock()
	room := b.place.Rooms[0].ID
	o := order{op: b.ledger.beginHop(room, time.Now())}
	o.hop = b.ledger.hop
	b.mu.Unlock()
	if !b.sendNew(o) {
		return
	}
	select {
	case <-b.home:
	case <-b.gone:
	case <-ctx.Done():
		b.trouble(fmt.Errorf("the player of bot %d did not come to %s: %w", b.number, room, ctx.Err()))
	}
}
