package zlnode_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
)

// faultyApp has an Actor type whose requests fail as their names say.
func faultyApp() *zlnode.App {
	app := zlnode.NewApp()
	f := zlnode.DefineActor(app, "faulty", func(*zlnode.ActorContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.DisableRelocation)
	fails := func(name string, with error) {
		zlnode.OnRequest(f, name, func(*zlnode.ActorCall, *struct{}, int) (int, error) { return 0, with })
	}
	fails("its own", zlnode.Errorf(zlnode.InvalidOperation, "not on a Monday"))
	fails("another's", zlnode.Unavailable)
	zlnode.OnRequest(f, "panic", func(*zlnode.ActorCall, *struct{}, int) (int, error) { panic("boom") })
	zlnode.OnRequest(f, "exit", func(*zlnode.ActorCall, *struct{}, int) (int, error) { runtime.Goexit(); return 0, nil })
	zlnode.OnRequest(f, "encode", func(*zlnode.ActorCall, *struct{}, int) (any, error) { return make(chan int), nil })
	zlnode.OnRequestRaw(f, "long", func(*zlnode.ActorCall, *struct{}, []byte) ([]byte, error) { return make([]byte, 1<<20+1), nil })
	zlnode.OnRequest(f, "push", func(c *zlnode.ActorCall, _ *struct{}, _ int) (int, error) { return 0, c.Push("to nobody", 1) })
	zlnode.OnRequest(f, "decode", func(*zlnode.ActorCall, *struct{}, int) (int, error) { return 0, nil })
	return app
}

// The node of a handler says what is wrong with it, or with who asked, as a client hears the
// kind alone. What the handler wanted to say, or what passes, is nobody's fault.
func TestADefectOfARequestIsLoggedWhereItsHandlerIs(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		var log logLines
		a := w.tuned(zlnode.Config{RID: "a", Role: zlnode.RoleServer}, faultyApp(), log.logged(zerolog.WarnLevel))
		c := w.client("c", 1, zlnode.NewApp())
		if _, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "faulty"}); err != nil {
			t.Fatal(err)
		}
		var defects uint64
		for _, f := range []struct {
			packet string
			kind   zlnode.Kind
			defect bool
		}{
			{"its own", zlnode.InvalidOperation, false},
			{"another's", zlnode.Unavailable, false},
			{"panic", zlnode.InternalFailure, true},
			{"exit", zlnode.InternalFailure, true},
			{"encode", zlnode.InvalidOperation, true},
			{"decode", zlnode.ProtocolError, true},
			{"long", zlnode.CapacityExceeded, true},
			{"push", zlnode.InvalidOperation, true},
			{"nobody handles it", zlnode.NotFound, true},
		} {
			var asks any = 1
			if f.packet == "decode" {
				asks = "no number"
			}
			_, err := zlnode.Request[any](w.ctx, c.Actor("x"), f.packet, asks)
			wantKind(t, err, f.kind)
			if f.defect {
				defects++
			}
			said := slices.DeleteFunc(log.saying("a request failed by its handler, or by who asked"), func(l logLine) bool { return l.Packet != f.packet })
			if f.defect != (len(said) == 1 && said[0].Error != "") || !f.defect && len(said) != 0 {
				t.Errorf("of %q the log says %+v", f.packet, said)
			}
			if n := a.Stats().FailedRequests; n != defects {
				t.Errorf("after %q %d failed requests are counted, want %d", f.packet, n, defects)
			}
		}
	})
}
