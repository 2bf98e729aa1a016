package zlnodetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/zlnodetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

// player is a member of rooms.
type player struct{ ticks []zlnode.Tick }

// room is a SpotWide or PerActor User Spot.
type room struct {
	inside atomic.Int32 // turns of the room and its members that run
	most   atomic.Int32
	notes  []string
}

func (r *room) OnInitialize(c *zlnode.SpotCall) error {
	r.notes = append(r.notes, "initialize "+c.Spot().ID())
	return c.StartTimer("beat", zlnode.TimerOptions{Delay: time.Second, Period: time.Second})
}

func (r *room) OnActorJoin(*zlnode.JoinSpotCall) (zlnode.Admission, error) {
	return zlnode.Accept(nil), nil
}

func (r *room) OnJoinedActor(_ *zlnode.SpotCall, actor zlnode.ActorRef) error {
	r.notes = append(r.notes, "joined "+actor.ID)
	return nil
}

func (*player) OnJoinCompleted(_ *zlnode.ActorCall, done zlnode.JoinDone) error { return done.Err }

// visit notes how many run at once.
func (r *room) visit(wait func()) {
	n := r.inside.Add(1)
	for most := r.most.Load(); n > most && !r.most.CompareAndSwap(most, n); most = r.most.Load() {
	}
	wait()
	r.inside.Add(-1)
}

type world struct {
	app   *zlnode.App
	rooms sync.Map // id → *room
	gate  chan struct{}
	in    chan string
}

func newWorld() *world {
	w := &world{app: zlnode.NewApp(), gate: make(chan struct{}), in: make(chan string, 100)}
	p := zlnode.DefineActor(w.app, "player", func(*zlnode.ActorContext) (*player, error) { return &player{}, nil }, zlnode.DisableRelocation)
	zlnode.OnTimer(p, "tick", func(_ *zlnode.ActorCall, a *player, tick zlnode.Tick) error {
		a.ticks = append(a.ticks, tick)
		return nil
	})
	zlnode.OnSend(p, "join", func(c *zlnode.ActorCall, _ *player, room string) error { return c.JoinSpot(room, nil).Defer() })
	zlnode.OnTimer(p, "bad", func(*zlnode.ActorCall, *player, zlnode.Tick) error { panic("boom") })
	zlnode.OnSend(p, "start", func(c *zlnode.ActorCall, _ *player, o zlnode.TimerOptions) error { return c.StartTimer("tick", o) })
	zlnode.OnRequest(p, "start", func(c *zlnode.ActorCall, _ *player, name string) (struct{}, error) {
		return struct{}{}, c.StartTimer(name, zlnode.TimerOptions{Period: time.Second})
	})
	zlnode.OnRequest(p, "stop", func(c *zlnode.ActorCall, _ *player, name string) (bool, error) { return c.StopTimer(name), nil })
	zlnode.OnRequest(p, "ticks", func(_ *zlnode.ActorCall, a *player, _ struct{}) ([]zlnode.Tick, error) {
		return slices.Clone(a.ticks), nil
	})
	// ask has another Actor answer, and lets the room's others run meanwhile.
	zlnode.OnRequest(p, "yield", func(c *zlnode.ActorCall, _ *player, id string) (string, error) {
		return zlnode.Request[string](c.Yielding(), c.Node().Actor(id), "name", struct{}{})
	})
	zlnode.OnRequest(p, "ask", func(c *zlnode.ActorCall, _ *player, id string) (string, error) {
		return zlnode.Request[string](c, c.Node().Actor(id), "name", struct{}{})
	})
	zlnode.OnRequest(p, "name", func(c *zlnode.ActorCall, _ *player, _ struct{}) (string, error) { return c.Actor().ID(), nil })
	zlnode.OnRequest(p, "where", func(c *zlnode.ActorCall, _ *player, _ struct{}) (string, error) { return c.Actor().SpotID(), nil })
	zlnode.OnRequest(p, "work", func(c *zlnode.ActorCall, _ *player, yields bool) (string, error) {
		ctx := context.Context(c)
		if yields {
			ctx = c.Yielding()
		}
		return zlnode.Do(ctx, c.Node(), zlnode.IO, func(context.Context) (string, error) {
			w.in <- c.Actor().ID()
			<-w.gate
			return "done", nil
		})
	})
	zlnode.OnRequest(p, "visit", func(c *zlnode.ActorCall, _ *player, id string) (struct{}, error) {
		r, _ := w.rooms.Load(id)
		r.(*room).visit(func() { time.AfterFunc(0, func() { w.in <- "" }); <-w.in })
		return struct{}{}, nil
	})
	for name, mode := range map[string]zlnode.Mode{"wide": zlnode.SpotWide, "apart": zlnode.PerActor} {
		s := zlnode.DefineUserSpot(w.app, name, func(c *zlnode.SpotContext) (*room, error) {
			r := &room{}
			w.rooms.Store(c.ID(), r)
			return r, nil
		}, mode, zlnode.RecreateOnRelocation)
		zlnode.OnSpotTimer(s, "beat", func(_ *zlnode.SpotCall, r *room, _ zlnode.Tick) error {
			r.notes = append(r.notes, "beat")
			return nil
		})
		zlnode.OnSpotRequest(s, "notes", func(_ *zlnode.SpotCall, r *room, _ struct{}) ([]string, error) { return r.notes, nil })
		zlnode.OnSpotRequest(s, "visit", func(c *zlnode.SpotCall, r *room, _ struct{}) (struct{}, error) {
			r.visit(func() { time.AfterFunc(0, func() { w.in <- "" }); <-w.in })
			return struct{}{}, nil
		})
	}
	return w
}

