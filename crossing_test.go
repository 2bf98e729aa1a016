package zlnode_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/hook"
	"github.com/zlnode/zlnode/internal/node"
)

// crossing is a walker at node a that goes to a Spot at node b, with a client of it at
// node c, and roads between all of them.
type crossing struct {
	*world
	walk    *walkWorld
	app     *zlnode.App
	roads   *linkRoads
	a, b, c *zlnode.Node
	child   *child // in place of a or b
	store   *storeProxy
	ref     zlnode.ActorRef
	spot    zlnode.SpotRef
	player  *player
	told    []string // what was sent to the walker and accepted, in order
	release func()   // lets what the test holds up go on; the test's end does, too
}

// crossingOptions say what is unlike the usual.
type crossingOptions struct {
	policy  *zlnode.RelocationPolicy          // else PreserveState
	servers func(zlnode.Config) zlnode.Config // of a and b
	tune    func(*node.Config)                // of all nodes
	child   string                            // which server is a process of its own
	road    string                            // which server has a road of its own to the Store
}

func newCrossing(w *world, o crossingOptions) *crossing {
	w.t.Helper()
	x := &crossing{world: w, walk: &walkWorld{}, roads: newLinkRoads(w.t), release: func() {}}
	if o.policy == nil {
		x.app = x.walk.preserving()
	} else {
		x.app = x.walk.app(*o.policy)
	}
	start := func(c zlnode.Config) *zlnode.Node {
		if c = x.roads.behind(c); c.Role == zlnode.RoleServer && o.servers != nil {
			c = o.servers(c)
		}
		if c.RID == o.road {
			direct := x.url
			x.store = x.behindProxy()
			defer func() { x.url = direct }()
		}
		if c.RID == o.child {
			x.child = x.childOf(childOrder{Config: x.config(c), Walkers: true})
			return nil
		}
		return x.tuned(c, x.app, o.tune)
	}
	x.a = start(zlnode.Config{RID: "a", Role: zlnode.RoleServer})
	x.b = start(zlnode.Config{RID: "b", Role: zlnode.RoleServer})
	x.c = start(zlnode.Config{RID: "c", Role: zlnode.RoleClient, Sessions: []zlnode.SessionListener{
		{Addr: "127.0.0.1:0", Type: "player", ReconnectGrace: time.Minute}, {Addr: "127.0.0.1:0", Type: "noticed"},
	}})
	x.linked(x.c, 2)
	if x.a != nil && x.b != nil {
		x.linked(x.a, 1)
	}
	x.spot = x.createSpotAt(x.c, "b", "wide")
	x.ref = x.createActorAt(x.c, "a", "walker")
	return x
}

// tuned is start with a last word on the inner configuration.
func (w *world) tuned(c zlnode.Config, app *zlnode.App, last func(*node.Config)) *zlnode.Node {
	w.t.Helper()
	if last == nil {
		return w.start(c, app)
	}
	started, err := hook.Start(w.ctx, w.config(c), app, last)
	if err != nil {
		w.t.Fatalf("start %s: %v", c.RID, err)
	}
	n := started.(*zlnode.Node)
	w.t.Cleanup(func() { w.stop(n) })
	return n
}

// later has release call f.
func (x *crossing) later(f func()) {
	x.release = sync.OnceFunc(f)
	x.t.Cleanup(x.release)
}

// onCrossing runs f on each Store.
func onCrossing(t *testing.T, o crossingOptions, f func(t *testing.T, x *crossing)) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) { f(t, newCrossing(w, o)) })
}

// bound binds a client's Session to the walker.
func (x *crossing) bound() *crossing {
	x.t.Helper()
	s := &stage{world: x.world, gateway: x.c}
	x.player = s.dial(x.t)
	if err := x.player.bind(x.ref); err != nil {
		x.t.Fatal(err)
	}
	return x
}

// ticking starts the walker's timer.
func (x *crossing) ticking() *crossing {
	x.t.Helper()
	o := zlnode.TimerOptions{Period: 5 * time.Millisecond}
	if _, err := zlnode.Request[struct{}](x.ctx, x.c.Actor(x.ref.ID), "clock", o); err != nil {
		x.t.Fatal(err)
	}
	return x
}

// asks asks the walker from the node, and fails unless it has done all that it was told.
func (x *crossing) asks(n *zlnode.Node, line string) {
	x.t.Helper()
	x.told = append(x.told, line)
	if got, err := zlnode.Request[[]string](x.ctx, n.Actor(x.ref.ID), "ask", line); err != nil || !slices.Equal(got, x.told) {
		x.t.Fatalf("asked from %s the walker has executed %q, want %q: %v", n.RID(), got, x.told, err)
	}
}

// tells sends the walker lines from the node.
func (x *crossing) tells(n *zlnode.Node, lines ...string) {
	x.t.Helper()
	for _, line := range lines {
		if err := zlnode.Send(x.ctx, n.Actor(x.ref.ID), "tell", line); err != nil {
			x.t.Fatalf("%s was not sent from %s: %v", line, n.RID(), err)
		}
		x.told = append(x.told, line)
	}
}

