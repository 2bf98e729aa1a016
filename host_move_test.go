package zlnode_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// evacuation is node a with walkers, which others may take over, and a client c of all.
type evacuation struct {
	*world
	walk *walkWorld
	a, c *zlnode.Node
	refs []zlnode.ActorRef
	told map[string]int // how many lines each walker has been told
}

// app is that of one node: walkers, Actors that stay, and a channel that says who serves it.
func (e *evacuation) app() *zlnode.App {
	app := e.walk.preserving()
	zlnode.DefineActor(app, "fixed", func(*zlnode.ActorContext) (*counter, error) { return &counter{}, nil }, zlnode.DisableRelocation)
	quest := zlnode.DefineInstanceSpot(app, "quest", func(*zlnode.SpotContext) (*tally, error) { return &tally{}, nil }, zlnode.PreserveStateWith(tallyState{}))
	zlnode.OnSpotRequest(quest, "count", func(_ *zlnode.SpotCall, v *tally, n int) (int, error) {
		v.count += n
		return v.count, nil
	})
	work := zlnode.DefineChannel(app, "work", zlnode.HandlerOptions{})
	zlnode.OnChannelRequest(work, "who", func(c *zlnode.NodeCall, _ struct{}) (string, error) { return c.Node().RID(), nil })
	return app
}

// tally is an Instance Spot that counts.
type tally struct{ count int }

type tallyState struct{}

func (tallyState) Capture(v *tally) ([]byte, error) { return []byte{byte(v.count)}, nil }
func (tallyState) Restore(v *tally, state []byte) error {
	v.count = int(state[0])
	return nil
}

// newEvacuation starts a and c, with as many walkers at a.
func newEvacuation(w *world, walkers int) *evacuation {
	e := &evacuation{world: w, walk: &walkWorld{}, told: map[string]int{}}
	e.a = e.serves("a", "1.0.0")
	e.c = w.start(zlnode.Config{RID: "c", Role: zlnode.RoleClient}, e.walk.preserving())
	w.linked(e.c, 1)
	for range walkers {
		e.refs = append(e.refs, w.createActorAt(e.c, "a", "walker"))
	}
	e.tellAll()
	return e
}

// serves starts an object server, which serves the channel, too.
func (e *evacuation) serves(rid, version string) *zlnode.Node {
	e.t.Helper()
	app := e.walk // one gate and one journal for all nodes
	gate, ended := app.gate, app.ended
	n := e.start(zlnode.Config{
		RID: rid, Role: zlnode.RoleServer, AppVersion: version, Channels: []zlnode.Channel{{Name: "work"}}, MessageFollowDuration: 20 * time.Second,
	}, e.app())
	if gate != nil {
		app.gate, app.ended = gate, ended
	}
	return n
}

// meet waits until the nodes are linked to a and c.
func (e *evacuation) meet(nodes ...*zlnode.Node) {
	e.t.Helper()
	e.linked(e.c, 1+len(nodes))
	e.linked(e.a, len(nodes))
}

// spotAt creates a User Spot at that node, and leaves none at others.
func (e *evacuation) spotAt(rid string) (ref zlnode.SpotRef) {
	e.t.Helper()
	for ref.RID != rid {
		r, err := e.c.CreateSpot(e.ctx, zlnode.CreateSpot{Type: "wide"})
		if err != nil {
			e.t.Fatal(err)
		}
		if ref = r.Ref; ref.RID == rid {
			break
		}
		if _, err := e.c.CloseSpot(e.ctx, ref); err != nil {
			e.t.Fatal(err)
		}
	}
	return ref
}

func (e *evacuation) tellAll() {
	e.t.Helper()
	for _, ref := range e.refs {
		e.told[ref.ID]++
		if err := zlnode.Send(e.ctx, e.c.Actor(ref.ID), "tell", fmt.Sprint("line ", e.told[ref.ID])); err != nil {
			e.t.Fatal(err)
		}
	}
}

