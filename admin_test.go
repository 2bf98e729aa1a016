package zlnode_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/admin"
)

var adminToken = []byte("a token for operators")

// operator returns a client of the node's port for operators.
func (w *world) operator(n *zlnode.Node) *admin.Client {
	c := admin.NewClient(n.AdminAddr().String(), adminToken)
	w.t.Cleanup(c.Close)
	return c
}

// An operator cordons a node, has its objects leave, sees how that goes, and ends it.
func TestANodeIsOperatedByItsAdminPort(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		walk := &walkWorld{}
		app := walk.preserving()
		start := func(rid string) *zlnode.Node {
			return w.start(zlnode.Config{
				RID: rid, Role: zlnode.RoleServer, AppVersion: "1.2.3", Admin: zlnode.AdminPort{Addr: "127.0.0.1:0", Token: adminToken},
			}, app)
		}
		a, b := start("a"), start("b")
		w.linked(a, 1)
		w.linked(b, 1)
		c := w.client("c", 2, app)
		const walkers = 3
		var there []zlnode.ActorRef
		for range walkers {
			there = append(there, w.createActorAt(c, "a", "walker"))
		}
		op := w.operator(a)

		s, err := op.Cordon(w.ctx, []string{"some pass"})
		if err != nil {
			t.Fatal(err)
		}
		if s.RID != "a" || s.Lifecycle != a.Lifecycle() || s.Version != "1.2.3" || s.State != "Serving" || !s.Ready || !s.Cordoned || s.Passes != 1 ||
			s.Actors != walkers || s.Links != 2 || s.Relocation != nil || s.ShutdownEnd != nil || s.Limits.MaxMoves != 64 || !a.Cordoned() {
			t.Errorf("%+v", s)
		}
		if l, err := op.SetLimits(w.ctx, map[string]int64{"max_moves": 1}); err != nil || l.MaxMoves != 1 || a.RelocationLimits().MaxMoves != 1 || l.ChunkBytes != 256<<10 {
			t.Errorf("%+v, %v", l, err)
		}
		for _, wrong := range []admin.RelocateRequest{{Mode: "other"}, {TargetVersion: "2.0.0"}, {TimeoutMS: -1}} {
			_, err := op.Relocate(w.ctx, wrong, 0)
			if refused, ok := errors.AsType[*admin.Error](err); !ok || refused.Kind != zlnode.InvalidOperation.String() {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
		if a.State() != zlnode.HostServing {
			t.Errorf("it is %v", a.State())
		}

		// It begins without a wait, and goes on without anybody who waits.
		begun, err := op.Relocate(w.ctx, admin.RelocateRequest{TimeoutMS: 20_000}, 0)
		if err != nil || begun.Relocation == nil {
			t.Fatalf("%+v, %v", begun, err)
		}
		at := *begun.Relocation
		for at.Result == nil && err == nil {
			at, err = op.Relocation(w.ctx, at.Seen, 10*time.Second)
		}
		if err != nil || at.Running || at.Result.Outcome != admin.Relocated || at.Mode != admin.ModeMaintenance || len(at.Units) != 4 || at.Units[0] != (admin.Units{Kind: "Actor", Total: walkers, Left: walkers}) {
			t.Errorf("%+v, %v", at, err)
		}
		for _, ref := range there {
			if where, err := zlnode.Request[string](w.ctx, c.Actor(ref.ID), "where", struct{}{}); err != nil || where[:1] != "b" {
				t.Errorf("%s is at %q, %v", ref.ID, where, err)
			}
		}
		again, err := op.Relocate(w.ctx, admin.RelocateRequest{}, time.Minute)
		if err != nil || again.Result == nil || again.Result.Outcome != admin.Relocated {
			t.Errorf("%+v, %v", again, err)
		}
		if s, err = op.Status(w.ctx); err != nil || s.State != "Relocated" || s.Ready || s.Actors != 0 || s.MovedOut != walkers || s.Relocation == nil {
			t.Errorf("%+v, %v", s, err)
		}

		ended, err := op.Shutdown(w.ctx, 10*time.Second, 20*time.Second)
		if err != nil || ended.ShutdownEnd == nil || ended.ShutdownEnd.Outcome != "Stopped" || ended.State != "Stopped" {
			t.Errorf("%+v, %v", ended, err)
		}
		receive(t, a.Done())
		if _, err := op.Status(w.ctx); err != nil {
			t.Errorf("the port goes before the program's own Shutdown: %v", err)
		}
		w.stop(a)
		if _, err := op.Status(w.ctx); err == nil {
			t.Error("the port answers behind Shutdown")
		}
		_, err = op.Relocation(w.ctx, "", 0)
		if err == nil {
			t.Error("the port answers behind Shutdown")
		}
	})
}

// A port that others could reach, or that needs no secret, is refused before anything is opened,
// and a node that does not start leaves none.
func TestAnAdminPortIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for _, port := range []zlnode.AdminPort{
		{Addr: "0.0.0.0:0", Token: adminToken},
		{Addr: ":7800", Token: adminToken},
		{Addr: "example.org:1", Token: adminToken},
		{Addr: "127.0.0.1", Token: adminToken},
		{Addr: "127.0.0.1:0"},
		{Addr: "127.0.0.1:0", Token: adminToken[:15]},
	} {
		_, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Admin: port}), zlnode.NewApp())
		wantKind(t, err, zlnode.InvalidOperation)
	}
	a := w.start(zlnode.Config{RID: "a"}, zlnode.NewApp())
	if a.AdminAddr() != nil {
		t.Error("a node has an admin port unasked")
	}
	b := w.start(zlnode.Config{RID: "b", Admin: zlnode.AdminPort{Addr: "localhost:0", Token: adminToken}}, zlnode.NewApp())
	taken := zlnode.AdminPort{Addr: b.AdminAddr().String(), Token: adminToken}
	_, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "c", Admin: taken}), zlnode.NewApp())
	wantKind(t, err, zlnode.Unavailable)
	w.stop(b)
	_, err = zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "c", Role: 9, Admin: taken}), zlnode.NewApp())
	wantKind(t, err, zlnode.InvalidOperation)
	l, err := net.Listen("tcp", taken.Addr)
	if err != nil {
		t.Fatalf("a node that has not started holds its port: %v", err)
	}
	_ = l.Close()
}
