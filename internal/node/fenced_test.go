package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/timer"
)

// A turn that waits while its object ends here, as its row is another's, can do nothing
// any more with what it knows.
// req: RL-17
func TestATurnOfAnObjectThatHasEndedIsRefusedEverything(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	a.typ.Timers["beat"] = func(*Call, any, Tick) error { return nil }
	waits, ended := make(chan struct{}), make(chan struct{})
	over := make(chan map[string]error, 1)
	w.tell(a, func(c *Call) error {
		r := c.Registration()
		close(waits)
		c.gate.Blocking(func() { <-ended })
		to := w.node.Target("bob", false)
		note := &Outgoing{Name: "note", Payload: []byte{'x'}}
		_, requested := w.node.Request(c, &to, note)
		_, created := w.node.Create(c, CreateRequest{ID: "new", Type: "journal"})
		_, destroyed := w.node.Destroy(c, b.ref)
		over <- map[string]error{
			"send":     w.node.Send(c, &to, note),
			"request":  requested,
			"create":   created,
			"destroy":  destroyed,
			"work":     w.node.Do(c, CPU, func(context.Context) error { t.Error("it ran"); return nil }),
			"push":     c.Push("p", 0, nil, nil),
			"timer":    c.StartTimer("beat", timer.Options{Period: 1e9}),
			"join":     r.Defer(Join{Spot: "room"}),
			"send all": w.node.Send(context.WithoutCancel(c), &to, note),
		}
		return nil
	})
	await(t, "the handler", waits)
	a.refuseAll(errGone)
	close(ended)
	for what, err := range await(t, "what it got", over) {
		if !errors.Is(err, errkind.Unavailable) || !strings.Contains(err.Error(), errFenced.Text) {
			t.Errorf("%s: %v", what, err)
		}
	}
	barrier(t, b)
	w.is("")
}
