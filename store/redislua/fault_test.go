package redislua

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/store"
)

// patient makes calls end by their contexts alone.
func patient(o *Options) { o.Timeout = time.Hour }

func TestLateAnswerIsUnknownAndTheOperationApplied(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		p := newProxy(t, url)
		s := newScene(t, openStore(t, p.url(), patient))
		s.create("player-0") // from here on the server has the scripts
		for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"canceled": context.WithCancel,
			"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 20*time.Millisecond)
			},
		} {
			r := s.request("player-" + name)
			before := p.scriptsSeen()
			p.hold()
			ctx, cancel := end(within(t))
			if name == "canceled" {
				go func() {
					p.waitForScripts(before + 1)
					cancel()
				}()
			}
			_, err := s.Reserve(ctx, r)
			cancel()
			if !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: error is %v; want ErrUnknown", name, err)
			}
			p.release()

			// The next calls get their own answers, and the operation is known by its id.
			until(t, "the reservation to arrive", func() bool {
				a, found, err := s.Read(within(t), r.ID)
				if err != nil || found && (a.ID != r.ID || a.Create.Op != r.Op) {
					t.Fatalf("%s: read %+v, %v; want the reservation that got no answer", name, a, err)
				}
				return found
			})
			s.reserve(r, store.AlreadyApplied)
		}
	})
}

func TestLostConnectionIsUnknownAndNothingIsRepeated(t *testing.T) {
	for name, params := range map[string]string{"Client": "", "ClusterClient": "?cluster=true"} {
		t.Run(name, func(t *testing.T) {
			e := embeddedRedis(t)
			p := newProxy(t, e.URL())
			// A Cluster tells its nodes' addresses: make it tell the proxy's.
			_, serverPort, _ := net.SplitHostPort(e.server.Addr())
			_, proxyPort, _ := net.SplitHostPort(p.addr)
			p.editAnswers(func(b []byte) []byte {
				return bytes.ReplaceAll(b, []byte(":"+serverPort+"\r\n"), []byte(":"+proxyPort+"\r\n"))
			})
			s := newScene(t, openStore(t, p.url()+params))
			s.create("player-0") // from here on the server has the scripts
			r := s.request("player-1")
			before := p.scriptsSeen()
			p.hold()
			go func() {
				p.waitForScripts(before + 1)
				p.cut()
				p.release()
			}()
			if _, err := s.Reserve(within(t), r); !errors.Is(err, store.ErrUnknown) {
				t.Errorf("error is %v; want ErrUnknown", err)
			}
			if sent := p.scriptsSeen() - before; sent != 1 {
				t.Errorf("sent %d times", sent)
			}
			until(t, "the reservation to be known", func() bool {
				_, found, err := s.Read(within(t), r.ID)
				return err == nil && found
			})
			s.reserve(r, store.AlreadyApplied)
		})
	}
}

// TestGivenUpCallsAreSentOrNot: callers far beyond the pool's size on a server that
// does not answer. Exactly those whose command went out are told that it may have run.
func TestGivenUpCallsAreSentOrNot(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		const pool, callers = 5, 200
		p := newProxy(t, url)
		s := newScene(t, openStore(t, p.url(), patient, func(o *Options) { o.PoolSize = pool }))
		s.create("player-x") // from here on the server has the scripts
		ctx, cancel := context.WithCancel(within(t))
		before := p.scriptsSeen()
		p.hold()
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { _, errs[i] = s.Reserve(ctx, s.request(fmt.Sprintf("player-%d", i))) })
		}
		p.waitForScripts(before + pool)
		cancel()
		wg.Wait()
		p.release()
		if err := s.Close(); err != nil { // from here on nothing more arrives
			t.Fatal(err)
		}
		raw := rawClient(t, url)
		unknown := 0
		for i, err := range errs {
			found := raw.Exists(within(t), s.keys.object(fmt.Sprintf("player-%d", i))).Val() != 0
			switch {
			case errors.Is(err, store.ErrUnknown):
				unknown++
			case !errors.Is(err, store.ErrUnavailable) || found:
				t.Errorf("caller %d: error %v, row there: %v; want ErrUnavailable and none", i, err, found)
			}
		}
		if unknown != pool {
			t.Errorf("%d calls are unknown; %d were sent", unknown, pool)
		}
	})
}

