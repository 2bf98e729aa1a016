package zlnode_test

import (
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/hook"
)

// counterState carries a counter.
type counterState struct{ state []byte }

func (s counterState) Capture(*counter) ([]byte, error) { return s.state, nil }
func (s counterState) Restore(c *counter, state []byte) error {
	c.total = len(state)
	return nil
}

// req: PO-01, PO-06
func TestEachTypeHasOneRelocationPolicy(t *testing.T) {
	actor := func(*zlnode.ActorContext) (*counter, error) { return &counter{}, nil }
	spot := func(*zlnode.SpotContext) (*counter, error) { return &counter{}, nil }
	other := func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil }
	preserve := zlnode.PreserveStateWith(counterState{})
	for what, c := range map[string]struct {
		define func(app *zlnode.App)
		wrong  string
	}{
		"none of an Actor": {func(app *zlnode.App) { zlnode.DefineActor(app, "x", actor, zlnode.RelocationPolicy{}) }, "no relocation policy"},
		"none of a User Spot": {func(app *zlnode.App) {
			zlnode.DefineUserSpot(app, "x", spot, zlnode.SpotWide, zlnode.RelocationPolicy{})
		}, "no relocation policy"},
		"none of an Instance Spot": {func(app *zlnode.App) { zlnode.DefineInstanceSpot(app, "x", spot, zlnode.RelocationPolicy{}) }, "no relocation policy"},
		"no adapter": {func(app *zlnode.App) {
			zlnode.DefineActor(app, "x", actor, zlnode.PreserveStateWith[counter](nil))
		}, "PreserveStateWith got no adapter"},
		"another's adapter":    {func(app *zlnode.App) { zlnode.DefineInstanceSpot(app, "x", other, preserve) }, "adapter"},
		"a shell with a state": {func(app *zlnode.App) { zlnode.DefineUserSpot(app, "x", spot, zlnode.PerActor, preserve) }, "RecreateOnRelocation"},
		"a shell that stays": {func(app *zlnode.App) {
			zlnode.DefineUserSpot(app, "x", spot, zlnode.PerActor, zlnode.DisableRelocation)
		}, "RecreateOnRelocation"},
		"a shell": {func(app *zlnode.App) {
			zlnode.DefineUserSpot(app, "x", spot, zlnode.PerActor, zlnode.RecreateOnRelocation)
		}, ""},
		"Recreate of an Actor":   {func(app *zlnode.App) { zlnode.DefineActor(app, "x", actor, zlnode.RecreateOnRelocation) }, ""},
		"an Actor's adapter":     {func(app *zlnode.App) { zlnode.DefineActor(app, "x", actor, preserve) }, ""},
		"a Spot's adapter":       {func(app *zlnode.App) { zlnode.DefineUserSpot(app, "x", spot, zlnode.SpotWide, preserve) }, ""},
		"Disable of an Instance": {func(app *zlnode.App) { zlnode.DefineInstanceSpot(app, "x", spot, zlnode.DisableRelocation) }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			app := zlnode.NewApp()
			c.define(app)
			n, err := zlnode.Start(t.Context(), zlnode.Config{}, app)
			if err == nil {
				err = n.Shutdown(t.Context())
			}
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("the start says %v, want %q", err, c.wrong)
			}
		})
	}
}

// What an adapter captures is what is restored; nothing at all is a mistake, and no state is
// none.
// req: PO-04
func TestAnAdapterGivesAStateOfAnySizeButNone(t *testing.T) {
	for what, state := range map[string][]byte{"none": nil, "empty": {}, "some": {1, 2, 3}} {
		app := zlnode.NewApp()
		zlnode.DefineActor(app, "x", func(*zlnode.ActorContext) (*counter, error) { return &counter{}, nil }, zlnode.PreserveStateWith(counterState{state}))
		typ := hook.App(app).Actors["x"]
		got, err := typ.Capture(&counter{})
		if (err != nil) != (state == nil) || string(got) != string(state) {
			t.Errorf("%s: captured %v, %v", what, got, err)
		}
		restored := &counter{total: 9}
		if err := typ.Restore(restored, got); err != nil || restored.total != len(state) {
			t.Errorf("%s: restored %d, %v", what, restored.total, err)
		}
	}
}

// strangeSpot and strangeActor have callbacks that nobody calls.
type (
	strangeSpot  struct{}
	strangeActor struct{}
	wrongActor   struct{}
)

func (*strangeSpot) OnActorJoin(*zlnode.JoinSpotCall) (zlnode.Admission, error) {
	return zlnode.Admission{}, nil
}
func (*strangeSpot) OnJoinedActor(*zlnode.SpotCall, zlnode.ActorRef) error    { return nil }
func (*strangeSpot) OnJoinCompleted(*zlnode.ActorCall, zlnode.JoinDone) error { return nil }
func (*strangeActor) OnLeaveActor(*zlnode.SpotCall, zlnode.ActorRef) error    { return nil }
func (*wrongActor) OnJoinCompleted(*zlnode.ActorCall) error                   { return nil }

func TestCallbacksOfJoinsThatNobodyCallsAreMistakesOfTheRegistration(t *testing.T) {
	app := zlnode.NewApp()
	strange := func(*zlnode.SpotContext) (*strangeSpot, error) { return &strangeSpot{}, nil }
	zlnode.DefineEntrySpot(app, strange)
	zlnode.DefineUserSpot(app, "user", strange, zlnode.SpotWide, zlnode.DisableRelocation)
	zlnode.DefineInstanceSpot(app, "instance", strange, zlnode.DisableRelocation)
	zlnode.DefineActor(app, "actor", func(*zlnode.ActorContext) (*strangeActor, error) { return nil, nil }, zlnode.DisableRelocation)
	zlnode.DefineActor(app, "wrong", func(*zlnode.ActorContext) (*wrongActor, error) { return nil, nil }, zlnode.DisableRelocation)
	_, err := zlnode.Start(t.Context(), zlnode.Config{}, app)
	wantKind(t, err, zlnode.InvalidOperation)
	for mistake, told := range map[string]bool{
		`"entry": nobody asks the OnActorJoin`:                                        true,
		`"instance": nobody asks the OnActorJoin`:                                     true,
		`"instance": an Instance Spot has no member`:                                  true,
		`"user": OnJoinCompleted`:                                                     true,
		`"actor": OnActorJoin, OnJoinedActor and`:                                     true,
		`"wrong": its method OnJoinCompleted(*zlnode.ActorCall) error is no callback`: true,
		`want OnJoinCompleted(*zlnode.ActorCall, zlnode.JoinDone) error`:              true,
		`"user": nobody asks`:                                                         false,
		`"entry": an Instance Spot`:                                                   false,
	} {
		if strings.Contains(err.Error(), mistake) != told {
			t.Errorf("it tells of %s: %v:\n%v", mistake, !told, err)
		}
	}
}