func request[R any](t *testing.T, to zlnode.Addr, packet string, q any) R {
	t.Helper()
	r, err := zlnode.Request[R](t.Context(), to, packet, q)
	if err != nil {
		t.Fatalf("%s to %s: %v", packet, to.ID(), err)
	}
	return r
}

func TestTimersRunByTheKitsClock(t *testing.T) {
	kit := zlnodetest.Start(t, newWorld().app)
	kit.Actor("ada", "player", nil)
	ada := kit.Node.Actor("ada")
	request[struct{}](t, ada, "start", "tick")
	kit.Advance(0)
	kit.Turns()
	for range 3 {
		kit.Advance(time.Second)
	}
	if turns := kit.Turns(); len(turns) != 3 || turns[0].What != "timer tick" || turns[0].Object != "ada" {
		t.Errorf("turns are %+v, want three of the timer", turns)
	}
	kit.Advance(10 * time.Second) // as after a pause
	ticks := request[[]zlnode.Tick](t, ada, "ticks", struct{}{})
	if last := ticks[len(ticks)-1]; len(ticks) != 5 || last.Count != 10 {
		t.Errorf("ticks are %+v, want the late ones in one", ticks)
	}
	if !request[bool](t, ada, "stop", "tick") || request[bool](t, ada, "stop", "tick") {
		t.Error("a timer is stopped once")
	}
	kit.Advance(time.Hour)
	if n := len(request[[]zlnode.Tick](t, ada, "ticks", struct{}{})); n != 5 {
		t.Errorf("%d ticks, 5 before it was stopped", n)
	}
}

func TestATimersMistakesAreErrors(t *testing.T) {
	kit := zlnodetest.Start(t, newWorld().app)
	kit.Actor("ada", "player", nil)
	ada := kit.Node.Actor("ada")
	if _, err := zlnode.Request[struct{}](t.Context(), ada, "start", "none"); !errors.Is(err, zlnode.InvalidOperation) {
		t.Errorf("a timer without handler: %v", err)
	}
	request[struct{}](t, ada, "start", "bad")
	kit.Settle()
	kit.Advance(time.Second)
	if n := kit.Node.Stats().FailedCallbacks; n != 2 { // at once, and after its period
		t.Errorf("%d callbacks failed, want 2: one that panics goes on", n)
	}
}

