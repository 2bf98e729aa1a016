package redislua

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// Store is the Location Store on Redis. It holds a pool of connections; each call
// takes one for its own duration. Safe for concurrent use.
type Store struct {
	options Options
	server  server
	keys    keys
	nonces  *nonces
	page    page // pageMax; tests take smaller ones

	alive    context.Context // ends with Close; dials end with it
	endAlive context.CancelFunc
	calls    sync.WaitGroup // calls under way, also those that their caller gave up

	// prepare, if set, replaces each script before it is sent. Tests check with it
	// what scripts touch.
	prepare func(lua.Script) lua.Script

	mu struct {
		sync.RWMutex
		client redis.UniversalClient // nil once closed
	}
}

var _ store.Store = (*Store)(nil)

// Open connects to Redis and checks that it answers and lets its user do what is needed
// there. It returns ErrInvalid for options that cannot be, and ErrUnavailable, naming the
// address, if Redis does not answer within ctx and Options.Timeout, or refuses. The caller
// closes the Store.
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	server, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.WaitReplicas > 0 && server.IsClusterMode {
		return nil, fmt.Errorf("%w: WaitReplicas with a Cluster: its client does not promise one connection for a script and the WAIT behind it",
			store.ErrInvalid)
	}
	s := &Store{options: o, server: server, keys: newKeys(o.Namespace), nonces: newNonces(), page: pageMax}
	s.alive, s.endAlive = context.WithCancel(context.Background())
	s.mu.client = server.client(o, s.alive)
	if err := s.probe(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Ping implements store.Store. It returns ErrUnavailable, naming the address.
func (s *Store) Ping(ctx context.Context) error {
	err := s.attempt(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		server, err := s.holder(ctx, client)
		if err != nil {
			return err
		}
		return server.Ping(ctx).Err()
	})
	if err != nil {
		return fmt.Errorf("%w: no answer from Redis at %s: %w", store.ErrUnavailable, s.server.name, err)
	}
	return nil
}

// Close implements store.Store. It returns when nothing of the Store runs any more.
// A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	client := s.mu.client
	s.mu.client = nil
	s.mu.Unlock()
	if client == nil {
		return nil
	}
	s.endAlive()
	err := client.Close()
	s.calls.Wait()
	if err != nil {
		return fmt.Errorf("store: closing connections to Redis at %s: %w", s.server.name, err)
	}
	return nil
}

// begin returns the client for one call, which ends with calls.Done.
func (s *Store) begin() (redis.UniversalClient, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.client == nil {
		return nil, errClosed
	}
	s.calls.Add(1)
	return s.mu.client, nil
}

// holder returns the client of the server that holds the namespace. A ClusterClient
// sends what names no key to any server, also one that is down.
func (s *Store) holder(ctx context.Context, client redis.UniversalClient) (redis.UniversalClient, error) {
	if cluster, is := client.(*redis.ClusterClient); is {
		return cluster.MasterForKey(ctx, s.keys.epoch)
	}
	return client, nil
}

// renew drops all connections of client and goes on with new ones. go-redis does
// not say which connection an answer came from, so one that is out of step takes the
// others with it; calls under way on them end with ErrUnknown.
func (s *Store) renew(client redis.UniversalClient) {
	s.mu.Lock()
	stale := s.mu.client == client
	if stale {
		s.mu.client = s.server.client(s.options, s.alive)
	}
	s.mu.Unlock()
	if stale {
		_ = client.Close() // its sockets are given up; there is nobody to tell
	}
}
