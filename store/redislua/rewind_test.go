package redislua

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/store/storetest"
)

// rewindable is a storetest.Driver.
type rewindable struct {
	*Store
	t   testing.TB
	raw *redis.Client
}

func openRewindable(t testing.TB, url string, edit ...func(*Options)) *rewindable {
	t.Helper()
	r := &rewindable{openStore(t, url, edit...), t, rawClient(t, url)}
	wipeAtEnd(t, r.Store, r.raw)
	return r
}

// saved is the content of one key.
type saved struct {
	text string
	hash map[string]string
	set  []redis.Z
	life time.Duration // negative: none
}

// Mark implements storetest.Driver. What it puts back stands under another history than
// the one that was noted.
func (r *rewindable) Mark() (failover func()) {
	kept := map[string]saved{}
	ctx := r.t.Context()
	for _, key := range r.keysNow(ctx) {
		s := saved{life: r.raw.PTTL(ctx, key).Val()}
		var err error
		switch kind := r.raw.Type(ctx, key).Val(); kind {
		case "string":
			s.text, err = r.raw.Get(ctx, key).Result()
		case "hash":
			s.hash, err = r.raw.HGetAll(ctx, key).Result()
		case "zset":
			s.set, err = r.raw.ZRangeWithScores(ctx, key, 0, -1).Result()
		default:
			err = fmt.Errorf("%s is of type %q", key, kind)
		}
		r.must(err)
		kept[key] = s
	}
	return func() {
		r.Wipe()
		ctx := r.t.Context()
		for key, s := range kept {
			switch {
			case s.hash != nil:
				r.must(r.raw.HSet(ctx, key, s.hash).Err())
			case s.set != nil:
				r.must(r.raw.ZAdd(ctx, key, s.set...).Err())
			default:
				r.must(r.raw.Set(ctx, key, s.text, 0).Err())
			}
			if s.life > 0 {
				r.must(r.raw.PExpire(ctx, key, s.life).Err())
			}
		}
		r.must(r.raw.HSet(ctx, r.keys.epoch, "replication", "lost").Err())
		r.Elapse() // no two failovers happen in one millisecond
	}
}

// Wipe empties the namespace.
func (r *rewindable) Wipe() {
	ctx := r.t.Context()
	if keys := r.keysNow(ctx); len(keys) > 0 {
		r.must(r.raw.Del(ctx, keys...).Err())
	}
}

// Elapse implements storetest.Driver.
func (r *rewindable) Elapse() {
	storetest.Elapse(r.now)
}

func (r *rewindable) now() time.Time {
	now, err := r.raw.Time(r.t.Context()).Result()
	r.must(err)
	return now
}

func (r *rewindable) keysNow(ctx context.Context) (keys []string) {
	found := r.raw.Scan(ctx, 0, globEscape(r.keys.prefix)+"*", 1000).Iterator()
	for found.Next(ctx) {
		keys = append(keys, found.Val())
	}
	r.must(found.Err())
	return keys
}

func (r *rewindable) must(err error) {
	if err != nil {
		r.t.Helper()
		r.t.Fatal(err)
	}
}
