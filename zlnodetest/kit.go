// Package zlnodetest runs an application's objects in a test: one node on an embedded
// store, with a clock for timers that the test moves, and a record of all turns. Handlers
// run as they do in a cluster, under the same gates.
//
//	kit := zlnodetest.Start(t, app)
//	kit.Actor("ada", "player", nil)
//	kit.Spot("room", "room")
//	kit.Join("ada", "room")
//	kit.Advance(time.Second) // timers that are due have run when it returns
//	state, err := zlnode.Request[State](t.Context(), kit.Node.Actor("ada"), "state", struct{}{})
//
// Messages go through kit.Node, as in an application. All methods are for the test's
// goroutine and fail the test by Fatal.
package zlnodetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/hook"
	"github.com/zlnode/zlnode/internal/node"
)

// patience bounds what the kit waits for; only what hangs takes that long.
const patience = 20 * time.Second

// Turn is one turn that has ended.
type Turn struct {
	Object string // its id
	Type   string
	// What is the packet's name, or the callback's, such as "OnDisconnectActor" or
	// "timer heal".
	What string
	Err  error // of the handler
}

// Kit is a node under test.
type Kit struct {
	// Node is the node; the kit shuts it down at the test's end.
	Node *zlnode.Node

	t     testing.TB
	clock *fakeClock

	mu    sync.Mutex
	turns []Turn
}

// Start starts a node that hosts the application's objects.
func Start(t testing.TB, app *zlnode.App) *Kit {
	t.Helper()
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	k := &Kit{t: t, clock: newFakeClock()}
	cfg := zlnode.Config{
		RID: "node", Role: zlnode.RoleServer, Listen: "127.0.0.1:0", MeshKey: []byte("a key for one test node"),
		StoreURL: e.URL(), RecoveryHold: -1, Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
	}
	n, err := hook.Start(t.Context(), cfg, app, func(c *node.Config) {
		c.TimerClock, c.Observe = k.clock, k.note
	})
	if err != nil {
		t.Fatal(err)
	}
	k.Node = n.(*zlnode.Node)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := k.Node.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *Kit) note(e *node.Event) {
	if e.Is != node.TurnEnded {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turns = append(k.turns, Turn{e.Ref.ID, e.Type, e.What, e.Err})
}

// Turns returns the turns that have ended since the last call, in the order of their
// ends, and forgets them.
func (k *Kit) Turns() []Turn {
	k.mu.Lock()
	defer k.mu.Unlock()
	turns := k.turns
	k.turns = nil
	return turns
}

// Actor creates an Actor. request goes to OnCreateActor; see zlnode.CreateActor.
func (k *Kit) Actor(id, stableType string, request any) zlnode.ActorRef {
	k.t.Helper()
	if hook.Inner(k.Node).HasSpot(id) { // an Instance Spot's, of which the Store knows nothing
		k.t.Fatalf("%q is a spot's id", id)
	}
	c, err := k.Node.CreateActor(k.t.Context(), zlnode.CreateActor{ID: id, Type: stableType, Request: request})
	if err != nil {
		k.t.Fatal(err)
	}
	if c.Outcome != zlnode.OutcomeCreated {
		k.t.Fatalf("the creation of %q was rejected with %q", id, c.Reply)
	}
	return c.Ref
}

// Spot makes a User or Instance Spot, and has run its first callbacks when it returns. A
// User Spot is created without a request; for one with a request, or that is rejected, see
// zlnode.Node.CreateSpot.
func (k *Kit) Spot(id, stableType string) {
	k.t.Helper()
	inner := hook.Inner(k.Node)
	if !inner.HasUserSpotType(stableType) {
		if err := inner.PlaceSpot(id, stableType); err != nil {
			k.t.Fatal(err)
		}
		return
	}
	c, err := k.Node.CreateSpot(k.t.Context(), zlnode.CreateSpot{ID: id, Type: stableType})
	if err != nil {
		k.t.Fatal(err)
	}
	if c.Outcome != zlnode.OutcomeCreated {
		k.t.Fatalf("the creation of %q was rejected with %q", id, c.Reply)
	}
}

// Join makes an Actor a member of a User Spot, without a callback: what its next turn
// runs under is the Spot's gate. The Store is not told, so for what depends on that, and for
// the callbacks, have a handler register a Join (zlnode.ActorCall.JoinSpot) and Settle.
func (k *Kit) Join(actor, spot string) {
	k.t.Helper()
	if err := hook.Inner(k.Node).PlaceMember(actor, spot); err != nil {
		k.t.Fatal(err)
	}
}

// Advance moves the timers' clock and returns when all turns that are due then have
// ended. It is one jump, as after a pause: ticks that it passes are late, and each timer's
// mode says what becomes of them. To see every tick advance by one period at a time.
func (k *Kit) Advance(d time.Duration) {
	k.t.Helper()
	k.clock.advance(d)
	k.Settle()
}

// Settle waits until no turn runs or waits, and no Join is under way. A handler that waits
// for something outside of the node is a turn that runs, unless it yields meanwhile.
func (k *Kit) Settle() {
	k.t.Helper()
	inner := hook.Inner(k.Node)
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for quiet := 0; quiet < 3; <-tick.C {
		if quiet++; !k.clock.idle() || !inner.Idle() {
			quiet = 0
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("turns still run after %v; one that hangs is none of %v", patience, k.Turns())
		}
	}
}
