package redislua

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/store"
)

// probe checks that the server answers and lets the Store do what nobody would miss
// before a failover: ask for its replication id, and wait for replicas.
func (s *Store) probe(ctx context.Context) error {
	if err := s.Ping(ctx); err != nil {
		return err
	}
	err := s.attempt(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		server, err := s.holder(ctx, client)
		if err != nil {
			return err
		}
		err = server.Info(ctx, "replication").Err()
		var reply redis.Error
		switch {
		case errors.As(err, &reply) && strings.HasSuffix(reply.Error(), "is not supported"):
			// A server without replication: it has no failover to find.
		case err != nil:
			return fmt.Errorf("INFO, by which scripts recognise a failover: %w", err)
		}
		if s.options.WaitReplicas == 0 {
			return nil
		}
		wait := newWait(ctx, 0, time.Millisecond)
		if err := server.Process(ctx, wait); err != nil {
			return fmt.Errorf("WAIT, by which WaitReplicas are counted: %w", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: Redis at %s does not answer %w", store.ErrUnavailable, s.server.name, err)
	}
	return nil
}
