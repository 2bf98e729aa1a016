package zlnode_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// quests is what the Instance Spots of a test's nodes have in common: what they did, and
// what the test wants them to do.
type quests struct {
	made       atomic.Int64 // runs of the factory
	factory    func(*zlnode.SpotContext) error
	hold       chan struct{} // "hold" waits for it
	initialize func(*zlnode.SpotCall) error
	closing    func(*zlnode.SpotCall)
	notes      journal // "handled <number of the spot>:<packet>" and "closed <number>:<reason>"
}

type quest struct {
	all    *quests
	number int64
	seen   []int
}

func (q *quest) OnInitialize(c *zlnode.SpotCall) error {
	if q.all.initialize != nil {
		return q.all.initialize(c)
	}
	return nil
}

func (q *quest) OnClosing(c *zlnode.SpotCall, reason zlnode.ClosingReason) error {
	q.all.notes.add("closed %d:%d", q.number, reason)
	if q.all.closing != nil {
		q.all.closing(c)
	}
	return nil
}

func (q *quests) handled() []string { return q.notes.of("handled") }
func (q *quests) closed() []string  { return q.notes.of("closed") }

// questState is what a quest tells of itself.
type questState struct {
	Number int64
	RID    string
	Seen   []int
}

func (q *quests) app() *zlnode.App {
	app := zlnode.NewApp()
	t := zlnode.DefineInstanceSpot(app, "quest", func(c *zlnode.SpotContext) (*quest, error) {
		s := &quest{all: q, number: q.made.Add(1)}
		if q.factory != nil {
			return s, q.factory(c)
		}
		return s, nil
	}, zlnode.DisableRelocation)
	step := func(c *zlnode.SpotCall, s *quest, n int) (questState, error) {
		s.seen = append(s.seen, n)
		q.notes.add("handled %d:%d", s.number, n)
		return questState{s.number, c.Node().RID(), slices.Clone(s.seen)}, nil
	}
	zlnode.OnSpotRequest(t, "step", step)
	zlnode.OnSpotSend(t, "step", func(c *zlnode.SpotCall, s *quest, n int) error {
		_, err := step(c, s, n)
		return err
	})
	zlnode.OnSpotRequest(t, "hold", func(c *zlnode.SpotCall, s *quest, n int) (questState, error) {
		<-q.hold
		return step(c, s, n)
	})
	zlnode.OnSpotRequest(t, "end", func(c *zlnode.SpotCall, s *quest, n int) (questState, error) {
		if closes, err := c.Close(); !closes || err != nil {
			return questState{}, err
		}
		return step(c, s, n)
	})
	zlnode.OnSpotSend(t, "end later", func(c *zlnode.SpotCall, _ *quest, after time.Duration) error {
		return c.StartTimer("end", zlnode.TimerOptions{Delay: after})
	})
	zlnode.OnSpotTimer(t, "end", func(c *zlnode.SpotCall, _ *quest, _ zlnode.Tick) error {
		_, err := c.Close()
		return err
	})
	other := zlnode.DefineInstanceSpot(app, "other", func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.DisableRelocation)
	zlnode.OnSpotRequest(other, "step", func(*zlnode.SpotCall, *struct{}, int) (int, error) { return 0, nil })
	return app
}

func step(ctx context.Context, n *zlnode.Node, id string, i int) (questState, error) {
	return zlnode.Request[questState](ctx, n.Instance(id, "quest"), "step", i)
}

