package redislua

import (
	"testing"
	"time"

	"github.com/zlnode/zlnode/store"
)

// scene is a Store with one serving node, for tests that need a row to change.
type scene struct {
	t testing.TB
	*Store
	lease store.Lease
}

func newScene(t testing.TB, s *Store) *scene {
	t.Helper()
	return &scene{t, s, serve(t, s, "node-a")}
}

// serve takes the RID's lease and publishes a node that hosts players.
func serve(t testing.TB, s *Store, rid string) store.Lease {
	t.Helper()
	r, err := s.AcquireLease(within(t), rid, randomHex(), time.Hour)
	if err != nil || r.Reason != store.Applied {
		t.Fatalf("AcquireLease(%s) = %+v, %v", rid, r, err)
	}
	reason, err := s.PublishNode(within(t), r.Lease, describe(r.Lease))
	if err != nil || reason != store.Applied {
		t.Fatalf("PublishNode(%s) = %v, %v", rid, reason, err)
	}
	return r.Lease
}

// earlier is an epoch that was before every other. A process that knows no later one may
// renew its lease whatever became of that.
const earlier store.Epoch = 1

// present is the Store's epoch.
func present(t testing.TB, s *Store) store.Epoch {
	t.Helper()
	c, err := s.CancelCreation(within(t), "nothing", store.GenMax, store.GenMax) // every answer tells it
	if err != nil || c.Epoch == 0 {
		t.Fatalf("CancelCreation = %+v, %v", c, err)
	}
	return c.Epoch
}

func describe(l store.Lease) store.Descriptor {
	return store.Descriptor{
		RID: l.RID, Lifecycle: l.Gen, Mesh: "mesh", Role: store.RoleServer, State: store.Serving, Weight: 100,
		ActorTypes: []string{"player"}, EntrySpotID: l.RID + "-entry-1", Revision: 1,
	}
}

// request is a reservation at the node under a new operation.
func (s *scene) request(id string) store.Reserve {
	return store.Reserve{
		Kind: store.Actor,
		ID:   id, Type: "player", Op: store.OperationKey{SourceRID: s.lease.RID, SourceLifecycle: s.lease.Gen, Op: newOp()},
		TargetRID: s.lease.RID, TargetLifecycle: s.lease.Gen, Request: []byte("request"), Timeout: 5 * time.Second,
	}
}

func fence(a store.Authority) store.Fence {
	return store.FenceOf(&a)
}

func (s *scene) reserve(r store.Reserve, want store.Reason) store.Authority {
	s.t.Helper()
	c, err := s.Reserve(within(s.t), r)
	if err != nil || c.Reason != want {
		s.t.Fatalf("Reserve(%q) = %+v, %v; want %v", r.ID, c, err, want)
	}
	return c.Record
}

func (s *scene) finish(a store.Authority, op store.OperationKey, result store.Result, want store.Reason) store.Authority {
	s.t.Helper()
	c, err := s.Finish(within(s.t), store.Finish{Fence: fence(a), Op: op, Result: result, Reply: []byte("reply")})
	if err != nil || c.Reason != want {
		s.t.Fatalf("Finish(%q) = %+v, %v; want %v", a.ID, c, err, want)
	}
	return c.Record
}

func (s *scene) create(id string) (store.Authority, store.OperationKey) {
	s.t.Helper()
	r := s.request(id)
	return s.finish(s.reserve(r, store.Applied), r.Op, store.Created, store.Applied), r.Op
}
