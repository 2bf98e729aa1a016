package zlnode_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/store"
)

// defineRooms adds types of Spots without handlers.
func defineRooms(app *zlnode.App) *zlnode.App {
	empty := func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil }
	zlnode.DefineUserSpot(app, "room", empty, zlnode.SpotWide, zlnode.DisableRelocation, zlnode.MaxPerNode(7))
	zlnode.DefineUserSpot(app, "hall", empty, zlnode.PerActor, zlnode.RecreateOnRelocation)
	zlnode.DefineInstanceSpot(app, "quest", empty, zlnode.DisableRelocation, zlnode.MaxPerNode(math.MaxInt32))
	return app
}

// req: CR-03
func TestANodePublishesWhatSpotsItTakes(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, MaxSpots: 9, MaintenanceWave: "rack-1"}, defineRooms(counterApp()))
		list, err := w.location().ListNodes(w.ctx, 0)
		if err != nil || len(list.Nodes) != 1 {
			t.Fatalf("%+v %v", list, err)
		}
		d := list.Nodes[0]
		want := []store.SpotType{
			{Type: "hall", Kind: store.UserSpot, Policy: uint8(node.Recreate)},
			{Type: "quest", Kind: store.InstanceSpot, Max: math.MaxInt32, Policy: uint8(node.Disable)},
			{Type: "room", Kind: store.UserSpot, Max: 7, Wide: true, Policy: uint8(node.Disable)},
		}
		if d.MaxSpots != 9 || !slices.Equal(d.SpotTypes, want) {
			t.Errorf("published %d, %+v, want 9, %+v", d.MaxSpots, d.SpotTypes, want)
		}
		if policies := map[string]uint8{"counter": uint8(node.Disable)}; !maps.Equal(d.ActorPolicies, policies) || d.Wave != "rack-1" {
			t.Errorf("published %v and wave %q, want %v", d.ActorPolicies, d.Wave, policies)
		}
	})
}

func TestALimitOfSpotsThatIsNoneFailsTheStart(t *testing.T) {
	for _, spots := range []int{-1, math.MaxInt32 + 1} {
		app := zlnode.NewApp()
		zlnode.DefineUserSpot(app, "room", func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil },
			zlnode.SpotWide, zlnode.DisableRelocation, zlnode.MaxPerNode(spots))
		_, err := zlnode.Start(t.Context(), zlnode.Config{}, app)
		wantKind(t, err, zlnode.InvalidOperation)
		_, err = zlnode.Start(t.Context(), zlnode.Config{MaxSpots: spots}, zlnode.NewApp())
		wantKind(t, err, zlnode.InvalidOperation)
	}
}

// wrongSpot has callbacks that nobody would call.
type wrongSpot struct{}

func (*wrongSpot) OnCreate(*zlnode.SpotCall) error          { return nil }
func (*wrongSpot) OnClosing(*zlnode.SpotCall, string) error { return nil }
func (*wrongSpot) OnInitialize(*zlnode.SpotCall) error      { return nil }

func TestCallbacksOfAnotherSignatureAreMistakesOfTheRegistration(t *testing.T) {
	app := zlnode.NewApp()
	zlnode.DefineUserSpot(app, "wrong", func(*zlnode.SpotContext) (*wrongSpot, error) { return &wrongSpot{}, nil }, zlnode.PerActor, zlnode.RecreateOnRelocation)
	_, err := zlnode.Start(t.Context(), zlnode.Config{RID: "a"}, app)
	wantKind(t, err, zlnode.InvalidOperation)
	for name, wanted := range map[string]string{
		"OnCreate": "OnCreate(*zlnode.CreateSpotCall) (zlnode.Admission, error)", "OnClosing": "OnClosing(*zlnode.SpotCall, zlnode.ClosingReason) error",
		"OnInitialize": "", "Configure": "",
	} {
		told := strings.Contains(err.Error(), "its method "+name+"(")
		if told != (wanted != "") || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s is told: %v, and what is wanted, %q, is to be: %v", name, told, wanted, err)
		}
	}
}

// A factory that returns nothing makes no object.
func TestAFactoryWithoutAValueFails(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		app := zlnode.NewApp()
		zlnode.DefineActor(app, "empty", func(*zlnode.ActorContext) (*struct{}, error) { return nil, nil }, zlnode.DisableRelocation)
		zlnode.DefineUserSpot(app, "bare", func(*zlnode.SpotContext) (*struct{}, error) { return nil, nil }, zlnode.PerActor, zlnode.RecreateOnRelocation)
		n := w.server("s", app)
		_, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "a", Type: "empty"})
		wantKind(t, err, zlnode.InternalFailure)
		_, err = n.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "b", Type: "bare"})
		wantKind(t, err, zlnode.InternalFailure)
		if st := n.Stats(); st.FailedCallbacks != 2 {
			t.Errorf("%d failures are counted, want 2", st.FailedCallbacks)
		}
	})
}