// S28: first calls of many at two nodes make one Spot, whose first message is the first it
// handles; the others are handled by it, too, each once.
// req: CR-01 CR-18
func TestFirstMessagesOfManyMakeOneInstanceSpot(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		a, b := w.server("a", q.app()), w.server("b", q.app())
		c := w.client("c", 2, zlnode.NewApp())
		w.linked(a, 1)
		w.linked(b, 1)
		nodes := []*zlnode.Node{a, b, c}
		for round := range 3 {
			id, before := fmt.Sprint("quest-", round), q.made.Load()
			var wg sync.WaitGroup
			var rids sync.Map
			for i := range 100 {
				wg.Go(func() {
					if i%10 == 0 {
						if err := zlnode.Send(w.ctx, nodes[i%3].Instance(id, "quest"), "step", i); err != nil {
							t.Errorf("send %d: %v", i, err)
						}
						return
					}
					s, err := step(w.ctx, nodes[i%3], id, i)
					if err != nil {
						t.Errorf("request %d: %v", i, err)
						return
					}
					rids.Store(s.RID, true)
				})
			}
			wg.Wait()
			if made := q.made.Load() - before; made != 1 {
				t.Errorf("%d factories ran", made)
			}
			s, err := step(w.ctx, c, id, 100)
			if err != nil {
				t.Fatal(err)
			}
			for again := 101; len(s.Seen) < again; again++ { // one-way ones that were taken may not have run
				if s, err = step(w.ctx, c, id, 100); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(s.Seen)
			if handled := slices.Index(s.Seen, 100); handled != 100 {
				t.Errorf("%d of 100 messages were handled: %v", handled, s.Seen)
			}
			rids.Range(func(rid, _ any) bool {
				if rid != s.RID {
					t.Errorf("a message was handled at %v, the spot is at %s", rid, s.RID)
				}
				return true
			})
			row, found, err := w.location().Read(w.ctx, id)
			if err != nil || !found || row.State != store.Ready || row.Kind != store.InstanceSpot || row.FirstPending {
				t.Errorf("the row is %+v, %v %v", row, found, err)
			}
		}
	})
}

// The target reserves for itself, with the message stored; while the factory runs nothing
// is handled, and then the first message comes first, and the rest in its order.
// req: CR-02 CR-18 FO-13
func TestWhatComesDuringAnActivationWaitsBehindTheFirstMessage(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		entered, open := make(chan struct{}, 1), make(chan struct{})
		q := quests{factory: func(*zlnode.SpotContext) error {
			entered <- struct{}{}
			<-open
			return nil
		}}
		a := w.server("a", q.app())
		c := w.client("c", 1, zlnode.NewApp())
		first := make(chan error, 1)
		go func() {
			_, err := step(w.ctx, c, "x", 0)
			first <- err
		}()
		receive(t, entered)
		st := w.location()
		row, found, err := st.Read(w.ctx, "x")
		if err != nil || !found || row.State != store.Creating || row.Create.Op.SourceRID != "a" {
			t.Fatalf("the row is %+v, %v %v; want one that a reserved for itself", row, found, err)
		}
		f, kept, err := st.ReadFirst(w.ctx, "x", row.ObjectGen)
		if err != nil || !kept {
			t.Fatalf("the first message is not stored: %v %v", kept, err)
		}
		record, err := wire.Decode(f.Message)
		if m, ok := record.(*wire.InstanceMessage); err != nil || !ok || string(m.Name) != "step" || string(m.Payload) != "0" {
			t.Errorf("stored is %+v, %v", record, err)
		}
		// Of one sender, who waits for none of them: in the order of acceptance.
		for i := range 5 {
			if err := zlnode.Send(w.ctx, a.Instance("x", "quest"), "step", i+1); err != nil {
				t.Fatal(err)
			}
		}
		short, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
		defer cancel()
		_, err = step(short, c, "x", 66) // its own deadline; the others wait on
		wantKind(t, err, zlnode.DeadlineExceeded)
		<-time.After(100 * time.Millisecond) // it is over at its node, too, where it began to count later
		if handled := q.handled(); len(handled) != 0 {
			t.Errorf("handled before the spot was: %v", handled)
		}
		close(open)
		if err := receive(t, first); err != nil {
			t.Fatal(err)
		}
		s, err := step(w.ctx, c, "x", 6)
		if err != nil || !slices.Equal(s.Seen, []int{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("handled %v, %v", s.Seen, err)
		}
		row, _, err = st.Read(w.ctx, "x")
		if _, kept, _ := st.ReadFirst(w.ctx, "x", row.ObjectGen); err != nil || kept || row.FirstPending {
			t.Errorf("the message is back and still kept: %v %v", row.FirstPending, err)
		}
	})
}

