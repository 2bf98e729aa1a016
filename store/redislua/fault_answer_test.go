package redislua

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// faults are what the road to the Store does to one call. Each ends the call for its
// caller.
var faults = []struct {
	name string
	at   stretch
	end  func(c *caught, giveUp context.CancelFunc)
	late bool // the call goes on after its caller asked again
}{
	{"LostBeforeTheServer", wayThere, func(c *caught, _ context.CancelFunc) { c.drop(false) }, false},
	{"ResetBeforeTheServer", wayThere, func(c *caught, _ context.CancelFunc) { c.drop(true) }, false},
	{"LateAtTheServer", wayThere, func(_ *caught, giveUp context.CancelFunc) { giveUp() }, true},
	{"AnswerLost", wayBack, func(c *caught, _ context.CancelFunc) { c.drop(false) }, false},
	{"AnswerReset", wayBack, func(c *caught, _ context.CancelFunc) { c.drop(true) }, false},
	{"AnswerLate", wayBack, func(_ *caught, giveUp context.CancelFunc) { giveUp() }, true},
}

// Whatever becomes of a call or its answer, asking again under the same operation
// applies the change once, and nothing else changes.
// req: FO-17
func TestAChangeWhoseAnswerIsLostIsAppliedOnce(t *testing.T) {
	onOwn(t, func(t *testing.T, url string) {
		raw := rawClient(t, url)
		loadScripts(t, raw)
		p := newProxy(t, url)
		for _, act := range acts {
			for _, fault := range faults {
				t.Run(act.name+"/"+fault.name, func(t *testing.T) {
					s := newStage(t, openStore(t, p.url(), patient))
					look := func() map[string]string { return snapshot(t, raw, &s.keys) }
					same := func(what string, was map[string]string) {
						t.Helper()
						if d := difference(was, look()); d != "" {
							t.Errorf("%s changed:%s", what, d)
						}
					}
					again := func(want store.Reason, try ask) {
						t.Helper()
						if reason, err := try(within(t)); err != nil || reason != want {
							t.Fatalf("asked again: %v, %v; want %v", reason, err, want)
						}
					}
					try := act.prepare(s, "object-1")
					before := look()

					ctx, giveUp := cancelable(t)
					defer giveUp()
					c := p.catch(act.script, fault.at)
					ended := make(chan error, 1)
					go func() {
						_, err := try(ctx)
						ended <- err
					}()
					c.wait()
					fault.end(c, giveUp)
					if err := <-ended; !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnavailable) {
						t.Fatalf("error is %v; want ErrUnknown", err)
					}
					if fault.at == wayThere {
						same("what the server never got", before)
						again(store.Applied, try)
					}
					after := look()
					if difference(before, after) == "" {
						t.Fatal("the change changed nothing")
					}
					audit(t, s.Store)
					if fault.late {
						if answer := c.letGo(); fault.at == wayThere && !strings.Contains(string(answer), "AlreadyApplied") {
							t.Errorf("the late call was answered %q; want AlreadyApplied", answer)
						}
					}
					again(store.AlreadyApplied, try)
					same("what was applied before", after)
				})
			}
		}
	})
}

