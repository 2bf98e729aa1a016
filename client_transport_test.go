package zlnode_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// Whatever carries the frames, the same comes out.
func TestClientsOfEveryTransportAreServedAlike(t *testing.T) {
	serverTLS, clientTLS := certificate()
	for _, transport := range transports {
		t.Run(transport.String(), func(t *testing.T) {
			onEachStageWith(t, func(c *zlnode.Config) {
				c.Sessions[0].Transport, c.Sessions[0].CompressMin = transport, 10_000
				if transport.Encrypted() {
					c.Sessions[0].TLS = serverTLS
				}
			}, func(t *testing.T, s *stage) {
				pushes := make(chan *client.Message, 1000)
				lost := make(chan error, 1)
				o := client.Options{
					Addr: transport.String() + "://" + s.gateway.SessionAddrs()[0].String(), CompressMin: 10_000,
					OnPush:  func(m *client.Message) { pushes <- m.Clone() },
					OnState: func(_ client.State, err error) { lost <- err },
				}
				if transport.Encrypted() {
					o.TLS = clientTLS
				}
				c, err := client.Dial(s.ctx, o)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.RequestJSON(s.ctx, "login", login{ID: "a"}, nil); err != nil {
					t.Fatal(err)
				}

				var wg sync.WaitGroup
				atOnce := make(chan struct{}, 10) // as much as the client's out queue here and there holds
				for i := range 200 {
					atOnce <- struct{}{}
					wg.Go(func() {
						defer func() { <-atOnce }()
						payload := bytes.Repeat(fmt.Append(nil, i), i*i*5/4+1)[:i*i*5/4]
						if i%2 == 0 { // that do not compress
							payload = noise(len(payload))
						}
						m, err := c.Request(s.ctx, "echo", payload)
						if err != nil || !bytes.Equal(m.Payload, payload) {
							t.Errorf("request %d of %d bytes: %v", i, len(payload), err)
						}
					})
				}
				wg.Wait()

				const ticks = 500
				if err := c.RequestJSON(s.ctx, "tick", ticks, nil); err != nil {
					t.Fatal(err)
				}
				for want := range ticks {
					var got int
					if m := <-pushes; m.JSON(&got) != nil || got != want {
						t.Fatalf("push %d is %s", want, m.Payload)
					}
				}

				err = c.RequestJSON(s.ctx, "quit", "enough", nil)
				told, ok := errors.AsType[*client.ClosedError](<-lost)
				if !ok || told.Reason != session.ServerDrain || told.Diag != "kicked: enough" {
					t.Errorf("closed with %+v; the request with %v", told, err)
				}
				if why := <-s.closed; why.Code != zlnode.SessionKicked {
					t.Errorf("the Session's own reason is %+v", why)
				}

				again, err := client.Dial(s.ctx, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := again.RequestJSON(s.ctx, "login", login{ID: "a"}, nil); err != nil {
					t.Error(err)
				}
				_ = again.Close()
				<-again.Done()
				if why := <-s.closed; why.Code != zlnode.ClientClosed {
					t.Errorf("the Session's own reason is %+v", why)
				}
			})
		})
	}
}
