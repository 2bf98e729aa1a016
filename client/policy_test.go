package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// fleet is a dialler of several addresses, of which some are down.
type fleet struct {
	*pipe
	down map[string]bool
	went []string // the addresses that were dialled
}

func (f *fleet) dialler(ctx context.Context, addr string) (net.Conn, error) {
	f.went = append(f.went, addr)
	if f.down[addr] {
		return nil, errors.New("refused by " + addr)
	}
	return f.pipe.dialler(ctx, addr)
}

func newFleet(down ...string) *fleet {
	f := &fleet{pipe: newPipe(), down: make(map[string]bool)}
	for _, addr := range down {
		f.down[addr] = true
	}
	return f
}

// following are the addresses of a, b and c as they follow each other from the
// first on.
func following(first string, n int) []string {
	all := []string{"a", "b", "c"}
	var out []string
	for at := slices.Index(all, first); len(out) < n; at++ {
		out = append(out, all[at%len(all)])
	}
	return out
}

func TestALostConnectionIsMadeAnewAtTheNextAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(map[string]int)
		for range 60 {
			f := newFleet()
			c, err := client.Dial(t.Context(), client.Options{Addr: "a", Addrs: []string{"b", "c"}, Dialer: f.dialler, Reconnect: true})
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				(<-f.dialled).conn.Close()
			}
			last := <-f.dialled
			last.conn.Close()
			closeAndWait(c)
			if want := following(f.went[0], 5); !slices.Equal(f.went[:5], want) {
				t.Fatalf("dialled %q, want %q", f.went, want)
			}
			begun[f.went[0]]++
		}
		if len(begun) != 3 {
			t.Errorf("60 clients began with %v", begun)
		}
	})
}

// Where a session can be resumed the way back is tried first, and the others behind it.
func TestALostConnectionIsMadeAnewAtTheSameAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		c, err := client.Dial(t.Context(), client.Options{Addrs: []string{"a", "b", "c"}, Dialer: f.dialler, Reconnect: true, ReconnectSame: true})
		if err != nil {
			t.Fatal(err)
		}
		(<-f.dialled).conn.Close()
		again := <-f.dialled
		f.down[f.went[0]] = true
		again.conn.Close()
		(<-f.dialled).conn.Close() // of the next one
		last := <-f.dialled
		last.conn.Close()
		closeAndWait(c)
		want := following(f.went[0], 2)
		if want = []string{want[0], want[0], want[0], want[1], want[1]}; !slices.Equal(f.went[:5], want) {
			t.Fatalf("dialled %q, want %q", f.went, want)
		}
	})
}

func TestOneAttemptTriesEveryAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b")
		o := client.Options{Addrs: []string{"a", "b", "c"}, Dialer: f.dialler, Reconnect: true, ReconnectAttempts: 2}
		ended := make(chan error, 1)
		o.OnState = func(s client.State, err error) {
			if s == client.StateEnded {
				ended <- err
			}
		}
		began := time.Now()
		c, err := client.Dial(t.Context(), o)
		if err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		p, dialled := <-f.dialled, len(f.went)
		f.down["c"] = true
		p.conn.Close()
		err = <-ended
		<-c.Done()
		if n := len(f.went) - dialled; n != 6 {
			t.Errorf("2 attempts dialled %d addresses: %q", n, f.went)
		}
		for _, addr := range []string{"a", "b", "c"} {
			if !strings.Contains(fmt.Sprint(err), "refused by "+addr) {
				t.Errorf("%v does not say what %s did", err, addr)
			}
		}
		checkKind(t, c.Send(t.Context(), "n", nil), client.Unavailable, client.ErrDisconnected)

		_, err = client.Dial(t.Context(), o)
		checkKind(t, err, client.Unavailable, nil)
		if !strings.Contains(err.Error(), "a, b, c") || !strings.Contains(err.Error(), "refused by b") {
			t.Errorf("error %v", err)
		}
	})
}

func TestAnAddressThatDoesNotAnswerTakesItsOwnTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newPipe()
		o := client.Options{Addrs: []string{"dead", "dead", "alive"}, DialTimeout: time.Second}
		dead := 0
		o.Dialer = func(ctx context.Context, addr string) (net.Conn, error) {
			if addr == "dead" {
				dead++
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return lines.dialler(ctx, addr)
		}
		began := time.Now()
		c, err := client.Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != time.Duration(dead)*time.Second {
			t.Errorf("it took %v with %d dead addresses before", took, dead)
		}
		(<-lines.dialled).conn.Close()
		closeAndWait(c)
	})
}

func TestADialThatIsGivenUpTriesNoFurtherAddress(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dialled := 0
	_, err := client.Dial(ctx, client.Options{Addrs: []string{"a", "b"}, Dialer: func(ctx context.Context, _ string) (net.Conn, error) {
		dialled++
		cancel()
		return nil, ctx.Err()
	}})
	checkKind(t, err, client.Unavailable, context.Canceled)
	if dialled != 1 {
		t.Errorf("%d addresses were dialled", dialled)
	}
}