// A send that waits for the spot is done when the spot's queue has it, whatever runs before.
func TestASendIsDoneOnceTheSpotIsOpen(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		entered, open := make(chan struct{}, 1), make(chan struct{})
		q := quests{hold: make(chan struct{}), factory: func(*zlnode.SpotContext) error {
			entered <- struct{}{}
			<-open
			return nil
		}}
		w.server("a", q.app())
		c := w.client("c", 1, zlnode.NewApp())
		first, sent := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := zlnode.Request[questState](w.ctx, c.Instance("x", "quest"), "hold", 1)
			first <- err
		}()
		receive(t, entered)
		go func() { sent <- zlnode.Send(w.ctx, c.Instance("x", "quest"), "step", 2) }()
		<-time.After(50 * time.Millisecond) // most likely it waits behind the first by then
		if len(sent) > 0 {
			t.Error("a send was done before the spot was")
		}
		close(open)
		if err := receive(t, sent); err != nil {
			t.Error(err)
		}
		if len(first) > 0 {
			t.Error("the first message had ended")
		}
		close(q.hold)
		if err := receive(t, first); err != nil {
			t.Error(err)
		}
		if s, err := step(w.ctx, c, "x", 3); err != nil || !slices.Equal(s.Seen, []int{1, 2, 3}) {
			t.Errorf("%+v %v", s, err)
		}
	})
}

// S30: who was first gets the failure, of a send, too; those who waited compete again, and
// so does the next call.
// req: CR-08
func TestAnActivationThatFailsFailsOneCallAlone(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var failures atomic.Int64
		q := quests{initialize: func(*zlnode.SpotCall) error {
			if failures.Add(-1) >= 0 {
				return zlnode.Errorf(zlnode.Rejected, "no quest today")
			}
			return nil
		}}
		a := w.server("a", q.app())
		c := w.client("c", 1, zlnode.NewApp())
		for _, n := range []*zlnode.Node{a, c} {
			failures.Store(1)
			id := "request by " + n.RID()
			_, err := step(w.ctx, n, id, 1)
			wantKind(t, err, zlnode.Rejected)
			if _, found, err := w.location().Read(w.ctx, id); err != nil || found {
				t.Errorf("the row of a failed creation is there: %v %v", found, err)
			}
			if s, err := step(w.ctx, n, id, 2); err != nil || !slices.Equal(s.Seen, []int{2}) {
				t.Errorf("the next call: %+v %v", s, err)
			}
			failures.Store(1)
			err = zlnode.Send(w.ctx, n.Instance("send by "+n.RID(), "quest"), "step", 1)
			wantKind(t, err, zlnode.Rejected)
		}
		// Three of many fail, one each.
		failures.Store(3)
		var wg sync.WaitGroup
		var failed atomic.Int64
		for i := range 20 {
			wg.Go(func() {
				if _, err := step(w.ctx, []*zlnode.Node{a, c}[i%2], "many", i); err != nil {
					failed.Add(1)
					if !errors.Is(err, zlnode.Rejected) {
						t.Errorf("caller %d: %v", i, err)
					}
				}
			})
		}
		wg.Wait()
		if failed.Load() != 3 {
			t.Errorf("%d calls failed, 3 activations did", failed.Load())
		}
	})
}

