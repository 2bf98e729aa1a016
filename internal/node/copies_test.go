package node

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/store"
)

// within reports whether p is a part of whole, in the same memory.
func within(p, whole []byte) bool {
	from, start := uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return from >= start && from+uintptr(len(p)) <= start+uintptr(len(whole))
}

// pair is two servers, and an Actor at the first one that moves to a Spot of the second with
// a state.
type pair struct {
	*testing.T
	a, b  *Node
	state []byte
	ended chan JoinDone
	look  func(restored []byte) // at the target, while the source waits for it
}

func newPair(t *testing.T, state []byte) *pair {
	p := &pair{T: t, state: state, ended: make(chan JoinDone, 1)}
	e, err := StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	start := func(rid string) *Node {
		app := NewApp()
		typ := app.AddActor("traveller", func(*ObjectContext) (any, error) { return nil, nil })
		typ.Policy = PreserveState
		typ.Capture = func(any) ([]byte, error) { return p.state, nil }
		typ.Restore = func(_ any, restored []byte) error {
			p.look(restored)
			return nil
		}
		typ.OnJoinCompleted = func(_ *Call, _ any, done JoinDone) error {
			p.ended <- done
			return nil
		}
		app.OnSend(typ, "go", func(c *Call, _ any, spot []byte) error {
			return c.Registration().Defer(Join{Spot: string(spot), Timeout: 20 * time.Second})
		})
		app.OnNodeRequest(app.Node, "echo", func(_ *NodeCall, b []byte) (Reply, error) { return Reply{Payload: b}, nil })
		app.AddSpot(store.UserSpot, "room", true, func(*ObjectContext) (any, error) { return nil, nil })
		return serve(t, Config{
			RID: rid, Role: store.RoleServer, StoreURL: e.URL(), MeshKey: []byte("a key of tests, long enough"), Listen: "127.0.0.1:0",
			RecoveryHold: -1, SessionRelocationSealTimeout: time.Minute, Weight: 100, MaxActors: 100, MaxSpots: 100,
			Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
		}, app)
	}
	p.a, p.b = start("a"), start("b")
	for _, n := range []*Node{p.a, p.b} {
		if err := n.WaitPeers(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// createAt makes objects until there is one at that node.
func (p *pair) createAt(n *Node, req CreateRequest) ActorRef {
	p.Helper()
	for i := range 1000 {
		if req.Kind == store.Actor {
			req.ID = "traveller-" + string(rune('a'+i))
		}
		r, err := p.a.Create(p.Context(), req)
		if err != nil {
			p.Fatal(err)
		}
		if r.Ref.RID == n.cfg.RID {
			return r.Ref
		}
	}
	p.Fatal("none came to be there")
	return ActorRef{}
}

func (p *pair) moves() {
	p.Helper()
	actor, room := p.createAt(p.a, CreateRequest{Kind: store.Actor, Type: "traveller"}), p.createAt(p.b, CreateRequest{Kind: store.UserSpot, Type: "room"})
	if err := p.a.Send(p.Context(), &Target{ID: actor.ID}, &Outgoing{Name: "go", Payload: []byte(room.ID)}); err != nil {
		p.Fatal(err)
	}
	if done := await(p.T, "the move's end", p.ended); done.Result != JoinAccepted {
		p.Fatal(done.Result, done.Err)
	}
}

// Beside the kernel nobody copies a payload at its source: the chunks are written from where
// they were captured. (Builds with invariants check at each write that the reactor holds no
// bytes of its own.) At the target its bytes are put, by the kernel or from the block that
// it reads to, into the one run of memory that is restored from.
func TestAPayloadIsWrittenFromWhereItWasCapturedAndRestoredFromWhereItWasRead(t *testing.T) {
	state := make([]byte, 16<<20)
	for i := range state {
		state[i] = byte(i ^ i>>8 ^ i>>16)
	}
	p := newPair(t, state)
	looked := false
	p.look = func(restored []byte) {
		looked = true
		if !slices.Equal(restored, state) {
			t.Error("other bytes came")
		}
		var sent int
		p.a.moves.out.Range(func(_ string, o *moveOut) bool {
			for i := range o.payload.out.Manifest().Chunks {
				views, _ := o.payload.out.AppendChunk(nil, i)
				for _, v := range views {
					if within(v, state) {
						sent += len(v)
					}
				}
			}
			return true
		})
		if sent != len(state) {
			t.Errorf("of the state's %d bytes %d are sent from where they were captured", len(state), sent)
		}
		p.b.moves.in.Range(func(_ string, i *moveIn) bool {
			if all, err := i.payload.Payload(); err != nil || !within(restored, all) {
				t.Errorf("what is restored is not what was put together: %v", err)
			}
			return true
		})
		if p.b.engine.Stats().BytesPlaced == 0 {
			t.Error("no chunk was read to its place")
		}
	}
	p.moves()
	if !looked {
		t.Error("nothing was restored")
	}
}
