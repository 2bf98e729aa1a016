package proctest

import (
	"context"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/faultproxy"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/internal/witness"
)

// onRoads is a cluster under load whose nodes reach each other by roads.
func onRoads(t *testing.T) (*Cluster, *faultproxy.Roads, context.Context) {
	t.Helper()
	roads := faultproxy.New()
	t.Cleanup(roads.Close)
	c, ctx := cluster(t, Options{Servers: []string{"a", "b"}, Timeout: 3 * time.Second, Behind: func(cfg *zlnode.Config) {
		var err error
		if cfg.Advertise, cfg.Listen, err = roads.Behind(cfg.RID); err != nil {
			t.Error(err)
		}
	}})
	if err := c.Populate(ctx, 6); err != nil {
		t.Fatal(err)
	}
	c.Load(ctx, 1, "a", "b")
	t.Cleanup(c.Quiet)
	if err := c.Progress(ctx, 100, 6); err != nil {
		t.Fatal(err)
	}
	return c, roads, ctx
}

// moves waits until so many more Actors have gone from one server to the other.
func moves(t *testing.T, ctx context.Context, roads *faultproxy.Roads, more int) {
	t.Helper()
	moved := func() int {
		there, _ := roads.Passed("a", "b", wire.CmdActorLeft)
		back, _ := roads.Passed("b", "a", wire.CmdActorLeft)
		return there + back
	}
	enough := moved() + more
	if err := poll(ctx, "Actors move again", func() (bool, error) { return moved() >= enough, nil }); err != nil {
		t.Error(err)
	}
}

// A link is lost, or stands still, at each record of a move, and comes back: nobody dies, so
// nothing that was accepted is lost.
func TestALinkIsLostAtARecord(t *testing.T) {
	for _, at := range []struct {
		name       string
		from, to   string
		cmd        wire.Command
		inSelected bool
	}{
		{"admission", "a", "b", wire.CmdJoinAdmit, false},
		{"an answer", "b", "a", wire.CmdReply, false},
		{"manifest", "a", "b", wire.CmdRestore, false},
		{"chunk", "a", "b", wire.CmdStateChunk, false},
		{"progress", "b", "a", wire.CmdMoveProgress, false},
		{"relay", "a", "b", wire.CmdRelay, true},
		{"cutover", "a", "b", wire.CmdCutover, false},
		{"abort", "a", "b", wire.CmdMoveAbort, false},
		{"left", "b", "a", wire.CmdActorLeft, false},
		{"relayed reply", "b", senderRID, wire.CmdRelayedReply, false},
		{"session's seal", "a", gatewayRID, wire.CmdSessionSeal, false},
		{"session sealed", gatewayRID, "a", wire.CmdSessionSealed, false},
		{"source drained", "a", gatewayRID, wire.CmdSourceDrained, false},
		{"session's route", "a", gatewayRID, wire.CmdSessionRelocationRoute, false},
		{"packet", gatewayRID, "a", wire.CmdSessionPacket, false},
		{"follow notice", "a", senderRID, wire.CmdFollowNotice, false},
	} {
		for how, do := range map[string]faultproxy.Action{"cut before": faultproxy.CutBefore, "cut behind": faultproxy.CutBehind, "stall at": faultproxy.StallBefore} {
			if !all && (!at.inSelected || do != faultproxy.CutBefore) {
				continue
			}
			t.Run(how+" "+at.name, func(t *testing.T) {
				c, roads, ctx := onRoads(t)
				records, _ := roads.Passed(at.from, at.to, at.cmd)
				stop := roads.At(do, at.from, at.to, at.cmd, records+20)
				select {
				case <-stop.Reached:
				case <-ctx.Done():
					t.Fatal("no such record passes")
				}
				wait(ctx, time.Second)
				roads.Forget()
				roads.Open(at.from, at.to)
				roads.GoOn(at.from, at.to)
				moves(t, ctx, roads, 30) // so the link is back, for which sends may wait at old owners
				if lost := check(t, ctx, c, witness.Rules{Lossy: true}); len(lost) > 0 {
					t.Errorf("lost %v", lost)
				}
			})
		}
	}
}
