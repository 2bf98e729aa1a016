package witness

import (
	"slices"
	"strings"
	"testing"
)

// The Actor "a" is made at process 0, moves to process 1 and lives there. Process 2 asks.
// Times are the order of the lines.
type step struct {
	process int
	Record
}

const (
	source = iota
	target
	asker
)

func at(process int, kind Kind, ownerGen uint64, op Op) step {
	return step{process, Record{Kind: kind, Object: "a", ObjGen: 7, OwnerGen: ownerGen, Op: op}}
}

func (s step) flags(f uint8) step {
	s.Flags = f
	return s
}

func (s step) count(n uint32) step {
	s.Count = n
	return s
}

var (
	m1, m2, m3 = Message(BoundSender|1, 1), Message(BoundSender|1, 2), Message(5, 1)
	join       = Op{1}
)

// turn is the steps of a message's turn.
func turn(process int, ownerGen uint64, op Op, count uint32) []step {
	return []step{at(process, TurnBegan, ownerGen, op), at(process, Executed, ownerGen, op).count(count), at(process, TurnEnded, ownerGen, op)}
}

func good() []step {
	return slices.Concat(
		[]step{at(source, GateOpened, 1, Op{}), at(asker, Asked, 0, m1), at(asker, Asked, 0, m2), at(asker, Asked, 0, m3).flags(OneWay), at(source, Accepted, 1, m1)},
		turn(source, 1, m1, 1),
		[]step{at(asker, Ended, 0, m1), at(source, JoinWanted, 1, Op{}), at(target, JoinAdmitted, 1, Op{}), at(source, Accepted, 1, m2), at(source, GateClosed, 1, Op{}), at(source, Boundary, 1, Op{})},
		[]step{at(target, JoinedSpot, 2, Op{}), at(source, LeftSpot, 2, Op{}), at(target, JoinCompleted, 2, join), at(target, GateOpened, 2, Op{})},
		turn(target, 2, m2, 2),
		[]step{at(asker, Ended, 0, m2), at(target, Accepted, 2, m3), at(asker, Ended, 0, m3)},
		turn(target, 2, m3, 3),
	)
}

func logsOf(steps []step) []Log {
	logs := []Log{{Process: "source"}, {Process: "target"}, {Process: "asker"}}
	for i, s := range steps {
		s.At = 1000 + 10*nth(i)
		logs[s.process].Records = append(logs[s.process].Records, s.Record)
	}
	return logs
}

