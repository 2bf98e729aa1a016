package zlnode_test

import (
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

// Metadata reaches the handler of an object of the same node and of another one, and not
// its reply.
func TestMetadataTravelsWithMessages(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		type mirror struct{ last string }
		app := zlnode.NewApp()
		typ := zlnode.DefineActor(app, "mirror", func(*zlnode.ActorContext) (*mirror, error) { return &mirror{}, nil }, zlnode.DisableRelocation)
		read := func(c *zlnode.ActorCall) string {
			v, _ := c.Metadata().Lookup("trace")
			return string(v)
		}
		zlnode.OnSend(typ, "note", func(c *zlnode.ActorCall, m *mirror, text string) error {
			m.last = text + read(c)
			return nil
		})
		zlnode.OnRequestRaw(typ, "read", func(c *zlnode.ActorCall, m *mirror, payload []byte) ([]byte, error) {
			return append(payload, m.last+" "+read(c)...), nil
		})
		server := w.server("s", app)
		client := w.client("c", 1, zlnode.NewApp())
		if _, err := client.CreateActor(w.ctx, zlnode.CreateActor{ID: "m", Type: "mirror"}); err != nil {
			t.Fatal(err)
		}
		meta := func(value string) session.Metadata {
			b, err := session.NewMetadata(map[string]string{"trace": value, "other": "x"})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		for _, n := range []*zlnode.Node{server, client} {
			for _, long := range []int{1, 60, 900} { // beside the payload within a queue's place, and not
				value := strings.Repeat("v", long)
				to := n.Actor("m").With(meta(value))
				if err := zlnode.Send(w.ctx, to, "note", "a"); err != nil {
					t.Fatal(err)
				}
				r, err := to.RequestRaw(w.ctx, "read", []byte("p:"))
				if err != nil {
					t.Fatal(err)
				}
				if got, want := string(r.Payload()), "p:a"+value+" "+value; got != want {
					t.Errorf("from %s: %.80q, want %.80q", n.RID(), got, want)
				}
				r.Release()
			}
			r, err := n.Actor("m").RequestRaw(w.ctx, "read", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.Payload()); !strings.HasSuffix(got, " ") {
				t.Errorf("metadata of an earlier message: %.80q", got)
			}
			r.Release()
			for what, bad := range map[string]session.Metadata{
				"malformed": {2, 1, 'k', 0, 0}, "empty": {}, "too long": tooMuch(),
			} {
				if err := n.Actor("m").With(bad).SendRaw(w.ctx, "note", nil); err == nil {
					t.Errorf("%s metadata was sent", what)
				} else {
					wantKind(t, err, zlnode.InvalidOperation)
				}
			}
		}
	})
}

// tooMuch is metadata of more than 1,024 bytes, as a client of another make may send it.
func tooMuch() session.Metadata {
	block := session.Metadata{2}
	for _, key := range []byte("ab") {
		block = append(block, 1, key, 2, 88) // 600 bytes
		block = append(block, make([]byte, 600)...)
	}
	return block
}
