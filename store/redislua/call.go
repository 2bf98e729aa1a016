package redislua

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// run executes the script and returns its answer. It returns ErrUnavailable or
// ErrUnknown, or ErrCorrupt for an answer that is none. args are strings: they may
// be read until the call's end, which can come after run has returned. If the server's
// history is a new one, it is noted and the script, which did nothing, runs again.
func (s *Store) run(ctx context.Context, script lua.Script, keys []string, args ...string) (*answer, error) {
	for range noteTriesMax {
		a, err := s.once(ctx, script, keys, args...)
		if err != nil || a.reason != 0 {
			return a, err
		}
		if _, err := s.noteEpoch(ctx, ""); err != nil {
			return nil, unavailable(err) // nothing of the script was done
		}
	}
	return nil, fmt.Errorf("%w: Redis at %s changes its history again and again", store.ErrUnavailable, s.server.name)
}

// once executes the script. The answer's reason is 0 if it found a history that is not
// noted.
func (s *Store) once(ctx context.Context, script lua.Script, keys []string, args ...string) (*answer, error) {
	if s.prepare != nil {
		script = s.prepare(script)
	}
	c := &call{nonce: s.nonces.next(), script: script, keys: keys, args: args, confirm: s.confirmation(script)}
	var words []string
	err := s.attempt(ctx, func(ctx context.Context, client redis.UniversalClient) (err error) {
		words, err = c.execute(ctx, client)
		if errors.Is(err, errForeignAnswer) {
			s.renew(client)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s of %s in Redis at %s: %w", c.meaning(err), script.Name, s.subject(keys), s.server.name, err)
	}
	a, err := newAnswer(script.Name, s.subject(keys), words)
	if err != nil || a.reason == 0 {
		return a, err
	}
	if err := c.confirm.refusal(); err != nil {
		return nil, fmt.Errorf("%w: %s of %s in Redis at %s answered %v, but %w", store.ErrUnknown, script.Name, s.subject(keys), s.server.name, a.reason, err)
	}
	return a, nil
}

// subject is the key that a call is about, for messages: its first, but for the epoch.
func (s *Store) subject(keys []string) string {
	if keys[0] == s.keys.epoch && len(keys) > 1 {
		return keys[1]
	}
	return keys[0]
}

// attempt runs f with a client and waits for it, at most until ctx or the Store's
// timeout ends. go-redis heeds a context's deadline but not its cancellation, so f
// runs in a goroutine and may outlive attempt, at most until the Store's timeout or
// Close; then what f returned is dropped.
func (s *Store) attempt(ctx context.Context, f func(context.Context, redis.UniversalClient) error) error {
	client, err := s.begin()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	done := make(chan error, 1)
	go func() {
		defer s.calls.Done()
		defer cancel()
		done <- f(ctx, client)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // ended by its context, or at the same moment: it knows more
		return err
	default:
		return ctx.Err()
	}
}

// call is one execution of a script. It is also the argument that carries the
// nonce: go-redis asks for its bytes when, and only when, it encodes the command.
type call struct {
	nonce   string
	script  lua.Script
	keys    []string
	args    []string
	confirm *confirmation // nil: no replica is asked
	state   atomic.Uint32
}

// States of a call. pending → sent and pending → abandoned exclude each other, so
// whoever gives up a pending call knows that it will not be sent.
const (
	pending uint32 = iota
	sent
	abandoned
)

// MarshalBinary implements encoding.BinaryMarshaler. From here on the command may
// reach the server. Its error keeps an abandoned command from being completed.
func (c *call) MarshalBinary() ([]byte, error) {
	if !c.state.CompareAndSwap(pending, sent) && c.state.Load() == abandoned {
		return nil, errAbandoned
	}
	return []byte(c.nonce), nil
}

// wasSent reports whether the command may have reached the server. If not, it never
// will.
func (c *call) wasSent() bool {
	c.state.CompareAndSwap(pending, abandoned)
	return c.state.Load() == sent
}

// execute sends the script by its SHA and, if the server does not have it, in full.
// It returns the words behind the nonce.
func (c *call) execute(ctx context.Context, client redis.UniversalClient) ([]string, error) {
	words, err := c.send(ctx, client, "evalsha", c.script.SHA)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		c.state.CompareAndSwap(sent, pending) // the server said that it ran nothing
		words, err = c.send(ctx, client, "eval", c.script.Source)
	}
	if err != nil {
		return nil, err
	}
	if len(words) == 0 || words[0] != c.nonce {
		return nil, errForeignAnswer
	}
	return words[1:], nil
}

func (c *call) send(ctx context.Context, client redis.UniversalClient, command, script string) ([]string, error) {
	args := make([]any, 0, 4+len(c.keys)+len(c.args))
	args = append(args, command, script, strconv.Itoa(len(c.keys)))
	for _, key := range c.keys {
		args = append(args, key)
	}
	args = append(args, c)
	for _, arg := range c.args {
		args = append(args, arg)
	}
	cmd := onceCmd{redis.NewStringSliceCmd(ctx, args...)}
	if c.confirm != nil {
		err := c.confirm.send(ctx, client, cmd)
		return cmd.Val(), err
	}
	err := client.Process(ctx, cmd)
	return cmd.Val(), err
}

// onceCmd is a command that a ClusterClient does not repeat either, whose own
// retries MaxRetries does not govern.
type onceCmd struct{ *redis.StringSliceCmd }

// NoRetry implements redis.Cmder.
func (onceCmd) NoRetry() bool { return true }

// Clone implements redis.Cmder.
func (c onceCmd) Clone() redis.Cmder {
	return onceCmd{c.StringSliceCmd.Clone().(*redis.StringSliceCmd)}
}

// nonces issues words that no other call of any process uses. Safe for concurrent use.
type nonces struct {
	prefix string
	last   atomic.Uint64
}

func newNonces() *nonces {
	var p [8]byte
	_, _ = rand.Read(p[:]) // never fails: crypto/rand ends the process instead
	return &nonces{prefix: hex.EncodeToString(p[:]) + "-"}
}

func (n *nonces) next() string {
	return n.prefix + strconv.FormatUint(n.last.Add(1), 36)
}
