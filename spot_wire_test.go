package zlnode_test

import (
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// roomStage is an object server with rooms, and a peer of it that is spoken by hand.
func roomStage(t *testing.T, w *world, rooms *roomWorld) (*stage, *peer) {
	t.Helper()
	s := newStage(w)
	s.owner = w.server("b-owner", rooms.app())
	s.gateway = s.owner
	return s, s.member(t)
}

// reserveSpot reserves a room at the owner in the name of a peer.
func (s *stage) reserveSpot(id string, op store.OperationKey) store.Authority {
	s.t.Helper()
	r, err := s.location().Reserve(s.ctx, store.Reserve{
		ID: id, Kind: store.UserSpot, Type: "room", Wide: true, Op: op, Timeout: 20e9, Request: []byte("from the Store"),
		TargetRID: s.owner.RID(), TargetLifecycle: store.LeaseGen(s.owner.Lifecycle()),
	})
	if err != nil || r.Reason != store.Applied {
		s.t.Fatal(r.Reason, err)
	}
	return r.Record
}

// The target runs what the Store says is reserved for it, and nothing else.
// req: CR-05
func TestTheTargetReadsTheSpotsCreationFromTheStore(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		rooms := roomWorld{admit: func(*zlnode.CreateSpotCall) (zlnode.Admission, error) { return zlnode.Accept([]byte("welcome")), nil }}
		s, p := roomStage(t, w, &rooms)
		id := linkConfig(t, nil)
		key := store.OperationKey{SourceRID: id.RID, SourceLifecycle: store.LeaseGen(id.Lifecycle), Op: newOp()}
		row := s.reserveSpot("x", key)
		right := wire.UserSpotCreate{
			Op: key.Op, SourceLifecycle: id.Lifecycle, ID: []byte("x"), Type: []byte("room"), ObjGen: uint64(row.ObjectGen),
			StoreVersion: uint64(row.Version), TargetLifecycle: s.owner.Lifecycle(), DeadlineMS: 10_000,
		}
		corr := uint64(0)
		for what, change := range map[string]func(*wire.UserSpotCreate){
			"another operation":   func(r *wire.UserSpotCreate) { r.Op = newOp() },
			"another incarnation": func(r *wire.UserSpotCreate) { r.ObjGen++ },
			"another version":     func(r *wire.UserSpotCreate) { r.StoreVersion++; r.Op = newOp() },
			"another process":     func(r *wire.UserSpotCreate) { r.TargetLifecycle++ },
			"another id":          func(r *wire.UserSpotCreate) { r.ID = []byte("y"); r.Op = newOp() },
		} {
			corr++
			wrong := right
			wrong.Correlation = corr
			change(&wrong)
			p.send(&wrong)
			if r, ok := p.read().(*wire.ErrorReply); !ok || r.Correlation != corr {
				t.Errorf("%s: %+v, want an error", what, r)
			}
		}
		actor := wire.ActorCreate(right)
		actor.Correlation = 100
		p.send(&actor)
		if r, ok := p.read().(*wire.ErrorReply); !ok {
			t.Errorf("as an actor: %+v, want an error", r)
		}
		if n := rooms.factories.Load(); n != 0 {
			t.Fatalf("%d factories ran", n)
		}
		right.Correlation = 101
		p.send(&right)
		r, ok := p.read().(*wire.Reply)
		if !ok {
			t.Fatalf("%+v, want the result", r)
		}
		result, err := wire.DecodeCreateResult(r.Payload)
		if err != nil || result.Outcome != wire.OutcomeCreated || string(result.Ref.ID) != "x" || string(result.Reply) != "welcome" {
			t.Errorf("%+v %v", result, err)
		}
		if did := rooms.did("create"); len(did) != 1 || did[0] != "create from the Store" {
			t.Errorf("OnCreate got %q", did)
		}
	})
}