// goes has the walker register a Join.
func (x *crossing) goes(to walkTo) {
	x.t.Helper()
	if to.Spot == "" && !to.Entry {
		to.Spot = x.spot.ID
	}
	if _, err := zlnode.Request[struct{}](x.ctx, x.c.Actor(x.ref.ID), "join", to); err != nil {
		x.t.Fatal(err)
	}
}

// queueJoin is goes for a walker that is stopped: the Join is registered when it goes on.
func (x *crossing) queueJoin(to walkTo) {
	x.t.Helper()
	if to.Spot == "" && !to.Entry {
		to.Spot = x.spot.ID
	}
	if err := zlnode.Send(x.ctx, x.a.Actor(x.ref.ID), "join", to); err != nil {
		x.t.Fatal(err)
	}
}

// arrives waits for the end of a Join that is accepted, and for the walker at the node.
func (x *crossing) arrives(rid, spot string) zlnode.JoinDone {
	x.t.Helper()
	done := receive(x.t, x.walk.ended)
	if done.Outcome != zlnode.JoinAccepted || done.Ref.RID != rid || done.Ref.ObjectGen != x.ref.ObjectGen {
		x.t.Fatalf("the join ended with %+v, want the walker at %s; it was %+v", done, rid, x.ref)
	}
	x.isAt(rid, spot)
	return done
}

func (x *crossing) isAt(rid, spot string) {
	x.t.Helper()
	if where, err := zlnode.Request[string](x.ctx, x.c.Actor(x.ref.ID), "where", struct{}{}); err != nil || where != rid+" "+spot {
		x.t.Fatalf("it is at %q, want %q: %v", where, rid+" "+spot, err)
	}
}

// stays waits for the end of a Join that failed with that kind, or was rejected if there
// is none, and fails the test unless the walker is as it was, and can go on and away.
func (x *crossing) stays(kind zlnode.Kind, entry string) {
	x.t.Helper()
	done := receive(x.t, x.walk.ended)
	if done.Outcome != zlnode.JoinFailed || zlnode.KindOf(done.Err) != kind {
		x.t.Errorf("the join ended %v with %v, want %v", done.Outcome, done.Err, kind)
	}
	namesItsObject(x.t, &done)
	x.unmoved(entry)
}

// unmoved fails the test unless the walker is at a, has executed what it was told, is bound
// and hears its timer.
func (x *crossing) unmoved(entry string) {
	x.t.Helper()
	x.isAt("a", entry)
	x.asks(x.c, "after")
	if x.player != nil {
		x.playerReaches("a client's")
	}
	x.hears("a")
	if ticks := x.walk.notes.of("tick b"); len(ticks) != 0 {
		x.t.Errorf("a timer ran at the target: %q", ticks)
	}
	for _, n := range []*zlnode.Node{x.a, x.b} {
		if n == nil {
			continue
		}
		if stuck := n.StuckObjects(); len(stuck) != 0 {
			x.t.Errorf("stuck at %s are %+v", n.RID(), stuck)
		}
	}
	if row, found, err := x.location().Read(x.ctx, x.ref.ID); err != nil || !found || row.RID != "a" || row.SpotID != entry || row.Move != nil {
		x.t.Errorf("its row is %+v: %v", row, err)
	}
	x.inOrder()
}

// playerReaches has the client ask the walker, whose push comes back.
func (x *crossing) playerReaches(line string) {
	x.t.Helper()
	x.told = append(x.told, line)
	var got []string
	if err := x.player.RequestJSON(x.ctx, "ask", line, &got); err != nil || !slices.Equal(got, x.told) {
		x.t.Fatalf("asked by its client the walker has executed %q, want %q: %v", got, x.told, err)
	}
	for pushed[string](x.player, "done") != line { // there are those of others
	}
}

// hears waits for a tick of the timer at the node, if there is one.
func (x *crossing) hears(rid string) {
	x.t.Helper()
	if len(x.walk.notes.of("tick")) == 0 {
		return
	}
	before := len(x.walk.notes.of("tick " + rid))
	x.await("a tick at "+rid, func() bool { return len(x.walk.notes.of("tick "+rid)) > before })
}

func (x *crossing) await(what string, condition func() bool) {
	(&joinWorld{world: x.world}).await(what, condition)
}

// inOrder fails if the Store's books are not.
func (x *crossing) inOrder() { (&joinWorld{world: x.world}).balanced() }

// entryOf returns the id of the walker's Spot.
func (x *crossing) entryOf() string {
	x.t.Helper()
	where, err := zlnode.Request[string](x.ctx, x.c.Actor(x.ref.ID), "where", struct{}{})
	if err != nil {
		x.t.Fatal(err)
	}
	_, spot, _ := strings.Cut(where, " ")
	return spot
}

// stopped has the walker stand before the gate; what comes meanwhile is queued.
func (x *crossing) stopped() <-chan error {
	x.t.Helper()
	return x.walk.gate.stop(x.t, x.world, x.c.Actor(x.ref.ID))
}

func lines(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, "-", i+1))
	}
	return all
}
