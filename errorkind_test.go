package zlnode_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/internal/errkind"
)

// req: FO-04
func TestEachKindReachesItsCallerAsItIs(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		f := newFort(w)
		for k := range errkind.Count {
			for _, c := range []struct{ id, packet string }{
				{"near", "fail"}, {"far", "fail"}, {"near", "wrapped"}, {"far", "wrapped"}, {"near", "by far"},
			} {
				_, err := zlnode.Request[string](f.ctx, f.a.Actor(c.id), c.packet, k)
				var e *zlnode.Error
				if !errors.As(err, &e) || e.Kind != zlnode.Kind(k) || zlnode.KindOf(err) != zlnode.Kind(k) || !errors.Is(err, zlnode.Kind(k)) ||
					!strings.Contains(e.Error(), textAsked(k)) {
					t.Errorf("%s of %s with kind %d: %v", c.packet, c.id, k, err)
				}
			}
		}
	})
}

// req: FO-04
func TestEachKindReachesAClientAsItsCode(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		f := newFort(w)
		app := zlnode.NewApp()
		s := zlnode.DefineSession(app, "player", func(*zlnode.SessionContext) (*struct{}, error) { return &struct{}{}, nil })
		zlnode.OnPacketRequest(s, "bind", func(c *zlnode.SessionCall, _ *struct{}, id string) (string, error) {
			ref, _, err := c.Node().FindActor(c, id)
			return "", errors.Join(err, c.Bind(ref))
		})
		zlnode.OnPacketRequest(s, "fail here", func(_ *zlnode.SessionCall, _ *struct{}, kind int) (string, error) { return "", errorAsked(kind) })
		zlnode.Relay(s, "fail", "far")
		gateway := f.start(zlnode.Config{RID: "g", Role: zlnode.RoleClient, Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player"}}}, app)
		f.linked(gateway, 2)
		c, err := client.Dial(f.ctx, client.Options{Addr: gateway.SessionAddrs()[0].String()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.RequestJSON(f.ctx, "bind", "far", new(string)); err != nil {
			t.Fatal(err)
		}
		for k := range errkind.Count {
			for _, packet := range []string{"fail here", "fail"} {
				err := c.RequestJSON(f.ctx, packet, k, new(string))
				if want := zlnode.Kind(k); !errors.Is(err, want) || !strings.Contains(err.Error(), textAsked(k)) {
					t.Errorf("%s with kind %v: %v", packet, want, err)
				}
			}
		}
	})
}

// Whoever wants to say more in an error than what happened changes this list.
// req: FO-04
func TestAnErrorHasNoRoomForAdviceToRetry(t *testing.T) {
	var fields, methods []string
	e := reflect.TypeFor[zlnode.Error]()
	for i := range e.NumField() {
		if f := e.Field(i); f.IsExported() {
			fields = append(fields, f.Name)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[*zlnode.Error](), reflect.TypeFor[zlnode.Kind]()} {
		for i := range of.NumMethod() {
			methods = append(methods, of.Method(i).Name)
		}
	}
	if want := []string{"Kind", "Op", "Object", "Text", "Err"}; !slices.Equal(fields, want) {
		t.Errorf("an error has %v, want %v", fields, want)
	}
	if want := []string{"Error", "Is", "Unwrap", "Code", "Error", "String", "Valid"}; !slices.Equal(methods, want) {
		t.Errorf("an error and its kind have the methods %v, want %v", methods, want)
	}
}
