package redislua

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/store"
)

// A server forgets its scripts when it is told to, restarts or fails over.
func TestEveryScriptIsLoadedWhenTheServerForgotIt(t *testing.T) {
	p := startRedis(t)
	st := openStore(t, p.url())
	s := &stage{t: t, Store: st}
	used := s.usage(func() { p.do("SCRIPT", "FLUSH") })
	s.a, s.b = host(t, st, "node-a"), host(t, st, "node-b")
	s.everything()
	s.wantAllUsed(used)
}

// What the server refuses is not done in part, and can be asked for again.
func TestAServerThatRefusesWritesDoesNoneInPart(t *testing.T) {
	// A script that frees something first is let through by a server without memory, and
	// then to its end.
	const frees = "FinishRejected"
	for name, config := range map[string]struct {
		option, refuse, allow, says string
	}{
		"OutOfMemory": {"maxmemory", "1", "0", "OOM"},
		"NoReplicas":  {"min-replicas-to-write", "1", "0", "NOREPLICAS"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startRedis(t, "--maxmemory-policy", "noeviction")
			for _, act := range acts {
				t.Run(act.name, func(t *testing.T) {
					s := newStage(t, openStore(t, p.url()))
					try := act.prepare(s, "object-1")
					before := snapshot(t, p.raw, &s.keys)
					p.do("CONFIG", "SET", config.option, config.refuse)
					reason, err := try(within(t))
					p.do("CONFIG", "SET", config.option, config.allow)
					if act.name == frees && reason == store.Applied {
						audit(t, s.Store)
						return
					}
					if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), config.says) {
						t.Errorf("error is %v; want ErrUnavailable that says %s", err, config.says)
					}
					if d := difference(before, snapshot(t, p.raw, &s.keys)); d != "" {
						t.Errorf("what was refused changed:%s", d)
					}
					if reason, err := try(within(t)); err != nil || reason != store.Applied {
						t.Errorf("asked again: %v, %v; want Applied", reason, err)
					}
					audit(t, s.Store)
				})
			}
		})
	}
}

func TestAPausedServerAppliesOnceWhatReachedIt(t *testing.T) {
	p := startRedis(t)
	loadScripts(t, p.raw)
	road := newProxy(t, p.url())
	for _, act := range acts {
		t.Run(act.name, func(t *testing.T) {
			s := newStage(t, openStore(t, road.url(), patient))
			try := act.prepare(s, "object-1")
			before := snapshot(t, p.raw, &s.keys)
			c := road.catch(act.script, wayThere)
			ctx, giveUp := cancelable(t)
			defer giveUp()
			ended := make(chan error, 1)
			go func() {
				_, err := try(ctx)
				ended <- err
			}()
			c.wait()
			passed := road.scriptsSeen()
			p.do("CLIENT", "PAUSE", 3_600_000, "WRITE")
			go c.letGo()
			road.waitForScripts(passed)
			giveUp()
			if err := <-ended; !errors.Is(err, store.ErrUnknown) {
				t.Errorf("error is %v; want ErrUnknown", err)
			}
			p.do("CLIENT", "UNPAUSE")
			var after map[string]string
			until(t, "the change", func() bool {
				after = snapshot(t, p.raw, &s.keys)
				return difference(before, after) != ""
			})
			if reason, err := try(within(t)); err != nil || reason != store.AlreadyApplied {
				t.Errorf("asked again: %v, %v; want AlreadyApplied", reason, err)
			}
			if d := difference(after, snapshot(t, p.raw, &s.keys)); d != "" {
				t.Errorf("asking again changed:%s", d)
			}
			audit(t, s.Store)
		})
	}
}

func TestAServerBusyWithAnothersScriptChangesNothing(t *testing.T) {
	p := startRedis(t, "--busy-reply-threshold", "1")
	other := redis.NewClient(&redis.Options{Addr: p.addr, ReadTimeout: -1, MaxRetries: -1})
	defer func() { _ = other.Close() }()
	for _, act := range acts {
		t.Run(act.name, func(t *testing.T) {
			s := newStage(t, openStore(t, p.url()))
			try := act.prepare(s, "object-1")
			before := snapshot(t, p.raw, &s.keys)
			ended := make(chan error, 1)
			go func() { ended <- other.Eval(context.WithoutCancel(t.Context()), "while true do end", nil).Err() }()
			until(t, "the other's script", func() bool { return redis.HasErrorPrefix(p.raw.Ping(within(t)).Err(), "BUSY") })
			_, err := try(within(t))
			p.do("SCRIPT", "KILL")
			if err := <-ended; err == nil {
				t.Error("the other's script ended by itself")
			}
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
				t.Errorf("error is %v; want ErrUnavailable", err)
			}
			if d := difference(before, snapshot(t, p.raw, &s.keys)); d != "" {
				t.Errorf("what was refused changed:%s", d)
			}
			if reason, err := try(within(t)); err != nil || reason != store.Applied {
				t.Errorf("asked again: %v, %v; want Applied", reason, err)
			}
		})
	}
}

func TestAServerThatTakesNoMoreClientsChangesNothing(t *testing.T) {
	p := startRedis(t)
	road := newProxy(t, p.url())
	s := newStage(t, openStore(t, road.url()))
	a := s.actor("object-1")
	p.do("CONFIG", "SET", "maxclients", "1") // the one that set it
	until(t, "the Store's connections to be refused", func() bool {
		road.cut()
		_, _, err := s.Read(within(t), a.ID)
		return err != nil
	})
	r := moveTo(a, s.b)
	_, err := s.ReserveMove(within(t), r)
	if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
		t.Errorf("error is %v; want ErrUnavailable, or ErrUnknown if the refusal was lost", err)
	}
	if move := p.raw.HExists(within(t), s.keys.object(a.ID), "move").Val(); move {
		t.Error("the refused call changed the row")
	}
	p.do("CONFIG", "SET", "maxclients", "1000")
	until(t, "the Store's return", func() bool {
		_, _, err := s.Read(within(t), a.ID)
		return err == nil
	})
	s.applied(s.ReserveMove(within(t), r))
	audit(t, s.Store)
}
