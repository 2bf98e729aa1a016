package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/store"
)

const (
	// raceSettleTime bounds the wait for creations that nobody asks for any more: a dead
	// node's lease has to end, and a node looks for reservations every few seconds.
	raceSettleTime = 60 * time.Second
	settlePoll     = 100 * time.Millisecond
	// raceStoreTime bounds one look at the Store.
	raceStoreTime = 30 * time.Second
)

// race is one run of `zlnode bench create --race`.
type race struct {
	options  benchOptions
	course   *course
	cluster  *cluster
	fleet    *fleet
	store    store.Store
	racers   []*racer
	progress *lockedWriter

	mu       sync.Mutex
	failures []string
}

// failed notes what went wrong with the race itself.
func (r *race) failed(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// runRace races and judges. Its directory is left behind if something is wrong. The error
// says that there was no race.
func runRace(ctx context.Context, o benchOptions, progress, nodeLogs io.Writer) (v raceVerdict, err error) {
	r := &race{options: o, course: newCourse(o.clients, o.ids), progress: &lockedWriter{w: progress}}
	dir, err := os.MkdirTemp("", "zlnode-race-")
	if err != nil {
		return v, err
	}
	defer func() {
		if err != nil || v.OK {
			_ = os.RemoveAll(dir) // what is left of it harms nobody
		}
	}()
	r.cluster, err = openCluster("race", o.store, o.verbose)
	defer r.cluster.stop()
	if err != nil {
		return v, err
	}
	r.fleet, err = startFleet(ctx, r.cluster, o.nodes, dir, nodeLogs)
	defer r.fleet.stop() // a second time it does nothing
	if err != nil {
		return v, err
	}
	if r.store, err = node.OpenStore(ctx, r.cluster.set.Store, r.cluster.set.Namespace); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	defer r.stopClients() // a second time it does nothing
	if err := r.startClients(ctx); err != nil {
		return v, err
	}
	r.say("%d nodes, %d clients, %d ids, store %s", o.nodes, o.clients, o.ids, r.cluster.store)
	began := time.Now()
	r.run(ctx)
	v = r.judge()
	v.Store, v.Nodes, v.Clients, v.IDs, v.Seconds = r.cluster.store, o.nodes, o.clients, o.ids, time.Since(began).Seconds()
	v.dir = dir
	return v, nil
}

// say writes a line of progress.
func (r *race) say(format string, args ...any) { fmt.Fprintf(r.progress, format+"\n", args...) }

// startClients starts the clients' nodes in this process.
func (r *race) startClients(ctx context.Context) error {
	for i := range r.options.clients {
		n, err := startRaceClient(ctx, r.cluster, fmt.Sprintf("client-%d", i+1), r.options.nodes)
		if err != nil {
			return err
		}
		r.racers = append(r.racers, &racer{course: r.course, node: n})
	}
	return nil
}

// startRaceClient starts a node that hosts nothing and is linked to that many that do.
func startRaceClient(ctx context.Context, c *cluster, rid string, servers int) (*zlnode.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeStartTime)
	defer cancel()
	cfg := zlnode.Config{
		RID: rid, Role: zlnode.RoleClient, MeshKey: c.set.MeshKey, StoreURL: c.set.Store, Namespace: c.set.Namespace,
		RecoveryHold: -1, // as its nodes have it
	}
	raceLease(&cfg)
	n, err := zlnode.Start(ctx, cfg, zlnode.NewApp())
	if err != nil {
		return nil, err
	}
	if err := n.WaitPeers(ctx, servers); err != nil {
		return nil, errors.Join(err, stopDemoNode(n))
	}
	return n, nil
}

func (r *race) stopClients() {
	var wg sync.WaitGroup
	for _, c := range r.racers {
		wg.Go(func() {
			if err := stopDemoNode(c.node); err != nil {
				r.failed("client %s does not stop: %v", c.node.RID(), err)
			}
		})
	}
	wg.Wait()
}

// run lets the clients race while nodes are killed, then waits for all calls and for the
// nodes to be back.
func (r *race) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.options.duration)
	defer cancel()
	var around sync.WaitGroup
	if r.options.kill > 0 {
		around.Go(func() {
			if err := r.fleet.harass(ctx, r.options.kill, func(what string) { r.say("%s", what) }); err != nil {
				r.failed("no node can be started any more: %v", err)
			}
		})
	}
	around.Go(func() { r.tell(ctx) })
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		var wg sync.WaitGroup
		for _, c := range r.racers {
			wg.Go(func() { c.run(ctx) })
		}
		wg.Wait()
	}()
	around.Wait()
	patience := time.NewTimer(2*callTime + hangSlack) // who frees an id has two more calls to make
	defer patience.Stop()
	select {
	case <-returned:
	case <-patience.C: // the open calls are told of in the verdict
	}
	if err := r.fleet.awaitReady(context.Background()); err != nil {
		r.failed("%v", err)
	}
}

// tell writes a line of progress each second until ctx ends.
func (r *race) tell(ctx context.Context) {
	began := time.Now()
	t := time.NewTicker(lineEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c := r.course.tally()
			r.say("%5.1fs of %s  calls %s  created %s  existing %s  unavailable %s  freed %s  nodes up %d of %d",
				time.Since(began).Seconds(), r.options.duration, grouped(c.all()), grouped(c.of(endCreated)), grouped(c.of(endExisting)),
				grouped(c.of(endUnavailable)), grouped(c[opFree][endDestroyed]), len(r.fleet.serving()), r.options.nodes)
		case <-ctx.Done():
			return
		}
	}
}