func TestAHistoryInOrderBreaksNothing(t *testing.T) {
	if got := Check(logsOf(good()), Rules{Faultless: true}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// index finds the one step of that kind with that operation.
func index(t *testing.T, steps []step, kind Kind, op Op) int {
	t.Helper()
	i := slices.IndexFunc(steps, func(s step) bool { return s.Kind == kind && s.Op == op })
	if i < 0 {
		t.Fatalf("no %v %x", kind, op)
	}
	return i
}

func TestEachBrokenPromiseIsFound(t *testing.T) {
	without := func(kind Kind, op Op) func(*testing.T, []step) []step {
		return func(t *testing.T, s []step) []step {
			i := index(t, s, kind, op)
			return slices.Delete(s, i, i+1)
		}
	}
	before := func(kind Kind, op Op, more ...step) func(*testing.T, []step) []step {
		return func(t *testing.T, s []step) []step { return slices.Insert(s, index(t, s, kind, op), more...) }
	}
	end := func(more ...step) func(*testing.T, []step) []step {
		return func(_ *testing.T, s []step) []step { return append(s, more...) }
	}
	move := func(kind Kind, op Op, to Kind, toOp Op) func(*testing.T, []step) []step {
		return func(t *testing.T, s []step) []step {
			i := index(t, s, kind, op)
			moved := s[i]
			s = slices.Delete(s, i, i+1)
			return slices.Insert(s, index(t, s, to, toOp), moved)
		}
	}
	flag := func(kind Kind, op Op, flags uint8) func(*testing.T, []step) []step {
		return func(t *testing.T, s []step) []step {
			s[index(t, s, kind, op)].Flags = flags
			return s
		}
	}
	for _, c := range []struct {
		name, want string
		change     func(*testing.T, []step) []step
	}{
		{"two open gates", "I1: a (incarnation 7) is opened", without(GateClosed, Op{})},
		{"two turns at once", "I1: a turn of a", before(TurnEnded, m1, at(target, TurnBegan, 1, Op{}))},
		{"a client's messages out of order", "I2: a (incarnation 7) executes message 1", end(at(target, TurnBegan, 2, m1))},
		{"a message that runs twice", "I3: message", end(at(target, TurnBegan, 2, m3))},
		{"a message that was accepted and is lost", "is lost", end(at(target, Accepted, 2, Message(9, 9)))},
		{"a message that was taken and is lost", "lost on its way", end(at(asker, Asked, 0, Message(9, 9)).flags(OneWay), at(asker, Ended, 0, Message(9, 9)))},
		{"a request that was answered by nobody", "I3: request", end(at(asker, Asked, 0, Message(9, 9)), at(asker, Ended, 0, Message(9, 9)))},
		{"a turn behind the boundary", "I4: TurnBegan of a", before(JoinedSpot, Op{}, at(source, TurnBegan, 1, Op{}), at(source, TurnEnded, 1, Op{}))},
		{"a gate that opens behind the boundary", "I4: GateOpened of a", before(JoinedSpot, Op{}, at(source, GateOpened, 1, Op{}), at(source, GateClosed, 1, Op{}))},
		{"a request without an end", "I6: operation", without(Ended, m1)},
		{"a request with two ends", "I6: operation", end(at(asker, Ended, 0, m1))},
		{"an end that nobody asked for", "nobody has asked", end(at(asker, Ended, 0, Message(9, 9)))},
		{"a request that only its caller knows to be done", "failed where it ran", flag(TurnEnded, m1, Failed)},
		{"a failure without a fault", "failed without a fault", flag(Ended, m1, Failed)},
		{"a Join without an end", "I6: a (incarnation 7) wanted 1 joins, of which 0", without(JoinCompleted, join)},
		{"a Join with two ends", "completes with two outcomes", end(at(source, JoinCompleted, 1, join).flags(Failed))},
		{"a turn before OnJoinCompleted", "its first turn of a", move(JoinCompleted, join, Ended, m2)},
		{"a completion before OnJoinedActor", "OnJoinCompleted of a", move(JoinCompleted, join, JoinedSpot, Op{})},
		{"OnLeaveActor before OnJoinedActor", "OnLeaveActor of a", move(LeftSpot, Op{}, JoinedSpot, Op{})},
		{"OnJoinedActor twice", "OnJoinedActor of a (incarnation 7) at owner generation 2 runs 2 times", before(LeftSpot, Op{}, at(target, JoinedSpot, 2, Op{}))},
		{"OnActorJoin behind the seal", "OnActorJoin of a", move(JoinAdmitted, Op{}, JoinedSpot, Op{})},
		{"no OnLeaveActor without a fault", "OnLeaveActor ran 0 times", without(LeftSpot, Op{})},
		{"a turn without what the one before left", "I14: a (incarnation 7) has executed 2 messages at target (at", func(t *testing.T, s []step) []step {
			s[index(t, s, Executed, m3)].Count = 2
			return s
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Check(logsOf(c.change(t, good())), Rules{Faultless: true})
			if !slices.ContainsFunc(got, func(v Violation) bool { return strings.Contains(v.String(), c.want) }) {
				t.Errorf("found %v, want %q", got, c.want)
			}
		})
	}
}

// moved is good with a move by the Actor's node before the Join, and all that the node says then.
func moved() []step {
	return append([]step{
		at(asker, GateOpened, 0, Op{}), at(asker, GateClosed, 0, Op{}), at(asker, Boundary, 0, Op{}), {asker, Record{Kind: Vacated}},
	}, good()...)
}

// A move of a node runs no callback, in whatever order Joins come with it.
func TestAMoveOfANodeHasNoCallbacks(t *testing.T) {
	if got := Check(logsOf(moved()), Rules{Faultless: true}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for _, c := range []struct {
		name, want string
		step       step
	}{
		{"OnJoinedActor", "I13: OnJoinedActor of a (incarnation 7) at owner generation 1 runs at source", at(source, JoinedSpot, 1, Op{})},
		{"OnLeaveActor", "I13: OnLeaveActor of a (incarnation 7) at owner generation 1 runs at asker", at(asker, LeftSpot, 1, Op{})},
		{"a turn where all had left", "I16: TurnBegan of a", at(asker, TurnBegan, 1, Message(9, 9))},
		{"a gate that opens where all had left", "I16: GateOpened of a", at(asker, GateOpened, 0, Op{})},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := moved()
			at := index(t, steps, TurnBegan, m1)
			got := Check(logsOf(slices.Insert(steps, at, c.step)), Rules{Faultless: true})
			if !slices.ContainsFunc(got, func(v Violation) bool { return strings.Contains(v.String(), c.want) }) {
				t.Errorf("found %v, want %q", got, c.want)
			}
		})
	}
}

// A Join to a Spot of the same node leaves the Actor's owner as it is.
func TestAJoinWithinANodeHasItsOwnCallbacks(t *testing.T) {
	here := Op{2}
	steps := append(good(), at(target, JoinWanted, 2, Op{}), at(target, JoinAdmitted, 2, Op{}), at(target, JoinedSpot, 2, Op{}),
		at(target, LeftSpot, 2, Op{}), at(target, JoinCompleted, 2, here))
	if got := Check(logsOf(steps), Rules{Faultless: true}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	steps = append(steps, at(target, JoinWanted, 2, Op{}), at(target, JoinCompleted, 2, Op{3}).flags(Failed))
	if got := Check(logsOf(steps), Rules{Faultless: true, JoinsFail: true}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := Check(logsOf(steps), Rules{Faultless: true}); len(got) != 1 {
		t.Errorf("%v, want one that failed", got)
	}
}

// What a process that died may have had is not missed, and its objects are no more open.
func TestWhatADeadProcessHadMayBeLost(t *testing.T) {
	steps := append(good(), at(asker, Asked, 0, Message(9, 9)).flags(OneWay), at(asker, Ended, 0, Message(9, 9)), at(target, Accepted, 2, Message(9, 9)),
		at(target, TurnBegan, 2, Message(9, 10)))
	logs := logsOf(steps)
	logs[target].Died = 1000 + 10*nth(len(steps))
	last := at(source, GateOpened, 3, Op{})
	last.At = logs[target].Died + 10
	logs[source].Records = append(logs[source].Records, last.Record)
	if got := Check(logs, Rules{}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestOneWayMessagesMayBeLostOnTheirWayIfLinksWere(t *testing.T) {
	op := Message(9, 9)
	steps := append(good(), at(asker, Asked, 0, op).flags(OneWay), at(asker, Ended, 0, op))
	if got := Check(logsOf(steps), Rules{Lossy: true}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	steps = append(steps, at(target, Accepted, 2, op)) // where no link's loss can reach it
	if got := Check(logsOf(steps), Rules{Lossy: true}); len(got) != 1 {
		t.Errorf("%v, want a loss", got)
	}
}
