package node

import (
	"context"
	"slices"
	"unicode/utf8"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

const (
	opCordon   = "cordon"
	opUncordon = "uncordon"
	// passBytesMax bounds a pass, which travels in configurations and not in records.
	passBytesMax = 255
)

// cordon keeps new objects from a node. It is part of each descriptor that is published while
// it stands, and so of that of a new epoch, too.
type cordon struct{ passes []string } // digests, sorted

// Cordon lets nobody place anything new at this node but who names one of the passes. A later
// one takes the place of the one before. It stands from the begin of the call, whatever comes
// of it: without an error the Store refuses others' reservations from its return on.
func (n *Node) Cordon(ctx context.Context, passes []string) error {
	c := &cordon{}
	for _, p := range passes {
		if len(p) == 0 || len(p) > passBytesMax || !utf8.ValidString(p) {
			return fail(errkind.InvalidOperation, opCordon, n.cfg.RID, "a pass has 1 to %d bytes of UTF-8", passBytesMax)
		}
		c.passes = append(c.passes, store.PassDigest(p))
	}
	slices.Sort(c.passes)
	if c.passes = slices.Compact(c.passes); len(c.passes) > store.PassesMax {
		return fail(errkind.InvalidOperation, opCordon, n.cfg.RID, "%d passes are more than %d", len(c.passes), store.PassesMax)
	}
	return n.setCordon(ctx, opCordon, c)
}

// Uncordon ends it.
func (n *Node) Uncordon(ctx context.Context) error { return n.setCordon(ctx, opUncordon, nil) }

func (n *Node) setCordon(ctx context.Context, op string, c *cordon) error {
	switch {
	case !n.hosts():
		return fail(errkind.NotConfigured, op, n.cfg.RID, "the node hosts no objects, so nothing is placed there")
	case n.stopping.Load():
		return errStopping.of(op, n.cfg.RID)
	}
	if before := n.cordon.Swap(c); (before == nil) != (c == nil) {
		n.log.Info().Bool("cordoned", c != nil).Msg("the cordon of the node has changed")
	}
	err := n.publish(ctx, op)
	n.discovery.meet()
	return err
}

// Cordoned reports whether a Cordon stands, and how many passes it has.
func (n *Node) Cordoned() (passes int, stands bool) {
	if c := n.cordon.Load(); c != nil {
		return len(c.passes), true
	}
	return 0, false
}