// What was decided while a call was on its way stands when it arrives.
// The Store's half of RL-16.
func TestALateChangeDoesNotUndoWhatWasDecidedMeanwhile(t *testing.T) {
	onOwn(t, func(t *testing.T, url string) {
		raw := rawClient(t, url)
		loadScripts(t, raw)
		p := newProxy(t, url)
		for name, test := range map[string]struct {
			script lua.Script
			want   store.Reason // the late call's
			owner  string       // in the end; "" for no row
			play   func(s *stage) (late ask, meanwhile func())
		}{
			"CommitAfterTheTargetGaveUp": {lua.MoveCommit, store.MoveConflict, "node-a", func(s *stage) (ask, func()) {
				m := s.applied(s.ReserveMove(within(s.t), moveTo(s.actor("object-1"), s.b)))
				c := commitOf(m, s.b)
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.CommitMove(ctx, c)) },
					func() { s.applied(s.EndMove(within(s.t), endOf(m, store.Target, s.b))) }
			}},
			"CommitAfterTheSourceAborted": {lua.MoveCommit, store.MoveConflict, "node-a", func(s *stage) (ask, func()) {
				m := s.prepared("object-1")
				c := commitOf(m, s.b)
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.CommitMove(ctx, c)) },
					func() { s.applied(s.EndMove(within(s.t), endOf(m, store.Source, s.a))) }
			}},
			"CommitAfterALaterAttempt": {lua.MoveCommit, store.MoveConflict, "node-b", func(s *stage) (ask, func()) {
				m := s.applied(s.ReserveMove(within(s.t), moveTo(s.actor("object-1"), s.b)))
				c := commitOf(m, s.b)
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.CommitMove(ctx, c)) },
					func() {
						r := moveTo(s.applied(s.EndMove(within(s.t), endOf(m, store.Target, s.b))), s.b)
						r.Relocation, r.Attempt = m.Move.ID, 2
						next := s.applied(s.ReserveMove(within(s.t), r))
						s.applied(s.CommitMove(within(s.t), commitOf(next, s.b)))
					}
			}},
			"AbortAfterTheCommit": {lua.MoveEnd, store.MoveConflict, "node-b", func(s *stage) (ask, func()) {
				m := s.prepared("object-1")
				e := endOf(m, store.Source, s.a)
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.EndMove(ctx, e)) },
					func() { s.applied(s.CommitMove(within(s.t), commitOf(m, s.b))) }
			}},
			"AbortAfterTheWayBack": {lua.MoveEnd, store.MoveConflict, "node-a", func(s *stage) (ask, func()) {
				m := s.applied(s.ReserveMove(within(s.t), moveTo(s.actor("object-1"), s.b)))
				e := endOf(m, store.Source, s.a)
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.EndMove(ctx, e)) },
					func() {
						there := s.applied(s.CommitMove(within(s.t), commitOf(m, s.b)))
						back := s.applied(s.ReserveMove(within(s.t), moveTo(there, s.a)))
						s.applied(s.CommitMove(within(s.t), commitOf(back, s.a)))
					}
			}},
			"ReservationOfAnEndedMove": {lua.MoveReserve, store.VersionConflict, "node-a", func(s *stage) (ask, func()) {
				r := moveTo(s.actor("object-1"), s.b)
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.ReserveMove(ctx, r)) },
					func() {
						m := s.applied(s.ReserveMove(within(s.t), r))
						s.applied(s.EndMove(within(s.t), endOf(m, store.Source, s.a)))
					}
			}},
			"ReservationOfAFinishedCreation": {lua.ObjectReserve, store.AlreadyApplied, "", func(s *stage) (ask, func()) {
				r := reservation("object-1", store.Actor, false, s.a)
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Reserve(ctx, r)) },
					func() {
						a := s.applied(s.Reserve(within(s.t), r))
						s.applied(s.Finish(within(s.t), finishing(a, store.Rejected)))
					}
			}},
			"FinishOfAnIncarnationBefore": {lua.ObjectFinish, store.AlreadyApplied, "node-b", func(s *stage) (ask, func()) {
				a := s.applied(s.Reserve(within(s.t), reservation("object-1", store.Actor, false, s.a)))
				f := finishing(a, store.Rejected)
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Finish(ctx, f)) },
					func() {
						s.applied(s.Finish(within(s.t), f))
						s.applied(s.Reserve(within(s.t), reservation("object-1", store.Actor, false, s.b)))
					}
			}},
			"DeletionOfAnIncarnationBefore": {lua.ObjectDelete, store.AlreadyApplied, "node-b", func(s *stage) (ask, func()) {
				a, op := s.actor("object-1"), newOp()
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Delete(ctx, store.FenceOf(&a), op)) },
					func() {
						s.applied(s.Delete(within(s.t), store.FenceOf(&a), op))
						s.make("object-1", store.Actor, false, s.b)
					}
			}},
			"ReassertAfterTheEpochsEnd": {lua.ObjectReassert, store.EpochChanged, "node-a", func(s *stage) (ask, func()) {
				a := s.actor("object-1")
				r := asserted(a, s.a, s.raise())
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Reassert(ctx, r)) },
					func() { s.applied(s.Reassert(within(s.t), asserted(a, s.a, s.raise()))) }
			}},
			"CommitOfAnEarlierEpoch": {lua.MoveCommit, store.MoveConflict, "node-a", func(s *stage) (ask, func()) {
				m := s.applied(s.ReserveMove(within(s.t), moveTo(s.actor("object-1"), s.b)))
				c := commitOf(m, s.b)
				return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.CommitMove(ctx, c)) },
					func() {
						s.applied(s.Reassert(within(s.t), asserted(m, s.a, s.raise())))
					}
			}},
		} {
			t.Run(name, func(t *testing.T) {
				s := newStage(t, openStore(t, p.url(), patient))
				late, meanwhile := test.play(s)
				ctx, giveUp := cancelable(t)
				defer giveUp()
				c := p.catch(test.script, wayThere)
				ended := make(chan error, 1)
				go func() {
					_, err := late(ctx)
					ended <- err
				}()
				c.wait()
				giveUp()
				if err := <-ended; !errors.Is(err, store.ErrUnknown) {
					t.Fatalf("error is %v; want ErrUnknown", err)
				}
				meanwhile()
				decided := snapshot(t, raw, &s.keys)
				if answer := c.letGo(); !strings.Contains(string(answer), "\r\n"+test.want.String()+"\r\n") {
					t.Errorf("the late call was answered %q; want %v", answer, test.want)
				}
				if d := difference(decided, snapshot(t, raw, &s.keys)); d != "" {
					t.Errorf("the late call changed:%s", d)
				}
				audit(t, s.Store)
				switch test.owner {
				case "node-a":
					s.wantOwner("object-1", s.a)
				case "node-b":
					s.wantOwner("object-1", s.b)
				default:
					if _, found, err := s.Read(within(t), "object-1"); err != nil || found {
						t.Errorf("there is a row: %v, %v", found, err)
					}
				}
			})
		}
	})
}

