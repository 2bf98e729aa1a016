package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// req: FO-08
func TestAReconnectUsesNothingOfTheOldConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		lines := newPipe()
		connected := make(chan struct{}, 1)
		c, old := lines.dial(t, client.Options{
			Reconnect: true,
			OnPush:    func(m *client.Message) { events = append(events, "push "+m.Name) },
			OnState: func(s client.State, _ error) {
				events = append(events, s.String())
				if s == client.StateConnected {
					connected <- struct{}{}
				}
			},
		})
		pending := request(c, t.Context(), client.Call{Name: "pending"})
		first := old.mustRead(t)
		old.mustWrite(t, push("old", ""))
		old.conn.Close()
		checkKind(t, (<-pending).err, client.Unavailable, client.ErrDisconnected)

		fresh := <-lines.dialled
		<-connected
		result := request(c, t.Context(), client.Call{Name: "again"})
		second := fresh.mustRead(t)
		if second.Seq == first.Seq {
			t.Errorf("sequence %d is used on both connections", first.Seq)
		}
		// A reply to the old request is no reply to the new one.
		fresh.mustWrite(t, replyTo(&first, []byte("old")), push("new", ""), replyTo(&second, []byte("new")))
		if o := <-result; o.err != nil || string(o.message.Payload) != "new" {
			t.Errorf("the new request: %+v", o)
		}
		if want := []string{"push old", "Disconnected", "Connected", "push new"}; !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
		if s := c.Stats(); s.Reconnects != 1 || s.LateReplies != 1 {
			t.Errorf("counts %+v", s)
		}
		fresh.conn.Close()
		closeAndWait(c)
	})
}

func TestTheApplicationCanLogInAnewFromOnState(t *testing.T) {
	connections := make(chan int, 1)
	connections <- 0
	s := newServer(t, func(p *peer) {
		n := <-connections
		connections <- n + 1
		if n == 0 {
			_ = p.write(session.AppendClosing(nil, session.ServerDrain, ""))
			return
		}
		echo(p)
	})
	loggedIn := make(chan error, 1)
	var c *client.Client
	ready := make(chan struct{})
	c = s.dial(t, client.Options{
		Reconnect: true, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond,
		OnState: func(state client.State, err error) {
			<-ready
			if state == client.StateDisconnected {
				if _, ok := errors.AsType[*client.ClosedError](err); !ok {
					t.Errorf("the cause is %v", err)
				}
				return
			}
			if err := c.RequestFunc(client.Call{Name: "login"}, func(_ *client.Message, err error) { loggedIn <- err }); err != nil {
				loggedIn <- err
			}
		},
	})
	close(ready)
	if err := <-loggedIn; err != nil {
		t.Error(err)
	}
}

func TestAttemptsToConnectAreSpacedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newPipe()
		var attempts []time.Time
		o := client.Options{Addr: "pipe", Reconnect: true, BackoffMin: 100 * time.Millisecond, BackoffMax: time.Second}
		o.Dialer = func(ctx context.Context, addr string) (net.Conn, error) {
			attempts = append(attempts, time.Now())
			if n := len(attempts); n > 1 && n < 12 {
				return nil, fmt.Errorf("attempt %d", n)
			}
			return lines.dialler(ctx, addr)
		}
		c, err := client.Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		(<-lines.dialled).conn.Close()
		(<-lines.dialled).conn.Close() // accepted and closed: no better than refused
		third := <-lines.dialled
		third.conn.Close()
		closeAndWait(c)

		step := 100 * time.Millisecond
		jitter := false
		for i := 1; i < len(attempts); i++ {
			pause := attempts[i].Sub(attempts[i-1])
			if pause < step/2 || pause > step {
				t.Errorf("pause %d is %v, want %v to %v", i, pause, step/2, step)
			}
			jitter = jitter || pause != step
			step = min(2*step, time.Second)
		}
		if len(attempts) < 13 || !jitter {
			t.Errorf("%d attempts, jitter %v", len(attempts), jitter)
		}
	})
}

func TestALongConnectionStartsTheSpacingAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newPipe()
		c, p := lines.dial(t, client.Options{
			Reconnect: true, BackoffMin: 10 * time.Millisecond, BackoffMax: time.Second,
			HeartbeatInterval: -1, SilenceTimeout: -1,
		})
		for range 8 {
			p.conn.Close()
			p = <-lines.dialled
		}
		<-time.After(2 * time.Second)
		p.conn.Close()
		lost := time.Now()
		p = <-lines.dialled
		if pause := time.Since(lost); pause > 10*time.Millisecond {
			t.Errorf("pause %v after a connection of 2 s", pause)
		}
		p.conn.Close()
		closeAndWait(c)
	})
}

func TestTheLastPushIsTheOneBeforeUntilTheServerHasSpoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		numbers := make(chan uint64, 10)
		connected := make(chan uint64, 10)
		var c *client.Client
		lines := newPipe()
		c, old := lines.dial(t, client.Options{
			Reconnect: true,
			OnPush:    func(m *client.Message) { numbers <- m.PushNumber() },
			OnState: func(s client.State, _ error) {
				if s == client.StateConnected {
					connected <- c.LastPush()
				}
			},
		})
		push := func(number string) []byte {
			p := session.Packet{Kind: session.KindSend, Name: []byte("n")}
			if number != "" {
				p.Meta, _ = session.NewMetadata(map[string]string{session.PushNumberKey: number, "a": "b"})
			}
			return encode(&p)
		}
		takes := func(p *peer, number string, want, last uint64) {
			t.Helper()
			p.mustWrite(t, push(number))
			got := <-numbers
			synctest.Wait()
			if got != want || c.LastPush() != last {
				t.Errorf("number %q is %d, and the last is %d", number, got, c.LastPush())
			}
		}
		takes(old, "", 0, 0)
		takes(old, "41", 41, 41)
		takes(old, "", 0, 41)
		takes(old, "no number", 0, 41)
		old.conn.Close()
		fresh := <-lines.dialled
		if last := <-connected; last != 41 {
			t.Errorf("after the reconnect the last is %d", last)
		}
		result := request(c, t.Context(), client.Call{Name: "login"})
		q := fresh.mustRead(t)
		fresh.mustWrite(t, replyTo(&q, nil))
		if o := <-result; o.err != nil || c.LastPush() != 0 {
			t.Errorf("%v; the server has spoken, and the last is %d", o.err, c.LastPush())
		}
		takes(fresh, "1", 1, 1)
		fresh.conn.Close()
		fresh = <-lines.dialled
		<-connected
		takes(fresh, "", 0, 0)
		fresh.conn.Close()
		closeAndWait(c)
	})
}
