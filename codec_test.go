package zlnode_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zlnode/zlnode"
)

type item struct {
	ID    int64  `json:"id"`
	Bytes []byte `json:"bytes"`
}

// codecApp's Actors answer with what they are asked, and say in which codec it came.
func codecApp() *zlnode.App {
	app := zlnode.NewApp()
	e := zlnode.DefineActor(app, "echo", func(*zlnode.ActorContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.DisableRelocation)
	zlnode.OnRequest(e, "item", func(_ *zlnode.ActorCall, _ *struct{}, q item) (item, error) { return q, nil })
	zlnode.OnRequest(e, "proto", func(_ *zlnode.ActorCall, _ *struct{}, q *wrapperspb.Int64Value) (*wrapperspb.Int64Value, error) {
		return wrapperspb.Int64(q.GetValue() + 1), nil
	})
	zlnode.OnRequest(e, "bytes", func(_ *zlnode.ActorCall, _ *struct{}, q []byte) ([]byte, error) { return append(q, '!'), nil })
	zlnode.OnRequest(e, "codec", func(c *zlnode.ActorCall, _ *struct{}, _ item) (string, error) { return c.Codec().String(), nil })
	return app
}

func TestTypedMessagesInEveryCodec(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		n := w.server("server", codecApp())
		if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "e", Type: "echo"}); err != nil {
			t.Fatal(err)
		}
		e := n.Actor("e")
		for _, c := range []zlnode.Codec{zlnode.JSON, zlnode.MessagePack} {
			want := item{1 << 60, []byte{0, 255}}
			got, err := zlnode.Request[item](w.ctx, e.As(c), "item", want)
			if err != nil || got.ID != want.ID || string(got.Bytes) != string(want.Bytes) {
				t.Errorf("%v: got %+v, %v", c, got, err)
			}
			name, err := zlnode.Request[string](w.ctx, e.As(c), "codec", item{})
			if err != nil || name != c.String() {
				t.Errorf("%v: the handler saw %q, %v", c, name, err)
			}
		}
		for _, c := range []zlnode.Codec{zlnode.JSON, zlnode.Protobuf} {
			got, err := zlnode.Request[*wrapperspb.Int64Value](w.ctx, e.As(c), "proto", wrapperspb.Int64(1<<60))
			if err != nil || got.GetValue() != 1<<60+1 {
				t.Errorf("%v: got %v, %v", c, got, err)
			}
		}
		got, err := zlnode.Request[[]byte](w.ctx, e.As(zlnode.Raw), "bytes", []byte("raw"))
		if err != nil || string(got) != "raw!" {
			t.Errorf("raw: got %q, %v", got, err)
		}
	})
}

func TestJSONOnTheWireIsThatOfOtherLanguages(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		n := w.server("server", codecApp())
		if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "e", Type: "echo"}); err != nil {
			t.Fatal(err)
		}
		got, err := zlnode.Request[map[string]any](w.ctx, n.Actor("e"), "item", map[string]any{"id": "1152921504606846976", "bytes": "AP8="})
		if err != nil || got["id"] != "1152921504606846976" || got["bytes"] != "AP8=" {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestACodecThatDoesNotFitIsAnError(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		n := w.server("server", codecApp())
		if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "e", Type: "echo"}); err != nil {
			t.Fatal(err)
		}
		_, err := zlnode.Request[item](w.ctx, n.Actor("e").As(zlnode.Protobuf), "item", item{})
		wantKind(t, err, zlnode.InvalidOperation) // before anything is sent
		_, err = zlnode.Request[*wrapperspb.Int64Value](w.ctx, n.Actor("e").As(zlnode.Protobuf), "item", wrapperspb.Int64(1))
		wantKind(t, err, zlnode.ProtocolError) // the handler's type is none of Protobuf's
		_, err = zlnode.Request[item](w.ctx, n.Actor("e"), "item", "text")
		wantKind(t, err, zlnode.ProtocolError)
	})
}