// Connections break all the time while objects go to and fro: each move that was asked
// for, as often as it takes, counts once.
// req: ID-04
func TestMovesCountOnceThoughConnectionsBreak(t *testing.T) {
	onOwn(t, func(t *testing.T, url string) {
		const movers, moves = 8, 10
		p := newProxy(t, url)
		s := newStage(t, openStore(t, p.url()))
		var rows [movers]store.Authority
		for mover := range movers {
			rows[mover] = s.actor(fmt.Sprint("object-", mover))
		}
		var work sync.WaitGroup
		var lost atomic.Int32
		for mover, row := range rows {
			work.Go(func() {
				insist := func(try func() (store.Change, error)) bool {
					for ctx := within(t); ctx.Err() == nil; {
						c, err := try()
						switch {
						case errors.Is(err, store.ErrUnknown):
							lost.Add(1)
						case errors.Is(err, store.ErrUnavailable):
						case err != nil || c.Reason != store.Applied && c.Reason != store.AlreadyApplied:
							t.Errorf("%s: %v with %+v, %v", row.ID, c.Reason, c.Record, err)
							return false
						default:
							row = c.Record
							return true
						}
					}
					t.Errorf("%s: no answer in %v", row.ID, stepMax)
					return false
				}
				for n := range moves {
					to := s.b
					if n%2 == 1 {
						to = s.a
					}
					reserve := moveTo(row, to)
					if !insist(func() (store.Change, error) { return s.ReserveMove(within(t), reserve) }) {
						return
					}
					if n%3 == mover%3 {
						p.cut()
					}
					commit := commitOf(row, to)
					if !insist(func() (store.Change, error) { return s.CommitMove(within(t), commit) }) {
						return
					}
				}
			})
		}
		work.Wait()
		for _, row := range rows {
			if a := s.read(row.ID); a.OwnerGen != 1+moves {
				t.Errorf("%s has owner generation %d after %d moves", row.ID, a.OwnerGen, moves)
			}
			s.wantOwner(row.ID, s.a)
		}
		if lost.Load() == 0 {
			t.Error("no answer was lost")
		}
		audit(t, s.Store)
	})
}
