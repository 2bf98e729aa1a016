package redislua

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/store"
	"github.com/zlnode/zlnode/store/storetest"
	"github.com/zlnode/zlnode/store/storetest/model"
)

// TestStoreAnswersAsTheModelDoes runs random operations on the model, on the embedded
// Redis and, if there is one, on a real one. Few ids and processes meet often; fences
// are old and operations come twice on purpose. After each operation all must have
// answered the same, now and then all that can be read is compared, and nothing beside
// the rows may differ from what follows from them. Nothing
// ends by itself: what shall expire is made to. The flag -rapid.checks says how many
// sequences; ZLNODE_TEST_VERBOSE shows how often each outcome came up.
func TestStoreAnswersAsTheModelDoes(t *testing.T) {
	sides := []*side{modelSide(), redisSide(t, "Embedded", embeddedRedis(t).URL())}
	if url := realURL(); url != "" {
		sides = append(sides, redisSide(t, "Real", url))
	}
	met, sequences := map[string]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		sequences++
		d := &duel{rt: rt, sides: sides, met: met}
		for _, s := range sides {
			s.begin()
		}
		d.setUp()
		for range d.draw("steps", 40) {
			d.step()
		}
		d.compareAll()
	})
	if t.Failed() {
		return
	}
	if os.Getenv("ZLNODE_TEST_VERBOSE") != "" {
		var lines []string
		for what, n := range met {
			lines = append(lines, fmt.Sprintf("%s %d", what, n))
		}
		slices.Sort(lines)
		t.Log(strings.Join(lines, "\n"))
	}
	for _, what := range mustMeet {
		if met[what] == 0 && sequences >= enough {
			t.Errorf("%q never came up: the test does not reach what it is for", what)
		}
	}
}

// mustMeet are outcomes that are far from the start: enough sequences meet each.
const enough = 1000

var mustMeet = []string{
	"ChangeSpot Applied", "ReserveMove Applied", "ReserveMove CapacityExceeded", "CommitMove Applied", "CommitMove MoveConflict",
	"EndMove Applied", "PrepareAggregate Applied", "CommitMove Applied of a Spot with members", "Reassert Applied",
	"Free Applied", "CancelCreation Applied", "again AlreadyApplied", "ReserveMove Unasserted", "ReserveMove Pending", "failover",
}

// side is one Store under the test, with what it has answered so far. All sides have
// seen the same, under numbers of their own.
type side struct {
	name    string
	store   store.Store
	restart func(*side)
	mark    func() (failover func())
	elapse  func()

	names  *storetest.Names
	leases []store.Lease
	seen   []store.Authority
	epochs []store.Epoch
	marks  []func()
	last   func(context.Context) (store.Change, error)
	listed uint64 // change number of the list of nodes that was last read
}

func (s *side) begin() {
	*s = side{name: s.name, store: s.store, restart: s.restart, mark: s.mark, elapse: s.elapse, names: new(storetest.Names)}
	s.restart(s)
}

func modelSide() *side {
	return &side{name: "Model", restart: func(s *side) {
		m := model.New(model.Options{Now: time.Now})
		s.store = m
		s.mark = m.Mark
		s.elapse = func() { storetest.Elapse(time.Now) }
	}}
}

func redisSide(t *testing.T, name, url string) *side {
	r := openRewindable(t, url)
	return &side{name: name, store: r, mark: r.Mark, elapse: r.Elapse, restart: func(*side) { r.Wipe() }}
}

// duel is one sequence of operations.
type duel struct {
	rt    *rapid.T
	sides []*side
	met   map[string]int
	ops   int // operation ids used so far
}

// play does the same on all sides and fails unless all answer the same.
func (d *duel) play(what string, do func(ctx context.Context, s *side) (string, error)) string {
	var first string
	for i, s := range d.sides {
		answer, err := do(context.Background(), s)
		if err != nil {
			d.rt.Fatalf("%s of %s: %v", what, s.name, err)
		}
		for _, wrong := range s.names.Wrong() {
			d.rt.Errorf("%s of %s: %s", what, s.name, wrong)
		}
		if i == 0 {
			first = answer
		} else if answer != first {
			d.rt.Fatalf("%s:\n%s says %s\n%s says %s", what, d.sides[0].name, only(first, answer), s.name, only(answer, first))
		}
	}
	if what != everything {
		d.rt.Logf("%s: %s", what, first)
	}
	return first
}

// only returns the lines of an answer that the other does not have.
func only(answer, other string) string {
	known := strings.Split(other, "\n")
	return strings.Join(slices.DeleteFunc(strings.Split(answer, "\n"), func(line string) bool { return slices.Contains(known, line) }), "\n")
}

