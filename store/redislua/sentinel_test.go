package redislua

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/store"
)

// startSentinels makes three Sentinels watch over the primary, and returns the URL of
// what they watch once they know each other and the replica.
func startSentinels(t testing.TB, primary *redisProcess) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.addr)
	var sentinels []*redisProcess
	for range 3 {
		s := startRedis(t, "--sentinel")
		s.do("SENTINEL", "MONITOR", "world", host, port, 2)
		s.do("SENTINEL", "SET", "world", "down-after-milliseconds", 1000, "failover-timeout", 3000)
		sentinels = append(sentinels, s)
	}
	for _, s := range sentinels {
		until(t, "the Sentinels to know each other", func() bool {
			world, err := s.raw.Do(within(t), "SENTINEL", "MASTER", "world").Slice()
			if err != nil {
				t.Fatal(err)
			}
			known := map[string]string{}
			for i := 0; i+1 < len(world); i += 2 {
				known[fmt.Sprint(world[i])] = fmt.Sprint(world[i+1])
			}
			return known["num-other-sentinels"] == "2" && known["num-slaves"] == "1" && known["flags"] == "master"
		})
	}
	return "redis://" + sentinels[0].addr + "?master_name=world&addr=" + sentinels[1].addr + "&addr=" + sentinels[2].addr
}

// The primary dies under load. The Store goes on at the one that the Sentinels chose, by
// itself, in a new epoch; and no call has run twice.
func TestSentinelsLeadTheStoreToTheNextPrimary(t *testing.T) {
	t.Parallel()
	const workers, wanted = 4, 20 // creations of each worker in the new epoch
	p := startPair(t)
	s := newStage(t, openStore(t, startSentinels(t, p.primary)))
	until(t, "the replica to be in step", p.inStep)
	before := s.actor("object-1").Epoch

	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*stepMax)
	defer cancel()
	var killed sync.Once
	var work sync.WaitGroup
	for worker := range workers {
		work.Go(func() {
			epoch := before
			for made, n := 0, 0; made < wanted && !t.Failed() && ctx.Err() == nil; n++ {
				r := reservation(fmt.Sprintf("made-%d-%d", worker, n), store.Actor, false, s.a)
				c, err := s.persist(ctx, r)
				if err != nil || c.Reason != store.Applied && c.Reason != store.AlreadyApplied {
					t.Errorf("worker %d: %v with %+v, %v", worker, c.Reason, c.Record, err)
					return
				}
				if c.Epoch < epoch {
					t.Errorf("worker %d: epoch %d after %d", worker, c.Epoch, epoch)
				}
				epoch = c.Epoch
				if epoch > before {
					made++
					if a, found, err := s.Read(within(t), r.ID); err != nil || !found || a.Create.Op != r.Op {
						t.Errorf("worker %d: %s reads %+v, %v, %v", worker, r.ID, a, found, err)
						return
					}
				} else if n > wanted {
					killed.Do(p.primary.kill)
				}
			}
		})
	}
	work.Wait()
	if s.renew(s.a).Epoch <= before || ctx.Err() != nil {
		t.Errorf("there is no new epoch after %d: %v", before, ctx.Err())
	}
	audit(t, s.Store)
}

// persist reserves under one operation until there is an answer. What was asked once has
// not happened already.
func (s *stage) persist(ctx context.Context, r store.Reserve) (store.Change, error) {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for tries := 1; ; tries++ {
		c, err := s.Reserve(ctx, r)
		switch {
		case err == nil && tries == 1 && c.Reason == store.AlreadyApplied:
			return c, errors.New("the first call found that it was there before")
		case err == nil:
			return c, nil
		case ctx.Err() != nil, !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown):
			return c, err
		}
		<-pace.C
	}
}
