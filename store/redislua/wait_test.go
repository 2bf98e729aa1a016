package redislua

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// replicated starts a primary and its replica.
func replicated(t *testing.T) (primary, replica *redisProcess) {
	t.Helper()
	primary = startRedis(t)
	_, port, _ := net.SplitHostPort(primary.addr)
	replica = startRedis(t, "--replicaof", "127.0.0.1 "+port)
	until(t, "the replica to be in step", func() bool { return strings.Contains(primary.info("slave0"), "state=online") })
	return primary, replica
}

// pause stops the process where it is, and returns when it stands.
func (p *redisProcess) pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	until(p.t, "the server to stand still", func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
}

func (p *redisProcess) resume() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

func (p *redisProcess) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// waiting makes changes wait so long for one replica.
func waiting(timeout time.Duration) func(*Options) {
	return func(o *Options) { o.WaitReplicas, o.WaitTimeout = 1, timeout }
}

func sameNamespace(s *Store) func(*Options) {
	return func(o *Options) { o.Namespace = s.options.Namespace }
}

func wantUnconfirmed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("error is %v; want ErrUnknown that counts the replicas", err)
	}
}

func TestChangeIsAnsweredWhenItsReplicasHaveIt(t *testing.T) {
	primary, replica := replicated(t)
	patient := newScene(t, openStore(t, primary.url(), waiting(stepMax/2)))
	hasty := openStore(t, primary.url(), sameNamespace(patient.Store), waiting(time.Millisecond))
	a, _ := patient.create("player-1")
	if v := replica.raw.HGet(within(t), patient.keys.object("player-1"), "version").Val(); v != decimal(a.Version) {
		t.Errorf("after the answer the replica has version %q; want %d", v, a.Version)
	}

	replica.pause()
	r, other := patient.request("player-2"), patient.request("player-2")
	_, err := hasty.Reserve(within(t), r)
	wantUnconfirmed(t, err)
	if a, found, err := hasty.Read(within(t), r.ID); err != nil || !found || a.Create.Op != r.Op {
		t.Errorf("read %+v, %v, %v; want the change that the primary has, without a wait", a, found, err)
	}
	_, err = hasty.Reserve(within(t), r) // AlreadyApplied, which is no news of the replica
	wantUnconfirmed(t, err)
	_, err = hasty.Reserve(within(t), other) // refused by a row that may be lost
	wantUnconfirmed(t, err)

	replica.resume()
	patient.reserve(r, store.AlreadyApplied)
	if op := replica.raw.HGet(within(t), patient.keys.object(r.ID), "op").Val(); op != "c"+hexOf(r.Op.Op) {
		t.Errorf("after the repeat's answer the replica has the row of operation %q; want %q", op, "c"+hexOf(r.Op.Op))
	}
	patient.reserve(other, store.Exists)
	audit(t, patient.Store)
}

func TestEveryChangeIsAnsweredWhenItsReplicasHaveIt(t *testing.T) {
	primary, replica := replicated(t)
	s := newStage(t, openStore(t, primary.url(), waiting(stepMax/2)))
	s.everything()
	if d := difference(snapshot(t, primary.raw, &s.keys), snapshot(t, replica.raw, &s.keys)); d != "" {
		t.Errorf("the replica differs:%s", d)
	}
}

// TestConfirmationOfAScriptThatDidNotRunIsNone: the replica has all that was written
// when the server answers that it does not know the script, and stands still from then on.
func TestConfirmationOfAScriptThatDidNotRunIsNone(t *testing.T) {
	primary, replica := replicated(t)
	patient := newScene(t, openStore(t, primary.url(), waiting(stepMax/2)))
	p := newProxy(t, primary.url())
	hasty := openStore(t, p.url(), sameNamespace(patient.Store), waiting(time.Second))
	hasty.prepare = func(s lua.Script) lua.Script {
		if err := primary.raw.ScriptFlush(within(t)).Err(); err != nil {
			t.Error(err)
		}
		return s
	}
	var mu sync.Mutex
	var answers []byte
	p.editAnswers(func(b []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if answers = append(answers, b...); bytes.Contains(answers, []byte("NOSCRIPT")) && bytes.HasSuffix(answers, []byte("\r\n:1\r\n")) {
			replica.pause()
			answers = nil
		}
		return b
	})
	r := patient.request("player-1")
	_, err := hasty.Reserve(within(t), r)
	wantUnconfirmed(t, err)
	replica.resume()
	patient.reserve(r, store.AlreadyApplied)
}

