//go:build !race && !invariants

// Builds with the tag invariants decode each record that they encode, which allocates.

package zlnode_test

import (
	"fmt"
	"io"
	"math"
	"net"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

// Raw paths allocate nothing per message. The nodes' own background work (lease,
// node list) is far below one allocation per message and is rounded away.
func TestRawPathsAllocateNothing(t *testing.T) {
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	w := newWorld(t, e.URL())
	app := func() *zlnode.App {
		app := zlnode.NewApp()
		r := zlnode.DefineActor(app, "raw", func(*zlnode.ActorContext) (*recorder, error) { return &recorder{}, nil }, zlnode.DisableRelocation)
		zlnode.OnSendRaw(r, "drop", func(*zlnode.ActorCall, *recorder, []byte) error { return nil })
		zlnode.OnRequestRaw(r, "echo", func(_ *zlnode.ActorCall, _ *recorder, payload []byte) ([]byte, error) { return payload, nil })
		zlnode.OnRequestRaw(r, "push", func(c *zlnode.ActorCall, _ *recorder, payload []byte) ([]byte, error) {
			return nil, c.PushRaw("pushed", payload)
		})
		zlnode.OnNodeRequestRaw(app, "echo", func(_ *zlnode.NodeCall, payload []byte) ([]byte, error) { return payload, nil })
		work := zlnode.DefineChannel(app, "work", zlnode.HandlerOptions{})
		zlnode.OnChannelRequestRaw(work, "echo", func(_ *zlnode.NodeCall, payload []byte) ([]byte, error) { return payload, nil })
		zlnode.OnChannelSendRaw(work, "drop", func(*zlnode.NodeCall, []byte) error { return nil })
		s := zlnode.DefineSession(app, "client", func(*zlnode.SessionContext) (*recorder, error) { return &recorder{}, nil })
		zlnode.OnPacketRequest(s, "login", func(c *zlnode.SessionCall, _ *recorder, id string) (bool, error) {
			ref, _, err := c.Node().FindActor(c, id)
			if err != nil {
				return false, err
			}
			return true, c.Bind(ref)
		})
		zlnode.Relay(s, "echo", "raw")
		zlnode.Relay(s, "push", "raw")
		return app
	}
	port := []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "client"}}
	server := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, Sessions: port, Channels: []zlnode.Channel{{Name: "work"}}}, app())
	other := w.start(zlnode.Config{RID: "b", Role: zlnode.RoleClient, Sessions: port}, app())
	w.linked(other, 1)
	if _, err := server.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "raw"}); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, 64)
	check := func(name string, f func() error) {
		t.Helper()
		// What the nodes do beside, such as renewing leases in the embedded Store, is
		// counted too; a message's own allocation would be in every try.
		n := math.Inf(1)
		for try := 0; try < 5 && n != 0; try++ {
			n = min(n, testing.AllocsPerRun(1000, func() {
				if err := f(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}))
		}
		if n != 0 {
			t.Errorf("%s: %v allocations per message", name, n)
		}
	}
	read := make(chan struct{}, 1)
	for range 2 { // who share what is published
		if _, err := server.Topic("t").SubscribeRaw("note", func(*zlnode.TopicCall, []byte) error {
			read <- struct{}{}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("the other node knows", func() bool { return other.Stats().TopicsElsewhere == 1 })
	if err := other.WaitChannel(w.ctx, "work", 1); err != nil {
		t.Fatal(err)
	}
	work, itself := other.Channel("work"), other.Peer("b")
	echo := func(to zlnode.Addr) func() error {
		return func() error {
			r, err := to.RequestRaw(w.ctx, "echo", payload)
			if err == nil {
				r.Release()
			}
			return err
		}
	}
	check("request to a node", echo(other.Peer("a")))
	check("request to the node itself", echo(itself))
	pace := echo(work)
	check("request to a channel", pace)
	check("send to a channel", func() error {
		if err := work.SendRaw(w.ctx, "drop", payload); err != nil {
			return err
		}
		return pace() // the sends
	})
	for _, n := range []*zlnode.Node{server, other} {
		where := map[*zlnode.Node]string{server: "here", other: "there"}[n]
		x := n.Actor("x")
		check("request "+where, func() error {
			r, err := x.RequestRaw(w.ctx, "echo", payload)
			if err == nil {
				r.Release()
			}
			return err
		})
		check("send "+where, func() error {
			if err := x.SendRaw(w.ctx, "drop", payload); err != nil {
				return err
			}
			r, err := x.RequestRaw(w.ctx, "echo", payload) // paces the sends
			if err == nil {
				r.Release()
			}
			return err
		})
		for _, size := range []int{64, 1024} {
			topic, content := n.Topic("t"), make([]byte, size)
			check(fmt.Sprintf("%d bytes published %s", size, where), func() error {
				_, err := topic.PublishRaw(w.ctx, "note", content)
				<-read
				<-read
				return err
			})
		}
		c, err := net.Dial("tcp", n.SessionAddrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		in := make([]byte, 4096)
		call := func(name string, codec session.Codec, payload []byte, answers int) func() error {
			frame, err := session.Append(nil, &session.Packet{Kind: session.KindRequest, Codec: codec, Seq: 1, Name: []byte(name), Payload: payload})
			if err != nil {
				t.Fatal(err)
			}
			return func() error {
				if _, err := c.Write(frame); err != nil {
					return err
				}
				for answer := 0; answer < answers; {
					if _, err := io.ReadFull(c, in[:session.PrefixSize]); err != nil {
						return err
					}
					size, err := session.FrameSize(in[:session.PrefixSize], len(in))
					if err != nil {
						return err
					}
					if _, err := io.ReadFull(c, in[session.PrefixSize:size]); err != nil {
						return err
					}
					if in[session.PrefixSize+1] != byte(session.KindControl) {
						answer++
					}
				}
				return nil
			}
		}
		if err := call("login", session.CodecJSON, []byte(`"x"`), 1)(); err != nil {
			t.Fatal(err)
		}
		check("client's request to an actor "+where, call("echo", session.CodecRaw, payload, 1))
		check("push from an actor "+where, call("push", session.CodecRaw, payload, 2))
	}
}