// change makes a change and remembers it, and the row that it answered with.
func (s *side) change(ctx context.Context, do func(context.Context) (store.Change, error)) (string, error) {
	s.last = do
	c, err := do(ctx)
	if err != nil {
		return "", err
	}
	answer := s.names.Change(c)
	if c.Found {
		s.seen = append(s.seen, c.Record)
	}
	return answer, nil
}

// count notes that an operation ended so.
func (d *duel) count(op, answer string) {
	reason, _, _ := strings.Cut(answer, " ")
	d.met[op+" "+reason]++
	if op == "CommitMove" && reason == "Applied" && strings.Contains(answer, "came by") && !strings.Contains(answer, "/1 ") {
		d.met["CommitMove Applied of a Spot with members"]++
	}
}

var (
	rids  = []string{"a", "b", "c"}
	ids   = []string{"s1", "p1", "p2", "s2", "i1", "p3"}
	types = map[store.Kind]string{store.Actor: "player", store.UserSpot: "room", store.InstanceSpot: "cell"}
)

// kindOf is the kind that an object of that id mostly has.
func kindOf(id string) store.Kind {
	switch id[0] {
	case 's':
		return store.UserSpot
	case 'i':
		return store.InstanceSpot
	}
	return store.Actor
}

// everything is what compareAll plays.
const everything = "all that can be read"

func (d *duel) compareAll() {
	d.play(everything, func(ctx context.Context, s *side) (string, error) {
		var out strings.Builder
		for _, read := range []func(context.Context, *strings.Builder) error{s.printRows, s.printLists, s.printNodes, s.audit} {
			if err := read(ctx, &out); err != nil {
				return "", err
			}
		}
		return out.String(), nil
	})
}

func (s *side) printRows(ctx context.Context, out *strings.Builder) error {
	for _, id := range ids {
		a, found, err := s.store.Read(ctx, id)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		fmt.Fprintf(out, "\n%s", s.names.Record(&a))
		first, kept, err := s.store.ReadFirst(ctx, id, a.ObjectGen)
		if err != nil {
			return err
		}
		if kept {
			fmt.Fprintf(out, "\nfirst of %s: %q from %d", id, first.Message, first.Cursor)
		}
		members, err := s.store.Members(ctx, id, "", 10)
		fmt.Fprintf(out, "\nmembers of %s: %v", id, members)
		if err != nil {
			return err
		}
		for _, chunk := range chunks {
			got, found, err := s.store.ReadInventory(ctx, id, sha256.Sum256(chunk))
			if err != nil {
				return err
			}
			if found {
				fmt.Fprintf(out, "\ninventory of %s: %q", id, got)
			}
		}
	}
	return nil
}

func (s *side) printLists(ctx context.Context, out *strings.Builder) error {
	var lines []string
	for _, f := range []store.Filter{{}, {Kind: store.Actor, Type: "player"}, {Kind: store.UserSpot}, {Mesh: "mesh-b"}} {
		for cursor := ""; ; {
			page, err := s.store.List(ctx, f, cursor, 2)
			if err != nil {
				return err
			}
			for i := range page.Objects {
				lines = append(lines, fmt.Sprintf("\n%+v has %s", f, s.names.Record(&page.Objects[i])))
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	slices.Sort(lines)
	out.WriteString(strings.Join(lines, ""))
	for _, l := range s.leases {
		for _, h := range []store.Holding{store.HeldOwned, store.HeldReserved} {
			held, err := s.store.Held(ctx, l.RID, l.Gen, h, "", 10)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "\nheld %d by %s: %v", h, s.names.Process(l.RID, l.OwnerID, l.Gen), held)
		}
	}
	return nil
}

func (s *side) printNodes(ctx context.Context, out *strings.Builder) error {
	since, err := s.store.ListNodes(ctx, s.listed)
	if err != nil {
		return err
	}
	if s.listed != 0 {
		fmt.Fprintf(out, "\nnodes are as before: %v", since.Nodes == nil)
	}
	l, err := s.store.ListNodes(ctx, 0)
	s.listed = l.Change
	for _, n := range l.Nodes {
		fmt.Fprintf(out, "\nnode %s entry=%q state=%d actors=%d/%d spots=%d/%d alive=%v", s.names.Process(n.RID, "", n.Lifecycle),
			n.EntrySpotID, n.State, n.Actors, n.MaxActors, n.Spots, n.MaxSpots, n.LeaseLeft > 0)
	}
	return err
}

func (s *side) audit(ctx context.Context, out *strings.Builder) error {
	lines, err := s.store.Audit(ctx)
	for _, line := range lines {
		fmt.Fprintf(out, "\naudit: %s", line)
	}
	return err
}