// A factory or OnInitialize that hangs past the deadline: the next call has another spot.
func TestAnActivationThatHangsIsGivenUpAtItsDeadline(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		for _, way := range []string{"factory", "initialize"} {
			release := make(chan struct{})
			var hangs atomic.Bool
			hangs.Store(true)
			hang := func() error {
				if hangs.Load() {
					<-release
				}
				return nil
			}
			q := quests{factory: func(*zlnode.SpotContext) error { return hang() }}
			if way == "initialize" {
				q = quests{initialize: func(*zlnode.SpotCall) error { return hang() }}
			}
			a := w.server(way, q.app())
			ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
			_, err := step(ctx, a, way, 1)
			cancel()
			wantKind(t, err, zlnode.DeadlineExceeded)
			hangs.Store(false)
			if s, err := step(w.ctx, a, way, 2); err != nil || !slices.Equal(s.Seen, []int{2}) {
				t.Errorf("%s: the next call: %+v %v", way, s, err)
			}
			close(release)
			w.stop(a)
		}
	})
}

// req: FO-12
func TestAnInstanceMessageGoesByWhatIsThere(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		app := q.app()
		zlnode.DefineActor(app, "counter", func(*zlnode.ActorContext) (*counter, error) { return &counter{}, nil }, zlnode.DisableRelocation)
		a := w.server("a", app)
		c := w.client("c", 1, zlnode.NewApp())
		if _, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "actor", Type: "counter"}); err != nil {
			t.Fatal(err)
		}
		for _, n := range []*zlnode.Node{a, c} {
			id := "quest of " + n.RID()
			_, err := zlnode.Request[questState](w.ctx, n.Instance(id, ""), "step", 1)
			wantKind(t, err, zlnode.NotFound)
			err = zlnode.Send(w.ctx, n.Instance(id, ""), "step", 1)
			wantKind(t, err, zlnode.NotFound)
			_, err = zlnode.Request[questState](w.ctx, n.Spot(id), "step", 1)
			wantKind(t, err, zlnode.NotFound)
			_, err = step(w.ctx, n, id, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i, addr := range []zlnode.Addr{n.Instance(id, ""), n.Spot(id), n.Instance(id, "quest")} {
				if s, err := zlnode.Request[questState](w.ctx, addr, "step", 2); err != nil || len(s.Seen) != 2+i {
					t.Errorf("to what is there: %+v %v", s, err)
				}
				if err := zlnode.Send(w.ctx, n.Instance("other of "+n.RID(), ""), "step", 0); !errors.Is(err, zlnode.NotFound) {
					t.Errorf("to what is not there: %v", err)
				}
			}
			_, err = zlnode.Request[int](w.ctx, n.Instance(id, "other"), "step", 1)
			wantKind(t, err, zlnode.TypeMismatch)
			_, err = zlnode.Request[int](w.ctx, n.Actor(id), "step", 1)
			wantKind(t, err, zlnode.TypeMismatch)
			_, err = step(w.ctx, n, "actor", 1)
			wantKind(t, err, zlnode.TypeMismatch)
			_, err = zlnode.Request[int](w.ctx, n.Instance("none", "unknown"), "step", 1)
			wantKind(t, err, zlnode.Unavailable)
			_, err = zlnode.Request[int](w.ctx, n.Instance("none", "no type"), "step", 1)
			wantKind(t, err, zlnode.InvalidOperation)
			_, err = step(w.ctx, n, "", 1)
			wantKind(t, err, zlnode.InvalidOperation)
		}
	})
}

