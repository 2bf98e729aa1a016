package zlnode_test

import (
	"slices"
	"testing"

	"github.com/zlnode/zlnode"
)

// A SpotWide Spot moves with its members by one commit: state, queues, timers and clients go along,
// no callback of membership runs, and what was queued runs before what was held (S34).
//
// req: AG-01 AG-04 AG-06 AG-09 RL-21 PO-04 S24 S33 S34
func TestASpotWideSpotMovesWithItsMembers(t *testing.T) {
	onParty(t, crossingOptions{}, 3, func(t *testing.T, p *party) {
		p.bound().ticking()
		p.rings()
		p.asksAll(p.c, "before")
		told := p.toldAll[p.ref.ID]
		stopped := p.stopped() // the first member has the gate of all
		p.tellsAll(p.a, "queued 1")
		p.tellsAll(p.a, "queued 2")
		moved := p.relocates(p.a, p.hall.ID, "b")
		p.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		if err := receive(t, moved); err != nil {
			t.Fatal(err)
		}
		p.tellsAll(p.a, "later 1") // by the old route
		p.asksAll(p.a, "later 2")
		p.areAt("b")
		p.told = p.toldAll[p.ref.ID]
		p.playerReaches("a client's")
		p.toldAll[p.ref.ID] = p.told
		p.hears("b")
		p.tolls("b")
		if did := p.walk.notes.of("did"); !slices.Contains(did, "initialize at b relocated=true members=3") || slices.Contains(did, "joined") || slices.Contains(did, "leave") {
			t.Errorf("the application was asked %q", did)
		}
		if closed := p.walk.notes.of("closing"); len(closed) != 1 {
			t.Errorf("the hall was closed: %q", closed)
		}
		_ = told
		if m := p.b.Stats().Moves; m.In != 4 {
			t.Errorf("%d objects have come, want 4", m.In)
		}
		p.inOrder()
		if err := p.relocate(p.b, p.hall.ID, "a"); err != nil { // and back, over what follows it
			t.Fatal(err)
		}
		p.asksAll(p.c, "home")
		p.playerIsThere()
		p.areAt("a")
		p.inOrder()
	})
}

// playerIsThere has the first member's client ask it.
func (p *party) playerIsThere() {
	p.t.Helper()
	p.told = p.toldAll[p.ref.ID]
	p.playerReaches("a client's again")
	p.toldAll[p.ref.ID] = p.told
}

var _ zlnode.Kind
