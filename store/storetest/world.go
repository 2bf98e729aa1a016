package storetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/store"
)

// world is a Store and what a case does with it. Its helpers fail the test for
// errors and for every reason but the expected one.
type world struct {
	t *testing.T
	s store.Store
}

// longTTL outlives every case; leases that shall end are made to by expire.
const longTTL = time.Minute

// stepMax bounds a single call and a wait: far beyond what either takes.
const stepMax = 20 * time.Second

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), stepMax)
	w.t.Cleanup(cancel)
	return ctx
}

// process is a node as the Store sees it.
type process struct {
	store.Lease
	desc store.Descriptor
}

// lease takes the RID's lease for a new process.
func (w *world) lease(rid string) store.Lease {
	w.t.Helper()
	r, err := w.s.AcquireLease(w.ctx(), rid, randomHex(), longTTL)
	if err != nil || r.Reason != store.Applied {
		w.t.Fatalf("AcquireLease(%s) = %+v, %v", rid, r, err)
	}
	return r.Lease
}

// server is a process that hosts Actors of type "player", User Spots of type "room" and
// Instance Spots of type "quest"; edit may change what it publishes.
func (w *world) server(rid string, edit ...func(*store.Descriptor)) process {
	w.t.Helper()
	p, err := w.startServer(rid, edit...)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// startServer is server for other goroutines than the test's.
func (w *world) startServer(rid string, edit ...func(*store.Descriptor)) (process, error) {
	r, err := w.s.AcquireLease(w.ctx(), rid, randomHex(), longTTL)
	if err != nil || r.Reason != store.Applied {
		return process{}, fmt.Errorf("AcquireLease(%s) = %+v, %w", rid, r, err)
	}
	d := store.Descriptor{
		RID: rid, Lifecycle: r.Lease.Gen, Mesh: "mesh-" + rid, Endpoint: rid + ":7001", Role: store.RoleServer, State: store.Serving,
		Weight: 100, ActorTypes: []string{"player"}, ActorPolicies: map[string]uint8{"player": 3}, Wave: "w1", EntrySpotID: rid + "-entry-1", AppVersion: "1.2.3", Revision: 1,
		SpotTypes: []store.SpotType{{Type: "quest", Kind: store.InstanceSpot}, {Type: "room", Kind: store.UserSpot}},
	}
	for _, e := range edit {
		e(&d)
	}
	if reason, err := w.s.PublishNode(w.ctx(), r.Lease, d); err != nil || reason != store.Applied {
		return process{}, fmt.Errorf("PublishNode(%s) = %v, %w", rid, reason, err)
	}
	return process{r.Lease, d}, nil
}

func (w *world) publish(l store.Lease, d store.Descriptor, want store.Reason) {
	w.t.Helper()
	if reason, err := w.s.PublishNode(w.ctx(), l, d); err != nil || reason != want {
		w.t.Fatalf("PublishNode(%s, revision %d) = %v, %v; want %v", d.RID, d.Revision, reason, err, want)
	}
}

// renew sets the end of the lease ttl from now, also if that is sooner than before.
func (w *world) renew(l store.Lease, ttl time.Duration, want store.Reason) store.Lease {
	w.t.Helper()
	return w.renewKnowing(w.epoch(), l, ttl, want).Lease
}

// renewKnowing renews the lease for a process that knows that epoch.
func (w *world) renewKnowing(known store.Epoch, l store.Lease, ttl time.Duration, want store.Reason) store.LeaseResult {
	w.t.Helper()
	r, err := w.s.RenewLease(w.ctx(), l, known, ttl)
	if err != nil || r.Reason != want {
		w.t.Fatalf("RenewLease(%s, %d), knowing epoch %d = %+v, %v; want %v", l.RID, l.Gen, known, r, err, want)
	}
	return r
}

// epoch is the Store's.
func (w *world) epoch() store.Epoch {
	w.t.Helper()
	c, err := w.s.CancelCreation(w.ctx(), "nothing", store.GenMax, store.GenMax) // every answer tells it
	if err != nil || c.Epoch == 0 {
		w.t.Fatalf("CancelCreation = %+v, %v", c, err)
	}
	return c.Epoch
}

// expire makes the lease end and waits until the Store's clock says that it did.
func (w *world) expire(p process) {
	w.t.Helper()
	w.renew(p.Lease, time.Millisecond, store.Applied)
	w.until("the lease of "+p.RID+" to end", func() bool {
		reason, err := w.s.PublishNode(w.ctx(), p.Lease, p.desc)
		if err != nil {
			w.t.Fatal(err)
		}
		return reason == store.LeaseExpired
	})
}

// until waits until done; it is for what only the Store's clock or another
// goroutine brings about.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	ctx := w.ctx()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("waited %v for %s", stepMax, what)
		case <-tick.C:
		}
	}
}