func TestADestroyedActorsTimersAreOver(t *testing.T) {
	kit := zlnodetest.Start(t, newWorld().app)
	ref := kit.Actor("ada", "player", nil)
	request[struct{}](t, kit.Node.Actor("ada"), "start", "tick")
	kit.Advance(0)
	if ok, err := kit.Node.DestroyActor(t.Context(), ref); !ok || err != nil {
		t.Fatal(ok, err)
	}
	kit.Turns()
	kit.Advance(time.Minute)
	if turns := kit.Turns(); len(turns) != 0 {
		t.Errorf("turns of an Actor that is gone: %+v", turns)
	}
}

// all makes members of a room of that type visit it at once, and returns how many turns
// ran at the same time.
func all(t *testing.T, kit *zlnodetest.Kit, w *world, typ string) int32 {
	t.Helper()
	kit.Spot("r", typ)
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		kit.Actor(id, "player", nil)
		kit.Join(id, "r")
	}
	var visits sync.WaitGroup
	for range 50 {
		for _, id := range ids {
			visits.Go(func() { request[struct{}](t, kit.Node.Actor(id), "visit", "r") })
		}
		visits.Go(func() { request[struct{}](t, kit.Node.Spot("r"), "visit", struct{}{}) })
	}
	visits.Wait()
	r, _ := w.rooms.Load("r")
	return r.(*room).most.Load()
}

// req: MB-02
func TestASpotWideRoomAndItsMembersRunOneAtATime(t *testing.T) {
	w := newWorld()
	if n := all(t, zlnodetest.Start(t, w.app), w, "wide"); n != 1 {
		t.Errorf("%d turns ran at once", n)
	}
}

func TestAnActorKnowsTheSpotThatItIsIn(t *testing.T) {
	kit := zlnodetest.Start(t, newWorld().app)
	kit.Spot("r", "wide")
	kit.Actor("a", "player", nil)
	entry := request[string](t, kit.Node.Actor("a"), "where", struct{}{})
	if !strings.Contains(entry, "-entry-") {
		t.Errorf("it begins in %q", entry)
	}
	kit.Join("a", "r")
	if spot := request[string](t, kit.Node.Actor("a"), "where", struct{}{}); spot != "r" {
		t.Errorf("it is in %q, not in the room", spot)
	}
}

func TestSettleWaitsForJoins(t *testing.T) {
	w := newWorld()
	kit := zlnodetest.Start(t, w.app)
	kit.Spot("r", "wide")
	kit.Actor("a", "player", nil)
	kit.Turns()
	if err := zlnode.Send(t.Context(), kit.Node.Actor("a"), "join", "r"); err != nil {
		t.Fatal(err)
	}
	kit.Settle()
	var got []string
	for _, turn := range kit.Turns() {
		got = append(got, turn.Object+" "+turn.What)
	}
	if want := []string{"a join", "r OnActorJoin", "r OnJoinedActor", "a OnJoinCompleted"}; !slices.Equal(got, want) {
		t.Errorf("the turns were %q, want %q", got, want)
	}
	if spot := request[string](t, kit.Node.Actor("a"), "where", struct{}{}); spot != "r" {
		t.Errorf("it is in %q, not in the room", spot)
	}
}

// req: MB-02
func TestMembersOfAPerActorRoomRunAtTheSameTime(t *testing.T) {
	w := newWorld()
	kit := zlnodetest.Start(t, w.app)
	kit.Spot("r", "apart")
	for _, id := range []string{"a", "b"} {
		kit.Actor(id, "player", nil)
		kit.Join(id, "r")
	}
	var works sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		works.Go(func() { request[string](t, kit.Node.Actor(id), "work", false) })
	}
	<-w.in
	<-w.in // both are in their turn
	request[[]string](t, kit.Node.Spot("r"), "notes", struct{}{})
	close(w.gate)
	works.Wait()
}