func TestConnectionLostInTheWaitIsUnknownAndNothingIsRepeated(t *testing.T) {
	primary, replica := replicated(t)
	p := newProxy(t, primary.url())
	s := newScene(t, openStore(t, p.url(), waiting(stepMax/2)))
	s.create("player-0") // from here on the server has the scripts
	replica.pause()
	before := p.scriptsSeen()
	r := s.request("player-1")
	failed := make(chan error)
	go func() {
		_, err := s.Reserve(within(t), r)
		failed <- err
	}()
	until(t, "the reservation to be applied", func() bool { return primary.raw.Exists(within(t), s.keys.object(r.ID)).Val() == 1 })
	p.cut()
	if err := <-failed; !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error is %v; want ErrUnknown", err)
	}
	if sent := p.scriptsSeen() - before; sent != 1 {
		t.Errorf("sent %d times", sent)
	}
	replica.resume()
	s.reserve(r, store.AlreadyApplied)
}

func TestCallsThatWaitForReplicasAreSentOrNot(t *testing.T) {
	const pool, callers = 3, 50
	e := embeddedRedis(t)
	plain := newScene(t, openStore(t, e.URL()))
	plain.create("player-x") // from here on the server has the scripts
	p := newProxy(t, e.URL())
	s := openStore(t, p.url(), sameNamespace(plain.Store), waiting(time.Minute), patient, func(o *Options) { o.PoolSize = pool })
	ctx, cancel := context.WithCancel(within(t))
	before := p.scriptsSeen()
	p.hold()
	ids, errs := make([]string, callers), make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		r := plain.request("player-" + randomHex())
		ids[i] = r.ID
		wg.Go(func() { _, errs[i] = s.Reserve(ctx, r) })
	}
	p.waitForScripts(before + pool)
	cancel()
	wg.Wait()
	p.release()
	if err := s.Close(); err != nil { // from here on nothing more arrives
		t.Fatal(err)
	}
	unknown := 0
	for i, err := range errs {
		_, found, readErr := plain.Read(within(t), ids[i])
		switch {
		case readErr != nil:
			t.Fatal(readErr)
		case errors.Is(err, store.ErrUnknown):
			unknown++
		case !errors.Is(err, store.ErrUnavailable) || found:
			t.Errorf("caller %d: error %v, row there: %v; want ErrUnavailable and none", i, err, found)
		}
	}
	if unknown != pool {
		t.Errorf("%d calls are unknown; %d were sent", unknown, pool)
	}
}

func TestConfirmedAnswerOfAnotherCallIsNotTaken(t *testing.T) {
	primary, _ := replicated(t)
	p := newProxy(t, primary.url())
	s := newScene(t, openStore(t, p.url(), waiting(stepMax/2)))
	s.create("player-0") // from here on the server has the scripts
	const answer, confirmation = "*4\r\n$7\r\nanother\r\n$7\r\nApplied\r\n$1\r\n1\r\n$1\r\n0\r\n", "+OK\r\n:1\r\n"
	for name, stale := range map[string]string{"answer": answer, "answer and confirmation": answer + confirmation} {
		var mu sync.Mutex
		p.editAnswers(func(b []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			b = append([]byte(stale), b...)
			stale = ""
			return b
		})
		r := s.request("player-" + randomHex())
		if _, err := s.Reserve(within(t), r); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("with the %s of another call: %v; want ErrUnknown", name, err)
		}
		s.reserve(r, store.AlreadyApplied)
	}
}

// sentNames hears the names of the commands that go out together.
type sentNames struct{ hear func(names []string) }

func (h sentNames) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h sentNames) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.hear([]string{cmd.Name()})
		return next(ctx, cmd)
	}
}

func (h sentNames) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		h.hear(names)
		return next(ctx, cmds)
	}
}

// TestWaitFollowsItsScriptOnOneConnection: a WAIT on another one of the pool counts
// nothing, and says that replicas have it.
func TestWaitFollowsItsScriptOnOneConnection(t *testing.T) {
	s := openStore(t, embeddedRedis(t).URL(), waiting(time.Millisecond))
	var sent [][]string
	s.mu.client.AddHook(sentNames{func(names []string) { sent = append(sent, names) }})
	_, err := s.AcquireLease(within(t), "node-a", randomHex(), time.Hour)
	wantUnconfirmed(t, err)
	if want := []string{"evalsha", "set", "wait"}; len(sent) == 0 || !slices.Equal(sent[len(sent)-1], want) {
		t.Errorf("sent %v; want %v together at the end", sent, want)
	}
}

func TestScriptsThatChangeNothingWaitForNoReplica(t *testing.T) {
	for _, s := range lua.All() {
		reads := strings.Contains(s.Source, "-- Invariant: changes nothing.")
		if want := reads || s.Name == lua.EpochNote.Name; unconfirmed[s.Name] != want {
			t.Errorf("%s is answered without replicas: %v; want %v", s.Name, unconfirmed[s.Name], want)
		}
	}
}