func TestAClientThatIsToldNotToComeBackDoesNot(t *testing.T) {
	closing := func(reason session.CloseReason) []byte { return session.AppendClosing(nil, reason, "why") }
	word := func(text string) []byte { return session.AppendClosing(nil, session.ServerDrain, text) }
	for name, c := range map[string]struct {
		last  []byte
		again bool
	}{
		"protocol error":    {closing(session.ProtocolError), false},
		"closed on purpose": {closing(session.ClientClose), false},
		"drain":             {closing(session.ServerDrain), true},
		"replaced":          {word("replaced: another came"), false},
		"kicked":            {word("kicked"), false},
		"kicked, it seems":  {word("kicked out of bed"), true},
		"idle":              {closing(session.IdleTimeout), true},
		"no heartbeat":      {closing(session.HeartbeatTimeout), true},
		"transport":         {closing(session.TransportError), true},
		"no word":           {nil, true},
		"broken frame":      {[]byte{0, 5, 0, 0, 0, 0, 0xF1, 1, 0, 0, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var states []string
				lines := newPipe()
				cl, p := lines.dial(t, client.Options{Reconnect: true, OnState: func(s client.State, err error) {
					states = append(states, s.String())
					if err != nil && client.ShouldReconnect(err) != c.again {
						t.Errorf("ShouldReconnect(%v) is %v", err, !c.again)
					}
				}})
				if c.last != nil {
					p.mustWrite(t, c.last)
				}
				p.conn.Close()
				want := []string{"Disconnected", "Ended"}
				if c.again {
					want = []string{"Disconnected", "Connected"}
					next := <-lines.dialled
					synctest.Wait() // the application is told of it
					next.conn.Close()
				} else {
					<-cl.Done()
				}
				closeAndWait(cl)
				if !slices.Equal(states[:2], want) || len(lines.dialled) != 0 {
					t.Errorf("states %q, want %q; %d connections more", states, want, len(lines.dialled))
				}
			})
		})
	}
	for code, again := range map[uint16]bool{1000: true, 1001: true, 1002: false, 1003: false, 1005: true, 1007: false, 1008: false, 1009: false, 1011: true, 1013: true, 4000: true} {
		if client.ShouldReconnect(&client.StatusError{Code: code}) != again {
			t.Errorf("status %d: %v", code, !again)
		}
	}
}

func TestTheApplicationDecidesWhetherToReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newPipe()
		var asked []error
		var ended error
		c, p := lines.dial(t, client.Options{
			Reconnect: true,
			ReconnectIf: func(cause error) bool {
				asked = append(asked, cause)
				return len(asked) < 3
			},
			OnState: func(s client.State, err error) {
				if s == client.StateEnded {
					ended = err
				}
			},
		})
		for i := range 3 {
			p.mustWrite(t, session.AppendClosing(nil, session.ProtocolError, fmt.Sprint(i)))
			p.conn.Close()
			if i < 2 {
				p = <-lines.dialled
			}
		}
		<-c.Done()
		for i, cause := range append(asked, ended) {
			told, ok := errors.AsType[*client.ClosedError](cause)
			if !ok || told.Diag != fmt.Sprint(min(i, 2)) {
				t.Errorf("question %d: %v", i, cause)
			}
		}
		if len(asked) != 3 {
			t.Errorf("asked %d times", len(asked))
		}
	})
}

// A server that takes connections and drops them is no better than one that is down.
func TestConnectionsThatDoNotLastCountAsFailedAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := newPipe()
		c, p := lines.dial(t, client.Options{Reconnect: true, ReconnectAttempts: 4, BackoffMax: time.Second})
		hang := func(d time.Duration) {
			go func() { _, _ = p.in.WriteTo(discard{}) }()
			for end := time.Now().Add(d); time.Now().Before(end); <-time.After(time.Second) {
				p.mustWrite(t, session.PongFrame())
			}
		}
		connections := 0
		for alive := true; alive; {
			connections++
			if connections == 3 {
				hang(3 * time.Second)
			}
			p.conn.Close()
			select {
			case p = <-lines.dialled:
			case <-c.Done():
				alive = false
			}
		}
		if connections != 3+4 {
			t.Errorf("%d connections, want 3 and, after one that lasted, 4 more", connections)
		}
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestEveryFrameIsShownBeforeItIsActedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		lines := newPipe()
		c, p := lines.dial(t, client.Options{
			OnFrame: func(f *client.FrameInfo) {
				seen = append(seen, fmt.Sprintf("%v %q %d of %d", f.Kind, f.Name, f.Seq, f.Size))
			},
			OnPush: func(m *client.Message) { seen = append(seen, "push "+m.Name) },
			OnState: func(client.State, error) {
				seen = append(seen, "lost")
			},
		})
		if err := c.RequestFunc(client.Call{Name: "r"}, func(*client.Message, error) { seen = append(seen, "reply") }); err != nil {
			t.Fatal(err)
		}
		req := p.mustRead(t)
		late := req
		late.Seq = 99
		p.mustWrite(t, session.PingFrame(), push("p", "x"), replyTo(&req, nil), replyTo(&late, nil), session.AppendClosing(nil, session.ServerDrain, ""))
		p.conn.Close()
		<-c.Done()
		want := []string{
			`Control "$zlink.heartbeat.ping" 0 of 32`,
			`Send "p" 0 of 13`, "push p",
			`Response "" 1 of 19`, "reply",
			`Response "" 99 of 19`,
			`Control "session-closing" 0 of 30`, "lost",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("seen\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
	})
}
