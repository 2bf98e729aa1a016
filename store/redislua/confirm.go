package redislua

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/scripts/lua"
)

// unconfirmed are the scripts whose answer waits for no replica: those that change
// nothing, and epoch_note. A failover that loses a noted epoch begins a later one.
var unconfirmed = map[string]bool{
	lua.EpochNote.Name:     true,
	lua.NodeIndex.Name:     true,
	lua.NodePage.Name:      true,
	lua.ObjectRead.Name:    true,
	lua.FirstRead.Name:     true,
	lua.TerminalRead.Name:  true,
	lua.InventoryRead.Name: true,
	lua.Page.Name:          true,
	lua.RowsRead.Name:      true,
}

// confirmation makes replicas confirm what a script wrote, and everything that it may
// have answered from. WAIT counts what its own connection wrote, so it follows the script
// in one pipeline. A refusal and a repeat that finds its operation applied write nothing
// themselves: a small write stands between.
type confirmation struct {
	replicas int
	timeout  time.Duration
	marker   string // key of the small write

	got int64 // replicas that confirmed
	err error // why that is not known
}

// confirmation is what a call of the script waits for, nil for nothing.
func (s *Store) confirmation(script lua.Script) *confirmation {
	if s.options.WaitReplicas == 0 || unconfirmed[script.Name] {
		return nil
	}
	return &confirmation{replicas: s.options.WaitReplicas, timeout: s.options.WaitTimeout, marker: s.keys.confirm}
}

// send sends the script and asks for confirmation, and returns the script's error. What
// stands behind a script that was not run confirms nothing: the last send counts.
func (c *confirmation) send(ctx context.Context, client redis.UniversalClient, script onceCmd) error {
	wait := newWait(ctx, c.replicas, c.timeout)
	pipe := client.Pipeline()
	_ = pipe.Process(ctx, script) // is only queued
	pipe.Set(ctx, c.marker, "", 0)
	_ = pipe.Process(ctx, wait)
	_, err := pipe.Exec(ctx)
	c.got, c.err = wait.Val(), wait.Err()
	if script.Err() != nil || script.Val() != nil {
		return script.Err()
	}
	return err // of making the connection
}

// refusal says why the script's answer may not be relied on; nil if it may.
func (c *confirmation) refusal() error {
	switch {
	case c == nil:
		return nil
	case c.err != nil:
		return fmt.Errorf("whether %d replicas have that is not known: repeat with the same operation: %w", c.replicas, c.err)
	case c.got < int64(c.replicas):
		return fmt.Errorf("within %v %d of %d replicas confirmed it: it is so at the primary; repeat with the same operation",
			c.timeout, c.got, c.replicas)
	default:
		return nil
	}
}

// newWait makes a WAIT, which answers how many replicas have all that its connection
// wrote. A timeout of 0 would be none.
func newWait(ctx context.Context, replicas int, timeout time.Duration) *redis.IntCmd {
	return redis.NewIntCmd(ctx, "wait", replicas, max(timeout.Milliseconds(), 1))
}