// all asks each walker, which must have executed all that it was told, and returns how many are
// where.
func (e *evacuation) all() map[string]int {
	e.t.Helper()
	at := map[string]int{}
	for _, ref := range e.refs {
		e.told[ref.ID]++
		got, err := zlnode.Request[[]string](e.ctx, e.c.Actor(ref.ID), "ask", fmt.Sprint("line ", e.told[ref.ID]))
		if err != nil || len(got) != e.told[ref.ID] || got[len(got)-1] != fmt.Sprint("line ", e.told[ref.ID]) {
			e.t.Fatalf("%s has executed %q of %d lines: %v", ref.ID, got, e.told[ref.ID], err)
		}
		where, err := zlnode.Request[string](e.ctx, e.c.Actor(ref.ID), "where", struct{}{})
		if err != nil {
			e.t.Fatal(err)
		}
		rid, _, _ := strings.Cut(where, " ")
		at[rid]++
	}
	return at
}

type relocateEnd struct {
	zlnode.RelocateResult
	err error
}

// relocates has the node relocated beside the test.
func (e *evacuation) relocates(n *zlnode.Node, r zlnode.Relocate) <-chan relocateEnd {
	ended := make(chan relocateEnd, 1)
	go func() {
		res, err := n.Relocate(e.ctx, r)
		ended <- relocateEnd{res, err}
	}()
	return ended
}

func (e *evacuation) wants(got relocateEnd, reason zlnode.RelocateReason) {
	e.t.Helper()
	if got.err != nil || got.Reason != reason || (got.Outcome == zlnode.RelocateRelocated) != (reason == zlnode.ReasonNone) {
		e.t.Fatalf("the relocation ended %v %v %q, %v; want %v", got.Outcome, got.Reason, got.Text, got.err, reason)
	}
}

// A node that is relocated waits for a Join that came first, refuses one that comes later, and
// hands all its Actors over with what they were told, to several nodes; who asks for the same
// shares that. Behind it the node can be stopped.
//
// req: JN-13, S32
func TestANodeHandsItsActorsOver(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		e := newEvacuation(w, 12)
		b, d := e.serves("b", "1.0.0"), e.serves("d", "1.0.0")
		e.meet(b, d)
		spot := e.spotAt("b")
		e.walk.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) {
			e.walk.gate.pass()
			return zlnode.Accept(nil), nil
		}
		joins := func(ref zlnode.ActorRef) error {
			_, err := zlnode.Request[struct{}](e.ctx, e.c.Actor(ref.ID), "join", walkTo{Spot: spot.ID, Timeout: 20 * time.Second})
			return err
		}
		if err := joins(e.refs[0]); err != nil {
			t.Fatal(err)
		}
		receive(t, e.walk.gate.entered)

		maintenance := zlnode.Relocate{Timeout: 20 * time.Second}
		first := e.relocates(e.a, maintenance)
		e.eventually("it is announced", func() bool {
			return slices.ContainsFunc(e.c.Peers(), func(p zlnode.PeerStatus) bool { return p.RID == "a" && p.State == zlnode.PeerAdmitted })
		})
		if e.a.State() != zlnode.HostRelocating {
			t.Errorf("it is %v", e.a.State())
		}
		wantKind(t, joins(e.refs[1]), zlnode.Unavailable)
		second := e.relocates(e.a, zlnode.Relocate{Timeout: time.Nanosecond})
		e.wants(receive(t, e.relocates(e.a, zlnode.Relocate{Mode: zlnode.RollingUpdate, TargetVersion: "1.1.0"})), zlnode.ReasonOperationInProgress)
		gone, cancel := context.WithCancel(e.ctx)
		cancel()
		if _, err := e.a.Relocate(gone, maintenance); zlnode.KindOf(err) != zlnode.DeadlineExceeded {
			t.Errorf("a caller that gave up got %v", err)
		}
		if r, err := e.c.CreateActor(e.ctx, zlnode.CreateActor{ID: "new", Type: "walker"}); err != nil || r.Ref.RID == "a" {
			t.Errorf("an Actor was created at %q: %v", r.Ref.RID, err)
		}
		if p, ok := e.a.Relocation(); !ok || !p.Running || p.Result != nil || p.Units[0].Total != 0 {
			t.Errorf("it shows %+v", p)
		}

		e.walk.gate.open <- struct{}{}
		for _, ended := range []<-chan relocateEnd{first, second} {
			e.wants(receive(t, ended), zlnode.ReasonNone)
		}
		if done := receive(t, e.walk.ended); done.Outcome != zlnode.JoinAccepted || done.Ref.RID != "b" {
			t.Errorf("the join ended with %+v", done)
		}
		p, ok := e.a.Relocation()
		if want := (zlnode.UnitProgress{Kind: zlnode.UnitActor, Total: 11, Left: 11}); !ok || p.Units[0] != want || p.Running || p.SafeToShutdown || len(p.Blocked) != 0 {
			t.Errorf("it shows %+v", p)
		}
		e.tellAll()
		at := e.all()
		if at["a"] != 0 || at["b"] < 3 || at["d"] < 3 {
			t.Errorf("they are at %v", at)
		}
		e.eventually("the moves are over", func() bool {
			out, in := e.a.Stats().Moves, b.Stats().Moves.Kinds[zlnode.UnitActor].TargetResume.Count+d.Stats().Moves.Kinds[zlnode.UnitActor].TargetResume.Count
			return out.Kinds[0].SourceStop.Count == 1 && out.Kinds[zlnode.UnitActor].SourceStop.Count == 11 && out.Out == 12 && in == 11
		})
		e.eventually("the channel is served by others", func() bool {
			for range 4 {
				if who, err := zlnode.Request[string](e.ctx, e.c.Channel("work"), "who", struct{}{}); err != nil || who == "a" {
					return false
				}
			}
			return true
		})
		if s := e.a.Stats(); s.Actors != 0 || e.a.State() != zlnode.HostRelocated {
			t.Errorf("it is %v, with %d Actors", e.a.State(), s.Actors)
		}
		w.stop(e.a)
		if got := e.all(); fmt.Sprint(got) != fmt.Sprint(at) {
			t.Errorf("behind its end they are at %v", got)
		}
		(&joinWorld{world: w}).balanced()
	})
}