// The owner looks at everything that a close names before it takes it.
// req: CR-17
func TestACloseThatNamesSomethingElseIsNotTaken(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		s, p := roomStage(t, w, &rooms)
		r, err := s.owner.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
		if err != nil {
			t.Fatal(err)
		}
		actor, err := s.owner.CreateActor(w.ctx, zlnode.CreateActor{ID: "actor", Type: "counter"})
		if err != nil {
			t.Fatal(err)
		}
		row, _, err := s.location().Read(w.ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		right := wire.UserSpotClose{
			Ref: wire.Ref{
				ID: []byte("x"), ObjGen: r.Ref.ObjectGen, Mesh: []byte(r.Ref.Mesh), RID: []byte(r.Ref.RID),
				Lifecycle: r.Ref.Lifecycle, OwnerGen: r.Ref.OwnerGen,
			},
			StoreVersion: uint64(row.Version), Op: newOp(), DeadlineMS: 10_000,
		}
		corr := uint64(0)
		for _, f := range []struct {
			what   string
			kind   zlnode.Kind
			stale  bool
			change func(*wire.UserSpotClose)
		}{
			{"another incarnation", zlnode.InvalidOperation, false, func(c *wire.UserSpotClose) { c.Ref.ObjGen++ }},
			{"another process", zlnode.Unavailable, true, func(c *wire.UserSpotClose) { c.Ref.Lifecycle++ }},
			{"another owner", zlnode.Unavailable, true, func(c *wire.UserSpotClose) { c.Ref.OwnerGen++ }},
			{"another version", zlnode.Unavailable, true, func(c *wire.UserSpotClose) { c.StoreVersion++ }},
			{"an actor", zlnode.TypeMismatch, false, func(c *wire.UserSpotClose) { c.Ref.ID, c.Ref.ObjGen = []byte("actor"), actor.Ref.ObjectGen }},
		} {
			corr++
			wrong := right
			wrong.Correlation = corr
			f.change(&wrong)
			p.send(&wrong)
			if e, ok := p.read().(*wire.ErrorReply); !ok || e.Correlation != corr || zlnode.Kind(e.Kind) != f.kind || e.Stale != f.stale {
				t.Errorf("%s: %+v, want %v, stale %v", f.what, e, f.kind, f.stale)
			}
		}
		corr++
		destroy := wire.ActorDestroy{Correlation: corr, Ref: right.Ref, Op: newOp()}
		p.send(&destroy)
		if e, ok := p.read().(*wire.ErrorReply); !ok || zlnode.Kind(e.Kind) != zlnode.TypeMismatch {
			t.Errorf("destroyed as an actor: %+v", e)
		}
		corr++
		p.send(&wire.Bind{Correlation: corr, Ref: right.Ref, Session: 1, BindingGen: 1})
		if e, ok := p.read().(*wire.ErrorReply); !ok || zlnode.Kind(e.Kind) != zlnode.TypeMismatch {
			t.Errorf("bound as an actor: %+v", e)
		}
		corr++
		p.send(&wire.ActorMessage{ID: []byte("x"), Op: 1, Correlation: corr, DeadlineMS: 10_000, Name: []byte("add"), Codec: 1, Payload: []byte("1")})
		if e, ok := p.read().(*wire.ErrorReply); !ok || zlnode.Kind(e.Kind) != zlnode.TypeMismatch {
			t.Errorf("asked as an actor: %+v", e)
		}
		if total, err := zlnode.Request[int](w.ctx, s.owner.Spot("x"), "add", 1); err != nil || total != 1 || rooms.closes() != 0 {
			t.Errorf("the spot: total %d %v, %d closings", total, err, rooms.closes())
		}
		for i, want := range []byte{1, 0} {
			corr++
			right.Correlation = corr
			p.send(&right)
			if r, ok := p.read().(*wire.Reply); !ok || len(r.Payload) != 1 || r.Payload[0] != want {
				t.Errorf("close %d: %+v, want %d", i, r, want)
			}
		}
	})
}

// Who read the row before it was written again reads it anew.
// req: CR-17
func TestACloseByAnOldVersionReadsTheRowAgain(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), rooms.app())
		c := w.start(zlnode.Config{RID: "c", Role: zlnode.RoleClient, CreateTimeout: 20e9}, rooms.app())
		w.linked(c, 1)
		st := w.location()
		for range 5 { // the row's version grows somewhere in a close
			r, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.RaiseEpoch(w.ctx); err != nil {
				t.Fatal(err)
			}
			if closed, err := c.CloseSpot(w.ctx, r.Ref); !closed || err != nil {
				t.Errorf("closed %v, %v", closed, err)
			}
		}
	})
}