func TestAnswerOfAnotherCallIsNotTaken(t *testing.T) {
	e := embeddedRedis(t)
	p := newProxy(t, e.URL())
	s := newScene(t, openStore(t, p.url()))
	s.create("player-1")
	read := func(id string) (bool, error) {
		_, found, err := s.Read(within(t), id)
		return found, err
	}
	if _, err := read("player-1"); err != nil { // from here on the server has the scripts
		t.Fatal(err)
	}
	var mu sync.Mutex
	var stale []byte
	p.editAnswers(func(b []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if stale == nil {
			stale = bytes.Clone(b)
			return b
		}
		return append(bytes.Clone(stale), b...) // and the call's own too late
	})
	if _, err := read("player-1"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Reserve(within(t), s.request("player-2"))
	if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("with the answer of the call before: %v; want ErrUnknown and ErrCorrupt", err)
	}
	p.editAnswers(nil)
	if found, err := read("player-2"); err != nil || !found {
		t.Errorf("next call: found %v, %v", found, err)
	}
}

func TestStoppedServerIsUnavailableUntilItIsBack(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		p := newProxy(t, url)
		s := newScene(t, openStore(t, p.url(), func(o *Options) { o.PoolSize = 3 }))
		p.stop()
		for range 20 { // more than go-redis needs to stop dialling for each call
			if _, err := s.Reserve(within(t), s.request("player-1")); !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("error is %v; want ErrUnavailable", err)
			}
		}
		p.start()
		ctx, cancel := context.WithTimeout(within(t), 5*time.Second)
		defer cancel()
		for {
			if _, _, err := s.Read(ctx, "player-1"); err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatal("no call succeeded within 5 s of the server's return")
			}
		}
		s.reserve(s.request("player-1"), store.Applied)
	})
}

func TestCloseEndsCallsUnderWay(t *testing.T) {
	p := newProxy(t, embeddedRedis(t).URL())
	s := newScene(t, openStore(t, p.url()))
	s.create("player-0") // from here on the server has the scripts
	before := p.scriptsSeen()
	p.hold()
	done := make(chan error)
	go func() {
		_, err := s.Reserve(within(t), s.request("player-1"))
		done <- err
	}()
	p.waitForScripts(before + 1)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, store.ErrUnknown) {
		t.Errorf("call under way ended with %v; want ErrUnknown", err)
	}
}

func TestRefusalsOfTheServerChangeNothing(t *testing.T) {
	e := embeddedRedis(t)
	s := newScene(t, openStore(t, e.URL()))
	for reply, want := range map[string]error{
		"LOADING Redis is loading the dataset in memory":                                store.ErrUnavailable,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is 'no'.":     store.ErrUnavailable,
		"CLUSTERDOWN The cluster is down":                                               store.ErrUnavailable,
		"TRYAGAIN Multiple keys request during rehashing of slot":                       store.ErrUnavailable,
		"MOVED 1234 127.0.0.1:1":                                                        store.ErrUnavailable,
		"BUSY Redis is busy running a script.":                                          store.ErrUnavailable,
		"READONLY You can't write against a read only replica.":                         store.ErrUnavailable,
		"OOM command not allowed when used memory > 'maxmemory'.":                       store.ErrUnavailable,
		"MISCONF Redis is configured to save RDB snapshots":                             store.ErrUnavailable,
		"NOREPLICAS Not enough good replicas to write.":                                 store.ErrUnavailable,
		"NOAUTH Authentication required.":                                               store.ErrUnavailable,
		"NOPERM this user has no permissions":                                           store.ErrUnavailable,
		"ERR unknown command 'evalsha'":                                                 store.ErrUnavailable,
		"ERR Error running script: Script killed by user with SCRIPT KILL":              store.ErrUnavailable,
		"WRONGTYPE Operation against a key holding the wrong kind of value":             store.ErrCorrupt,
		"ERR value is not an integer or out of range script: 0123, on @user_script:12.": store.ErrCorrupt,
	} {
		e.server.SetError(reply)
		_, err := s.Reserve(within(t), s.request("player-1"))
		e.server.SetError("")
		if !errors.Is(err, want) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%q gives %v; want %v", reply, err, want)
		}
		if _, found, err := s.Read(within(t), "player-1"); err != nil || found {
			t.Errorf("after %q: row there %v, %v", reply, found, err)
		}
	}
}