// Whatever keeps an object from leaving has the node serve again, and says why; a later call
// starts over. An update goes to nodes of its version, for which it waits.
//
// req: FO-14, S34
func TestANodeThatIsBlockedServesAgain(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		e := newEvacuation(w, 3)
		inTime := func(timeout time.Duration, reason zlnode.RelocateReason) {
			t.Helper()
			for ; ; timeout *= 2 { // until there was time to come to it
				got := receive(t, e.relocates(e.a, zlnode.Relocate{Timeout: timeout}))
				if got.Reason != zlnode.ReasonStoreUnavailable {
					e.wants(got, reason)
					return
				}
			}
		}
		inTime(20*time.Millisecond, zlnode.ReasonTargetUnavailable)

		b := e.serves("b", "1.0.0")
		e.meet(b)
		serves := func(after string) {
			t.Helper()
			if e.a.State() != zlnode.HostServing {
				t.Errorf("after %s it is %v", after, e.a.State())
			}
			e.eventually("others see that it serves", func() bool {
				return slices.ContainsFunc(b.Peers(), func(p zlnode.PeerStatus) bool { return p.RID == "a" && p.State == zlnode.PeerReady })
			})
			e.eventually("an Actor is created here again", func() bool {
				w.made++
				r, err := e.c.CreateActor(w.ctx, zlnode.CreateActor{ID: fmt.Sprint("walker-", w.made), Type: "walker"})
				if err != nil {
					t.Fatal(err)
				}
				if r.Ref.RID != "a" {
					return false
				}
				e.refs = append(e.refs, r.Ref)
				return true
			})
			e.all()
		}
		fixed := w.createActorAt(e.c, "a", "fixed")
		e.wants(receive(t, e.relocates(e.a, zlnode.Relocate{})), zlnode.ReasonRelocationDisabled)
		if p, _ := e.a.Relocation(); len(p.Blocked) != 1 || p.Blocked[0].ID != fixed.ID || p.Blocked[0].Reason != zlnode.ReasonRelocationDisabled {
			t.Errorf("it shows %+v", p)
		}
		serves("a policy")
		if _, err := e.c.DestroyActor(w.ctx, fixed); err != nil {
			t.Fatal(err)
		}

		e.walk.capture = func(*walker) ([]byte, error) { return nil, zlnode.Errorf(zlnode.InternalFailure, "not today") }
		e.wants(receive(t, e.relocates(e.a, zlnode.Relocate{})), zlnode.ReasonStateIncompatible)
		e.walk.capture = nil
		serves("a failing adapter")

		stopped := e.walk.gate.stop(t, w, e.c.Actor(e.refs[0].ID))
		inTime(200*time.Millisecond, zlnode.ReasonDeadlineExceeded)
		e.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		serves("its deadline")

		update := zlnode.Relocate{Mode: zlnode.RollingUpdate, TargetVersion: "1.1.0", Timeout: 20 * time.Second}
		ended := e.relocates(e.a, update)
		e.eventually("it looks for targets", func() bool { p, _ := e.a.Relocation(); return p.Running && p.TargetVersion == "1.1.0" })
		e.serves("new", "1.1.0")
		e.wants(receive(t, ended), zlnode.ReasonNone)
		if s := e.a.Stats(); s.Actors != 0 {
			t.Errorf("%d Actors are left", s.Actors)
		}
		if at := e.all(); at["a"] != 0 || at["new"] == 0 {
			t.Errorf("they are at %v", at)
		}
		(&joinWorld{world: w}).balanced()
	})
}

