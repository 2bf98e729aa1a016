package model

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zlnode/zlnode/store"
)

// Options of a Store.
type Options struct {
	// Now is the Store's clock: time.Now, or one that a test sets.
	Now func() time.Time
	// RecoveryHold is how long nothing new is created after an epoch began.
	RecoveryHold time.Duration
}

// Store implements store.Store. Safe for concurrent use: one lock is held for the
// whole of each call.
type Store struct {
	options Options

	mu struct {
		sync.Mutex
		*state
		issued   issued
		watchers map[chan struct{}]bool
		closed   chan struct{}
	}
}

var _ store.Store = (*Store)(nil)

// New returns an empty Store in its first epoch.
func New(o Options) *Store {
	s := &Store{options: o}
	s.mu.state = newState()
	s.mu.watchers = map[chan struct{}]bool{}
	s.mu.closed = make(chan struct{})
	s.newEpoch()
	return s
}

var errClosed = fmt.Errorf("%w: the Store is closed", store.ErrUnavailable)

// view is what one call sees: the state, locked, at one instant.
type view struct {
	*state
	*issued
	hold time.Duration
	now  time.Time
}

// call runs f on the locked state. It returns err, the refusal of the arguments, or
// ErrUnavailable if the Store is closed or ctx has ended.
func (s *Store) call(ctx context.Context, err error, f func(v view)) error {
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return errClosed
	}
	v := s.view()
	v.forget()
	before := v.change
	f(v)
	if v.change != before {
		s.tell()
	}
	return nil
}

func (s *Store) view() view {
	// Redis counts time in milliseconds.
	return view{s.mu.state, &s.mu.issued, s.options.RecoveryHold, s.options.Now().Truncate(time.Millisecond)}
}

// change is call for what answers with the row as it is afterwards.
func (s *Store) change(ctx context.Context, id string, err error, f func(v view) store.Reason) (c store.Change, _ error) {
	err = s.call(ctx, err, func(v view) {
		c.Reason = f(v)
		c.Epoch = v.epoch
		c.Record, c.Found = v.record(id)
		if c.Record.Create != nil {
			c.Record.Create.Request = nil
		}
	})
	return c, err
}

func (s *Store) isClosed() bool {
	select {
	case <-s.mu.closed:
		return true
	default:
		return false
	}
}

// Ping implements store.Store.
func (s *Store) Ping(ctx context.Context) error { return s.call(ctx, nil, func(view) {}) }

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed() {
		close(s.mu.closed)
	}
	return nil
}

// RaiseEpoch implements store.Store. It is also what a failover is that lost nothing.
func (s *Store) RaiseEpoch(ctx context.Context) (e store.Epoch, err error) {
	err = s.call(ctx, nil, func(view) { e = s.newEpoch() })
	return e, err
}

func (s *Store) newEpoch() store.Epoch {
	v := s.view()
	v.epoch = store.Epoch(v.epochs.next())
	v.since = v.now
	v.change = v.changes.next() // the list of nodes is to be read anew
	return v.epoch
}

// Mark remembers the state. The function that it returns puts it back, as a failover
// does that lost all changes since, and can be called again.
func (s *Store) Mark() (failover func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	marked := s.mu.clone()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.state = marked.clone()
		s.newEpoch()
		s.tell()
	}
}

// Audit implements store.Store: nothing stands beside the rows that could differ.
func (s *Store) Audit(ctx context.Context) ([]string, error) {
	return nil, s.call(ctx, nil, func(view) {})
}

// WatchNodes implements store.Store.
func (s *Store) WatchNodes(ctx context.Context, changed func()) error {
	heard := make(chan struct{}, 1) // one notice tells of all changes before it
	heard <- struct{}{}
	if err := s.call(ctx, nil, func(view) { s.mu.watchers[heard] = true }); err != nil {
		if errors.Is(err, ctx.Err()) {
			return nil
		}
		return err
	}
	defer func() {
		s.mu.Lock()
		delete(s.mu.watchers, heard)
		s.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.mu.closed:
			return nil
		case <-heard:
			changed()
		}
	}
}

func (s *Store) tell() {
	for heard := range s.mu.watchers {
		select {
		case heard <- struct{}{}:
		default:
		}
	}
}