func TestASpotsTimerAndCallbacksAreItsTurns(t *testing.T) {
	kit := zlnodetest.Start(t, newWorld().app)
	kit.Spot("r", "wide")
	kit.Advance(time.Second)
	kit.Advance(time.Second)
	if got, want := request[[]string](t, kit.Node.Spot("r"), "notes", struct{}{}), []string{"initialize r", "beat", "beat"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// req: MB-06
func TestAYieldLetsTheRoomGoOnButNotTheActor(t *testing.T) {
	w := newWorld()
	kit := zlnodetest.Start(t, w.app)
	kit.Spot("r", "wide")
	for _, id := range []string{"a", "b"} {
		kit.Actor(id, "player", nil)
		kit.Join(id, "r")
	}
	var works sync.WaitGroup
	works.Go(func() { request[string](t, kit.Node.Actor("a"), "work", true) })
	<-w.in
	works.Go(func() { request[string](t, kit.Node.Actor("a"), "name", struct{}{}) }) // behind it
	request[string](t, kit.Node.Actor("b"), "name", struct{}{})
	request[[]string](t, kit.Node.Spot("r"), "notes", struct{}{})
	kit.Advance(time.Second) // the room's timer runs meanwhile, and so does what waits for its end
	if notes := request[[]string](t, kit.Node.Spot("r"), "notes", struct{}{}); !slices.Contains(notes, "beat") {
		t.Errorf("the room's timer had no turn: %v", notes)
	}
	before := kit.Turns()
	close(w.gate)
	works.Wait()
	after := kit.Turns()
	for _, turn := range before {
		if turn.Object == "a" {
			t.Errorf("a turn of the Actor ended while it had yielded: %+v", turn)
		}
	}
	if len(after) != 2 || after[0].What != "work" || after[1].What != "name" {
		t.Errorf("after the Yield ran %+v", after)
	}
}

func TestARequestWithinARoomNeedsAYield(t *testing.T) {
	kit := zlnodetest.Start(t, newWorld().app)
	kit.Spot("r", "wide")
	for _, id := range []string{"a", "b"} {
		kit.Actor(id, "player", nil)
		kit.Join(id, "r")
	}
	if name := request[string](t, kit.Node.Actor("a"), "yield", "b"); name != "b" {
		t.Errorf("got %q", name)
	}
	if _, err := zlnode.Request[string](t.Context(), kit.Node.Actor("a"), "ask", "b"); !errors.Is(err, zlnode.InvalidOperation) {
		t.Errorf("a request that could not be answered: %v", err)
	}
	if _, err := zlnode.Request[string](t.Context(), kit.Node.Actor("a"), "yield", "a"); !errors.Is(err, zlnode.InvalidOperation) {
		t.Errorf("a request to itself: %v", err)
	}
}

// req: MB-06
func TestOutsideOfASpotWideSpotNobodyYields(t *testing.T) {
	kit := zlnodetest.Start(t, newWorld().app)
	kit.Spot("r", "apart")
	kit.Actor("lone", "player", nil)
	kit.Actor("member", "player", nil)
	kit.Join("member", "r")
	kit.Settle()
	kit.Turns()
	for _, id := range []string{"lone", "member"} {
		if _, err := zlnode.Request[string](t.Context(), kit.Node.Actor(id), "yield", "b"); !errors.Is(err, zlnode.InvalidOperation) {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, turn := range kit.Turns() {
		if turn.What == "name" {
			t.Error("the request was sent")
		}
	}
}

func TestAMessageToAnObjectOfAnotherKindIsATypeMismatch(t *testing.T) {
	kit := zlnodetest.Start(t, newWorld().app)
	kit.Spot("r", "wide")
	kit.Actor("a", "player", nil)
	if _, err := zlnode.Request[string](t.Context(), kit.Node.Actor("r"), "name", struct{}{}); !errors.Is(err, zlnode.TypeMismatch) {
		t.Errorf("a Spot asked as an Actor: %v", err)
	}
	if err := zlnode.Send(t.Context(), kit.Node.Spot("a"), "name", struct{}{}); !errors.Is(err, zlnode.TypeMismatch) {
		t.Errorf("an Actor as a Spot: %v", err)
	}
}