// S05: nodes that are full are passed over, within one call.
func TestAFullNodeIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, MaxSpots: 1}, q.app())
		w.start(zlnode.Config{RID: "b", Role: zlnode.RoleServer, MaxSpots: 2}, q.app())
		c := w.client("c", 2, zlnode.NewApp())
		var wg sync.WaitGroup
		var full atomic.Int64
		for i := range 5 {
			wg.Go(func() {
				_, err := step(w.ctx, c, fmt.Sprint("q", i), i)
				if errors.Is(err, zlnode.CapacityExceeded) {
					full.Add(1)
				} else if err != nil {
					t.Errorf("q%d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if full.Load() != 2 || q.made.Load() != 3 {
			t.Errorf("%d of 5 found no room and %d were made; there is room for 3", full.Load(), q.made.Load())
		}
	})
}

// S04: a User Spot's creation races with first messages: one kind wins, and the other's
// factory never runs.
// req: CR-01
func TestOneKindWinsARaceForAnId(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		var rooms atomic.Int64
		app := q.app()
		zlnode.DefineUserSpot(app, "room", func(*zlnode.SpotContext) (*struct{}, error) {
			rooms.Add(1)
			return &struct{}{}, nil
		}, zlnode.SpotWide, zlnode.DisableRelocation)
		a := w.server("a", app)
		c := w.client("c", 1, zlnode.NewApp())
		for round := range 20 {
			id := fmt.Sprint("x", round)
			quests, before := q.made.Load(), rooms.Load()
			var wg sync.WaitGroup
			var created, handled atomic.Int64
			note := func(n *atomic.Int64, err error) {
				if err == nil {
					n.Add(1)
				} else if !errors.Is(err, zlnode.TypeMismatch) {
					t.Errorf("round %d: %v", round, err)
				}
			}
			for _, n := range []*zlnode.Node{a, c} {
				wg.Go(func() {
					_, err := n.GetOrCreateSpot(w.ctx, zlnode.CreateSpot{ID: id, Type: "room"})
					note(&created, err)
				})
				wg.Go(func() {
					_, err := step(w.ctx, n, id, 1)
					note(&handled, err)
				})
			}
			wg.Wait()
			asQuest, asRoom := q.made.Load()-quests, rooms.Load()-before
			if asQuest+asRoom != 1 || created.Load() != 2*asRoom || handled.Load() != 2*asQuest {
				t.Errorf("round %d: %d quests and %d rooms; %d have the room, %d the quest", round, asQuest, asRoom, created.Load(), handled.Load())
			}
		}
	})
}

// A first message is stored, with what belongs to it in 1 MiB.
// req: CR-09
func TestAFirstMessageHasRoomForItsRecord(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		w.server("a", q.app())
		c := w.client("c", 1, zlnode.NewApp())
		payload := append([]byte("1"), make([]byte, 1<<20-1)...)
		for i := range payload[1:] {
			payload[i+1] = ' '
		}
		addr := c.Instance("x", "quest")
		_, err := addr.RequestRaw(w.ctx, "step", payload)
		wantKind(t, err, zlnode.InvalidOperation)
		if _, err = addr.RequestRaw(w.ctx, "step", payload[:1<<20-2048]); zlnode.KindOf(err) == zlnode.Unavailable {
			t.Error(err)
		}
		if _, err := step(w.ctx, c, "x", 1); err != nil {
			t.Error(err)
		}
		if _, err := addr.RequestRaw(w.ctx, "step", payload); zlnode.KindOf(err) == zlnode.InvalidOperation {
			t.Errorf("to a spot that is there: %v", err)
		}
	})
}

// What is accepted behind a first message that cannot be stored has a spot all the same.
// req: CR-18
func TestAFirstMessageThatIsTooLargeFailsAlone(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		closing, open := make(chan struct{}, 10), make(chan struct{})
		q := quests{closing: func(*zlnode.SpotCall) { closing <- struct{}{}; <-open }}
		a := w.server("a", q.app())
		if _, err := zlnode.Request[questState](w.ctx, a.Instance("x", "quest"), "end", 1); err != nil {
			t.Fatal(err)
		}
		receive(t, closing)
		large := append([]byte("1"), bytes.Repeat([]byte(" "), 1<<20-1)...)
		if err := a.Instance("x", "quest").SendRaw(w.ctx, "step", large); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := zlnode.Send(w.ctx, a.Instance("x", "quest"), "step", 2+i); err != nil {
				t.Fatal(err)
			}
		}
		close(open)
		if s, err := step(w.ctx, a, "x", 5); err != nil || !slices.Equal(s.Seen, []int{2, 3, 4, 5}) {
			t.Errorf("the spot after it: %+v %v", s, err)
		}
		if n := a.Stats().Dropped; n != 1 {
			t.Errorf("%d messages were dropped, want the large one", n)
		}
	})
}
