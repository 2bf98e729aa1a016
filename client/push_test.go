package client_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

func TestPushesArriveInOrderWithAllTheirParts(t *testing.T) {
	meta, err := session.NewMetadata(map[string]string{"trace": "abc"})
	if err != nil {
		t.Fatal(err)
	}
	const count = 1000
	s := newServer(t, func(p *peer) {
		for i := range count {
			frame := encode(&session.Packet{
				Kind: session.KindSend, Codec: session.CodecMessagePack, Name: fmt.Append(nil, "push-", i%200),
				Meta: meta, Correlation: []byte("c"), Payload: fmt.Append(nil, i),
			})
			if p.write(frame) != nil {
				return
			}
		}
		silent(p)
	})
	got := make(chan *client.Message, count)
	s.dial(t, client.Options{OnPush: func(m *client.Message) { got <- m.Clone() }})
	for i := range count {
		m := <-got
		value, _ := m.Metadata.Lookup("trace")
		if m.Name != fmt.Sprint("push-", i%200) || string(m.Payload) != fmt.Sprint(i) || m.Codec != session.CodecMessagePack ||
			string(value) != "abc" || string(m.Correlation) != "c" {
			t.Fatalf("push %d is %+v", i, m)
		}
	}
}

// The same frames, split and joined in every way that a network may, give the
// same messages.
func TestHoweverTheStreamIsSplitTheSameMessagesArrive(t *testing.T) {
	var frames [][]byte
	for i := range 40 {
		frames = append(frames, push(fmt.Sprint("n", i), string(bytes.Repeat([]byte{'a' + byte(i%26)}, i*i*i))))
	}
	stream := bytes.Join(append(frames, session.PingFrame(), push("end", "")), nil)
	for name, cuts := range map[string][]int{
		"at once":              {len(stream)},
		"byte by byte":         {1},
		"two prefixes cut":     {5, 1, 3},
		"pieces of 1 to 9000":  {1, 9000, 77, 4096, 300},
		"a buffer's size each": {4 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(p *peer) {
				rest := stream
				for i := 0; len(rest) > 0; i++ {
					n := min(cuts[i%len(cuts)], len(rest))
					// Byte by byte is only worth the time for the first frames.
					if name == "byte by byte" && i > 4000 {
						n = len(rest)
					}
					if p.write(rest[:n]) != nil {
						return
					}
					rest = rest[n:]
				}
				silent(p)
			})
			got := make(chan *client.Message, len(frames)+1)
			s.dial(t, client.Options{OnPush: func(m *client.Message) { got <- m.Clone() }})
			for i := range frames {
				if m := <-got; m.Name != fmt.Sprint("n", i) || len(m.Payload) != i*i*i {
					t.Fatalf("message %d is %q with %d bytes", i, m.Name, len(m.Payload))
				}
			}
			if m := <-got; m.Name != "end" {
				t.Errorf("the last message is %q", m.Name)
			}
		})
	}
}

func TestACallbackMayRequestByFunctionAndSend(t *testing.T) {
	s := newServer(t, func(p *peer) {
		if p.write(push("start", "")) == nil {
			echo(p)
		}
	})
	var c *client.Client
	ready, done := make(chan struct{}), make(chan string, 1)
	c = s.dial(t, client.Options{OnPush: func(*client.Message) {
		<-ready
		if err := c.Send(t.Context(), "note", nil); err != nil {
			t.Error(err)
		}
		if err := c.RequestFunc(client.Call{Name: "echo", Payload: []byte("from a push")}, func(m *client.Message, err error) {
			if err != nil {
				t.Error(err)
				return
			}
			done <- string(m.Payload)
		}); err != nil {
			t.Error(err)
		}
	}})
	close(ready)
	if got := <-done; got != "from a push" {
		t.Errorf("reply %q", got)
	}
}
