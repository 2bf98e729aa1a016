package client_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// The server pushes all the time: an abrupt close would be a reset, and destroy
// what the server has not read yet.
func TestCloseDeliversWhatWasSentAndSaysGoodbye(t *testing.T) {
	const count = 2000
	received := make(chan []session.Packet, 1)
	s := newServer(t, func(p *peer) {
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for p.write(push("noise", "noise")) == nil {
			}
		}()
		received <- p.drain(t)
		_ = p.conn.Close()
		<-stop
	})
	c := s.dial(t, client.Options{})
	for i := range count {
		if err := c.Send(t.Context(), fmt.Sprint(i), make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	all := <-received
	if len(all) != count+1 {
		t.Fatalf("%d packets arrived, want %d and a goodbye", len(all), count)
	}
	for i := range count {
		if string(all[i].Name) != fmt.Sprint(i) {
			t.Fatalf("packet %d is %q", i, all[i].Name)
		}
	}
	if reason, _, err := session.ParseClosing(&all[count]); err != nil || reason != session.ClientClose {
		t.Errorf("the goodbye says %v, %v", reason, err)
	}
}

func TestCloseEndsRequestsAndRefusesLaterCalls(t *testing.T) {
	c := newServer(t, silent).dial(t, client.Options{OnState: func(client.State, error) { t.Error("OnState was called") }})
	results := make(chan error, 2)
	if err := c.RequestFunc(client.Call{Name: "a"}, func(_ *client.Message, err error) { results <- err }); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	checkKind(t, <-results, client.ShuttingDown, client.ErrClosed)
	if err := c.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	checkKind(t, c.Send(t.Context(), "b", nil), client.ShuttingDown, client.ErrClosed)
	_, err := c.Request(t.Context(), "b", nil)
	checkKind(t, err, client.ShuttingDown, client.ErrClosed)
}

func TestCloseFromACallbackDoesNotWaitForItself(t *testing.T) {
	for name, trigger := range map[string]func(c *client.Client, call func()) error{
		"a reply": func(c *client.Client, call func()) error {
			return c.RequestFunc(client.Call{Name: "echo"}, func(*client.Message, error) { call() })
		},
		"a push": func(c *client.Client, _ func()) error { return c.Send(context.Background(), "push", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(p *peer) {
				for {
					packet, err := p.read()
					if err != nil {
						return
					}
					if packet.Kind == session.KindSend {
						_ = p.write(push("first", ""))
						_ = p.write(push("second", ""))
					} else if packet.Kind == session.KindRequest {
						_ = p.write(replyTo(&packet, nil))
					}
				}
			})
			var pushes atomic.Int32
			var c *client.Client
			c = s.dial(t, client.Options{OnPush: func(*client.Message) {
				pushes.Add(1)
				_ = c.Close()
			}})
			if err := trigger(c, func() { _ = c.Close() }); err != nil {
				t.Fatal(err)
			}
			<-c.Done()
			if n := pushes.Load(); n > 1 {
				t.Errorf("%d pushes were delivered, the second after Close", n)
			}
		})
	}
}

// The server neither reads nor closes: Close must not wait for it for ever.
func TestCloseGivesUpOnAServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPipe().dial(t, client.Options{})
		if err := c.Send(t.Context(), "never read", nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.RequestFunc(client.Call{Name: "never answered"}, func(_ *client.Message, err error) {
			checkKind(t, err, client.ShuttingDown, client.ErrClosed)
			if time.Since(began) != 0 {
				t.Errorf("a request ended %v after Close", time.Since(began))
			}
		}); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		<-c.Done()
		if took := time.Since(began); took != time.Second {
			t.Errorf("Close took %v", took)
		}
		p.conn.Close()
	})
}

func TestCloseEndsTheAttemptToConnectAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newPipe()
		dialling := make(chan struct{})
		lost := make(chan struct{})
		o := client.Options{Reconnect: true, Addr: "pipe", OnState: func(client.State, error) { close(lost) }}
		first := true
		o.Dialer = func(ctx context.Context, addr string) (net.Conn, error) {
			if first {
				first = false
				return lines.dialler(ctx, addr)
			}
			close(dialling)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c, err := client.Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		(<-lines.dialled).conn.Close()
		<-lost
		checkKind(t, c.Send(t.Context(), "down", nil), client.Unavailable, client.ErrDisconnected)
		<-dialling
		closeAndWait(c)
		checkKind(t, c.Send(t.Context(), "closed", nil), client.ShuttingDown, client.ErrClosed)
	})
}
