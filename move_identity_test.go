package zlnode_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// What announces an Actor's state names the Join's operation beside the move, and the
// completion has it: of a move that fails at the source, else at the target.
// req: JN-18, JN-07
func TestAnOperationGoesAlongAsItsOwnField(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		restores := make(chan *wire.Restore, 8)
		x.roads.Watch("a", "b", wire.CmdRestore, func(r wire.Record) { restores <- r.(*wire.Restore) })
		var seen []zlnode.OperationID
		told := func(done zlnode.JoinDone) {
			r := receive(t, restores)
			if r.Op != done.Operation || r.Op == r.Relocation || done.Operation == (zlnode.OperationID{}) || slices.Contains(seen, done.Operation) {
				t.Errorf("the operation is %v, announced was %v of the move %v", done.Operation, r.Op, r.Relocation)
			}
		}
		x.walk.factory = func(*zlnode.ActorContext) error { return zlnode.Errorf(zlnode.InternalFailure, "breaks") }
		x.goes(walkTo{})
		failed := receive(t, x.walk.ended)
		told(failed)
		told(failed) // the second try
		seen, x.walk.factory = append(seen, failed.Operation), nil
		x.goes(walkTo{})
		told(x.arrives("b", x.spot.ID))
	})
}

// A process that takes the place of a move's target does not know of the Join: no callback of
// it runs there, and the Actor is not taken over.
// req: JN-18, RL-19
func TestACompletionIsNotReplayedByTheNextProcess(t *testing.T) {
	onCrossing(t, shortLeases("b"), func(t *testing.T, x *crossing) {
		x.asks(x.c, "before")
		x.goes(walkTo{Timeout: 10 * time.Second})
		x.await("it is committed", func() bool {
			row, found, err := x.location().Read(x.ctx, x.ref.ID)
			return err == nil && found && row.RID == "b"
		})
		x.child.kill()
		x.walk.notes.clear()
		next := x.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), x.app)
		x.linked(next, 1)
		for _, n := range []*zlnode.Node{next, x.c} {
			x.await("it is nobody's", func() bool { // routes and links of the process before end first
				_, err := zlnode.Request[[]string](x.ctx, n.Actor(x.ref.ID), "ask", "no")
				return zlnode.KindOf(err) == zlnode.Unavailable
			})
		}
		if did := slices.DeleteFunc(x.walk.notes.of("did"), func(line string) bool { return line == "leave entry at a" }); len(did)+len(x.walk.ended) != 0 {
			t.Errorf("it did %q", did)
		}
	})
}

// The news of a commit for the Session's owner is one record that nobody answers. It names the
// move for which the binding was sealed, the Actor where it is, and the binding.
// req: SB-03
func TestASessionsOwnerIsToldOnceWhereItsActorIs(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		x.bound()
		seals, routes := make(chan *wire.SessionSeal, 8), make(chan *wire.SessionRelocationRoute, 8)
		x.roads.Watch("a", "c", wire.CmdSessionSeal, func(r wire.Record) { seals <- r.(*wire.SessionSeal) })
		for _, from := range []string{"a", "b"} {
			x.roads.Watch(from, "c", wire.CmdSessionRelocationRoute, func(r wire.Record) { routes <- r.(*wire.SessionRelocationRoute) })
		}
		answers, _ := x.roads.Passed("c", "b", wire.CmdReply)
		x.goes(walkTo{})
		done := receive(t, x.walk.ended)
		seal, route := receive(t, seals), receive(t, routes)
		x.playerReaches("a client's")
		if !route.Commit || route.Relocation != seal.Relocation || route.Session != seal.Session || route.BindingGen != seal.BindingGen {
			t.Errorf("the route is %+v, the seal was %+v", route, seal)
		}
		at := zlnode.ActorRef{
			ID: string(route.Ref.ID), ObjectGen: route.Ref.ObjGen, Mesh: string(route.Ref.Mesh), RID: string(route.Ref.RID),
			Lifecycle: route.Ref.Lifecycle, OwnerGen: route.Ref.OwnerGen,
		}
		if at != done.Ref || string(route.Owner.RID) != "c" || route.Owner.Lifecycle != x.c.Lifecycle() {
			t.Errorf("it tells of %+v to %+v, the actor is %+v", at, route.Owner, done.Ref)
		}
		if now, _ := x.roads.Passed("c", "b", wire.CmdReply); now != answers || len(routes) != 0 {
			t.Errorf("%d answers and %d more routes came", now-answers, len(routes))
		}
	})
}

// A Spot hears of who joins and leaves by a Join, and of nothing else that becomes of Actors:
// their creation, their end, a move that fails, a Join to where they are, their node's end.
// req: MB-08, CR-11
func TestASpotHearsOfJoinsAlone(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		heard := func() (all []string) {
			for _, line := range x.walk.notes.of("did") {
				switch line {
				case "capture", "restore", "completed Accepted at a", "completed Accepted at b", "completed Failed at a":
				default:
					all = append(all, line)
				}
			}
			slices.Sort(all)
			return all
		}
		wants := func(when string, want ...string) {
			t.Helper()
			x.await(when, func() bool { return len(heard()) >= len(want) })
			if got := heard(); !slices.Equal(got, want) {
				t.Errorf("%s the spots heard %q, want %q", when, got, want)
			}
			x.walk.notes.clear()
		}
		other := x.createActorAt(x.c, "b", "walker")
		if gone, err := x.c.DestroyActor(x.ctx, other); !gone || err != nil {
			t.Fatal(gone, err)
		}
		x.goes(walkTo{Entry: true})
		x.arrives("a", x.entryOf())
		wants("of a creation, an end and a join to where it is")
		x.walk.factory = func(*zlnode.ActorContext) error { return zlnode.Errorf(zlnode.InternalFailure, "breaks") }
		x.goes(walkTo{})
		receive(t, x.walk.ended)
		wants("of a move that fails", "admit at b")
		x.walk.factory = nil
		x.goes(walkTo{})
		x.arrives("b", x.spot.ID)
		wants("of a move", "admit at b", "joined at b", "leave entry at a")
		x.stop(x.b)
		x.stop(x.a)
		wants("of its nodes' end")
	})
}