// judge looks at what the race has left, ends it, and judges all of it.
func (r *race) judge() raceVerdict {
	e := &raceEvidence{}
	closing := r.closing()
	alive := r.living()
	r.say("waiting until every creation has ended")
	for _, row := range r.settle(closing, alive) {
		e.rows = append(e.rows, r.look(closing, row, alive))
	}
	r.freeAll(closing, e.rows, alive)
	e.probe = r.lastGeneration(closing)
	e.books = r.audit()
	present := r.fleet.present()
	r.stopClients()
	r.fleet.stop()
	e.left = r.leftRows()
	e.books = append(e.books, r.audit()...)
	for _, c := range append(r.racers, closing) {
		e.calls = append(e.calls, c.told()...)
	}
	var failures []string
	e.processes, failures = r.fleet.evidence(present)
	r.mu.Lock()
	e.failures = append(failures, r.failures...)
	r.mu.Unlock()
	return raceVerdictOf(e, r.course.tally(), r.fleet.killed())
}

// closing returns a racer for the calls after the race: those of the others may hang.
func (r *race) closing() *racer { return &racer{course: r.course, node: r.racers[0].node} }

// living returns the processes that serve.
func (r *race) living() map[process]bool {
	alive := map[process]bool{}
	for _, p := range r.fleet.present() {
		if fate, _ := p.fate(); fate == fateUp && p.serves() {
			alive[process{p.set.RID, p.hello.Lifecycle}] = true
		}
	}
	return alive
}

// rows reads what the Store has of all objects.
func (r *race) rows() (map[string]store.Authority, error) {
	ctx, cancel := context.WithTimeout(context.Background(), raceStoreTime)
	defer cancel()
	rows := map[string]store.Authority{}
	for cursor := ""; ; {
		page, err := r.store.List(ctx, store.Filter{}, cursor, store.PageMax)
		if err != nil {
			return nil, err
		}
		for _, row := range page.Objects {
			rows[row.ID] = row
		}
		if cursor = page.Next; cursor == "" {
			return rows, nil
		}
	}
}

// settle waits until no creation is open and the leases of dead owners are over, and
// returns a row for each id. A creation of a dead process is ended by the next one who
// wants the id, which is this one.
func (r *race) settle(closing *racer, alive map[process]bool) []raceRow {
	deadline := time.Now().Add(raceSettleTime)
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	for {
		rows, err := r.rows()
		open := err != nil
		for _, row := range rows {
			lives := alive[process{row.RID, uint64(row.LeaseGen)}]
			switch {
			case row.State == store.Creating:
				open = true
				if row.LeaseLeft <= 0 && !lives {
					closing.create(raceObject(row.ID), opGetOrCreate, raceOrder{}, callTime)
				}
			case lives != (row.LeaseLeft > 0):
				open = true
			}
		}
		if !open || time.Now().After(deadline) {
			if err != nil {
				r.failed("the rows cannot be read: %v", err)
			}
			return r.perID(rows)
		}
		<-poll.C
	}
}

// perID returns one raceRow for each id.
func (r *race) perID(rows map[string]store.Authority) []raceRow {
	all := make([]raceRow, r.course.ids())
	for i := range all {
		all[i].object = uint32(i)
		if row, found := rows[raceID(uint32(i))]; found {
			all[i].state, all[i].leased = row.State, row.LeaseLeft > 0
			all[i].ref = raceRef{uint64(row.ObjectGen), uint64(row.LeaseGen), row.RID}
		}
	}
	return all
}

// look asks for one id as a client does, and the object itself if its owner lives.
func (r *race) look(closing *racer, row raceRow, alive map[process]bool) raceRow {
	row.find, _ = closing.find(row.object)
	if row.state == store.Ready && alive[process{row.ref.RID, row.ref.Lifecycle}] {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		ref, err := askRaced(ctx, closing.node, raceID(row.object))
		row.answer, row.failed = raceRefOf(ref), err
	}
	return row
}

// freeAll frees what dead nodes own in the end.
func (r *race) freeAll(closing *racer, rows []raceRow, alive map[process]bool) {
	for _, row := range rows {
		if row.state != store.Ready || alive[process{row.ref.RID, row.ref.Lifecycle}] {
			continue
		}
		if end := closing.free(row.object); end != endDestroyed {
			r.failed("%s is owned by a dead node and cannot be freed: %s", raceID(row.object), end)
		}
	}
}

// lastGeneration creates one object more, whose generation is the highest of all, and
// returns one that was not issued; 0 if it cannot be created.
func (r *race) lastGeneration(closing *racer) uint64 {
	closing.create(r.course.probe(), opCreate, raceOrder{}, callTime)
	calls := closing.told()
	last := calls[len(calls)-1]
	if last.end != endCreated {
		r.failed("after the race nothing can be created: %s %s", last.end, last.text)
		return 0
	}
	return last.ref.Gen + 1
}

// audit returns what in the Store does not fit together.
func (r *race) audit() []string {
	ctx, cancel := context.WithTimeout(context.Background(), raceStoreTime)
	defer cancel()
	lines, err := r.store.Audit(ctx)
	if err != nil {
		r.failed("the Store cannot be audited: %v", err)
	}
	return lines
}

// leftRows returns the rows that are there after all nodes have stopped.
func (r *race) leftRows() (left []string) {
	rows, err := r.rows()
	if err != nil {
		r.failed("the rows cannot be read: %v", err)
	}
	for _, row := range rows {
		left = append(left, fmt.Sprintf("%s of %s, lifecycle %d", row.ID, row.RID, row.LeaseGen))
	}
	return left
}
