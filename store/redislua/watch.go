package redislua

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// watchPause is the pause before a lost connection for notices is made anew. Whoever
// waits for notices polls meanwhile.
const watchPause = time.Second

// WatchNodes implements store.Store.
func (s *Store) WatchNodes(ctx context.Context, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	for ctx.Err() == nil {
		client, err := s.begin()
		if err != nil {
			return err
		}
		s.hear(ctx, client, changed)
		s.calls.Done()
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
	return nil
}

// hear reports notices until its connection or ctx ends.
func (s *Store) hear(ctx context.Context, client redis.UniversalClient, changed func()) {
	sub := client.Subscribe(ctx, s.keys.change)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() }) // wakes Receive, which heeds no cancellation
	defer func() {
		if stop() {
			_ = sub.Close() // it is given up; there is nobody to tell
		}
	}()
	for {
		message, err := sub.Receive(ctx)
		if err != nil || ctx.Err() != nil {
			return
		}
		switch message.(type) {
		case *redis.Subscription, *redis.Message:
			changed()
		}
	}
}
