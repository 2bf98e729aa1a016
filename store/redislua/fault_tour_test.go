package redislua

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// everything does every operation of the Store, each where it succeeds.
func (s *stage) everything() {
	s.t.Helper()
	for _, act := range acts {
		if reason, err := act.prepare(s, act.name)(within(s.t)); err != nil || reason != store.Applied {
			s.t.Fatalf("%s = %v, %v", act.name, reason, err)
		}
	}
	ctx := within(s.t)
	fail := func(what string, got any, err error) {
		s.t.Helper()
		s.t.Fatalf("%s = %+v, %v", what, got, err)
	}

	// What only reads.
	a := s.applied(s.Reserve(ctx, reservation("chat-1", store.InstanceSpot, false, s.a)))
	op := a.Create.Op
	a = s.applied(s.Finish(ctx, finishing(a, store.Created)))
	if t, found, err := s.ReadTerminal(ctx, op); err != nil || !found || t.Result != store.Created || string(t.Reply) != "reply" {
		fail("ReadTerminal", t, err)
	}
	if f, found, err := s.ReadFirst(ctx, a.ID, a.ObjectGen); err != nil || !found || string(f.Message) != "first message" {
		fail("ReadFirst", f, err)
	}
	if p, err := s.List(ctx, store.Filter{Kind: store.InstanceSpot, Type: "chat"}, "", store.PageMax); err != nil || len(p.Objects) < 2 {
		fail("List", p, err)
	}
	if l, err := s.ListNodes(ctx, 0); err != nil || len(l.Nodes) != 2 {
		fail("ListNodes", l, err)
	}

	// An aggregate to its end.
	m := s.prepared("crowd-1")
	if chunk, found, err := s.ReadInventory(ctx, m.ID, sha256.Sum256(inventory)); err != nil || !found || string(chunk) != string(inventory) {
		fail("ReadInventory", chunk, err)
	}
	m = s.applied(s.CommitMove(ctx, commitOf(m, s.b)))
	s.wantOwner("crowd-1", s.b)
	if ids, err := s.Members(ctx, m.ID, "", store.PageMax); err != nil || len(ids) != 2 || s.read(ids[0]).RID != s.b.RID {
		fail("Members", ids, err)
	}
	s.applied(s.CompleteMove(ctx, store.FenceOf(&m), m.Aggregate.ID))

	// A process to its end, with a creation left behind.
	if r, err := s.RenewLease(ctx, s.b, earlier, time.Hour); err != nil || r.Reason != store.Applied {
		fail("RenewLease", r, err)
	}
	c := host(s.t, s.Store, "node-c")
	left := s.applied(s.Reserve(ctx, reservation("player-1", store.Actor, false, c)))
	if reason, err := s.RemoveNode(ctx, c); err != nil || reason != store.Applied {
		fail("RemoveNode", reason, err)
	}
	if reason, err := s.ReleaseLease(ctx, c); err != nil || reason != store.Applied {
		fail("ReleaseLease", reason, err)
	}
	s.applied(s.CancelCreation(ctx, left.ID, left.ObjectGen, left.Version))
	audit(s.t, s.Store)
}

// noticed calls changed for every notice of a change of the nodes, until the test ends.
func (s *stage) noticed(changed func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.WatchNodes(ctx, changed); err != nil {
			s.t.Error(err)
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// usage notes which scripts a Store calls, and does first what it is given.
func (s *stage) usage(first func()) map[string]bool {
	used := map[string]bool{}
	before := s.prepare
	s.prepare = func(script lua.Script) lua.Script {
		used[script.Name] = true
		first()
		if before != nil {
			return before(script)
		}
		return script
	}
	return used
}

// wantAllUsed fails unless every script was called.
func (s *stage) wantAllUsed(used map[string]bool) {
	s.t.Helper()
	for _, script := range lua.All() {
		if !used[script.Name] {
			s.t.Errorf("%s was not called", script.Name)
		}
	}
}