// Spots of all kinds leave with their members, which go where their Spots go.
//
// req: AG-01, PA-01, PA-03
func TestANodeHandsItsSpotsOver(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		e := newEvacuation(w, 5)
		spots := map[string]zlnode.SpotRef{}
		for i, kind := range []string{"wide", "single", "wide", "single"} {
			r, err := e.c.CreateSpot(w.ctx, zlnode.CreateSpot{Type: kind})
			if err != nil || r.Ref.RID != "a" {
				t.Fatal(r, err)
			}
			spots[e.refs[i].ID] = r.Ref
			if _, err := zlnode.Request[struct{}](w.ctx, e.c.Actor(e.refs[i].ID), "join", walkTo{Spot: r.Ref.ID}); err != nil {
				t.Fatal(err)
			}
			receive(t, e.walk.ended)
		}
		quest := e.c.Instance("quest-1", "quest")
		if got, err := zlnode.Request[int](w.ctx, quest, "count", 1); err != nil || got != 1 {
			t.Fatal(got, err)
		}
		e.meet(e.serves("b", "1.0.0"), e.serves("d", "1.0.0"))
		e.wants(receive(t, e.relocates(e.a, zlnode.Relocate{Timeout: 20 * time.Second})), zlnode.ReasonNone)
		p, _ := e.a.Relocation()
		want := []zlnode.UnitProgress{
			{Kind: zlnode.UnitActor, Total: 3, Left: 3}, {Kind: zlnode.UnitPerActorSpot, Total: 2, Left: 2},
			{Kind: zlnode.UnitSpotWideSpot, Total: 2, Left: 2}, {Kind: zlnode.UnitInstanceSpot, Total: 1, Left: 1},
		}
		if !slices.Equal(p.Units, want) {
			t.Errorf("it shows %+v", p.Units)
		}
		if at := e.all(); at["a"] != 0 {
			t.Errorf("they are at %v", at)
		}
		if got, err := zlnode.Request[int](w.ctx, quest, "count", 1); err != nil || got != 2 {
			t.Errorf("the instance spot has counted %d, %v", got, err)
		}
		for id, spot := range spots {
			where, err := zlnode.Request[string](w.ctx, e.c.Actor(id), "where", struct{}{})
			now, found, ferr := e.c.FindSpot(w.ctx, spot.ID)
			if err != nil || ferr != nil || !found || now.RID == "a" || now.ObjectGen != spot.ObjectGen || where != now.RID+" "+spot.ID {
				t.Errorf("%s is at %q, its spot at %+v: %v, %v", id, where, now, err, ferr)
			}
		}
		w.stop(e.a)
		e.all()
		(&joinWorld{world: w}).balanced()
	})
}