// request is a reservation of id at p under a new operation of p.
func request(id string, p process) store.Reserve {
	return store.Reserve{
		Kind: store.Actor,
		ID:   id, Type: "player", Op: operation(p), TargetRID: p.RID, TargetLifecycle: p.Gen,
		Request: []byte("create " + id), Timeout: 5 * time.Second,
	}
}

func (w *world) reserve(r store.Reserve, want store.Reason) store.Authority {
	w.t.Helper()
	c, err := w.s.Reserve(w.ctx(), r)
	if err != nil || c.Reason != want {
		w.t.Fatalf("Reserve(%q) = %+v, %v; want %v", r.ID, c, err, want)
	}
	return c.Record
}

// fence is what the owner of the row expects of it.
func fence(a store.Authority) store.Fence {
	return store.FenceOf(&a)
}

func (w *world) finish(a store.Authority, op store.OperationKey, result store.Result, want store.Reason) store.Change {
	w.t.Helper()
	c, err := w.s.Finish(w.ctx(), store.Finish{Fence: fence(a), Op: op, Result: result, Reply: []byte("reply"), FailKind: 12})
	if err != nil || c.Reason != want {
		w.t.Fatalf("Finish(%q, %v) = %+v, %v; want %v", a.ID, result, c, err, want)
	}
	return c
}

// create makes a Ready row.
func (w *world) create(id string, p process) (store.Authority, store.OperationKey) {
	w.t.Helper()
	r := request(id, p)
	return w.finish(w.reserve(r, store.Applied), r.Op, store.Created, store.Applied).Record, r.Op
}

func (w *world) delete(a store.Authority, op store.OpID, want store.Reason) store.Change {
	w.t.Helper()
	c, err := w.s.Delete(w.ctx(), fence(a), op)
	if err != nil || c.Reason != want {
		w.t.Fatalf("Delete(%q) = %+v, %v; want %v", a.ID, c, err, want)
	}
	return c
}

// wantInvalid fails unless the call is refused with ErrInvalid.
func (w *world) wantInvalid(call func() error) {
	w.t.Helper()
	if err := call(); !errors.Is(err, store.ErrInvalid) {
		w.t.Errorf("error is %v; want ErrInvalid", err)
	}
}

func (w *world) read(id string) (store.Authority, bool) {
	w.t.Helper()
	a, found, err := w.s.Read(w.ctx(), id)
	if err != nil {
		w.t.Fatalf("Read(%q): %v", id, err)
	}
	return a, found
}

func (w *world) wantMissing(id string) {
	w.t.Helper()
	if a, found := w.read(id); found {
		w.t.Fatalf("%q is %v at version %d; want it missing", id, a.State, a.Version)
	}
}

func (w *world) list(since uint64) store.NodeList {
	w.t.Helper()
	l, err := w.s.ListNodes(w.ctx(), since)
	if err != nil {
		w.t.Fatalf("ListNodes(%d): %v", since, err)
	}
	return l
}

// node returns the RID's descriptor as listed.
func (w *world) node(rid string) (store.Descriptor, bool) {
	w.t.Helper()
	for _, d := range w.list(0).Nodes {
		if d.RID == rid {
			return d, true
		}
	}
	return store.Descriptor{}, false
}

// wantActors fails unless the node has that many slots in use.
func (w *world) wantActors(rid string, want int) {
	w.t.Helper()
	if d, found := w.node(rid); !found || d.Actors != want {
		w.t.Fatalf("node %s (listed: %v) has %d Actor slots in use; want %d", rid, found, d.Actors, want)
	}
}

func (w *world) wantTerminal(op store.OperationKey, want store.Result) store.Terminal {
	w.t.Helper()
	got, found, err := w.s.ReadTerminal(w.ctx(), op)
	if err != nil || !found || got.Result != want {
		w.t.Fatalf("ReadTerminal = %+v, %v, %v; want %v", got, found, err, want)
	}
	return got
}

// together runs n calls of f at once and waits for them. f must not end the test.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// operation is a new operation of the process.
func operation(p process) store.OperationKey {
	return store.OperationKey{SourceRID: p.RID, SourceLifecycle: p.Gen, Op: newOp()}
}

func newOp() (op store.OpID) {
	_, _ = rand.Read(op[:])
	return op
}

func randomHex() string {
	op := newOp()
	return hex.EncodeToString(op[:])
}
