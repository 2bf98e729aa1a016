package storetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/store"
)

// limit sets the Actor limit of a node.
func limit(n int) func(*store.Descriptor) {
	return func(d *store.Descriptor) { d.MaxActors = n }
}

var reserveCases = []testCase{
	{"FixesWhatTheCreationIsAbout", func(w *world) {
		p := w.server("node-a")
		source := w.server("node-b")
		r := request("player-1", p)
		r.Op = operation(source)
		r.Request = bytes.Repeat([]byte{0, 0xff, '\r', '\n'}, store.PayloadBytesMax/4) // the largest
		before := time.Now()
		got := w.reserve(r, store.Applied)
		if got.ID != r.ID || got.Type != r.Type || got.State != store.Creating || got.ObjectGen == 0 || got.OwnerGen != 1 ||
			got.Version == 0 || got.Mesh != p.desc.Mesh || got.RID != p.RID || got.OwnerID != p.OwnerID ||
			got.LeaseGen != p.Gen || got.SpotID != p.desc.EntrySpotID || got.LeaseLeft <= 0 || got.LeaseLeft > longTTL {
			w.t.Errorf("reserved row is %+v", got)
		}
		read, found := w.read(r.ID)
		if !found || read.Create == nil {
			w.t.Fatalf("read %+v, %v; want the Creating row", read, found)
		}
		c := read.Create
		if c.Op != r.Op || !bytes.Equal(c.Request, r.Request) || c.Hash != sha256.Sum256(r.Request) {
			w.t.Errorf("creation of %d bytes by %+v; want %d bytes by %+v with their SHA-256", len(c.Request), c.Op, len(r.Request), r.Op)
		}
		if off := c.Deadline.Sub(before) - r.Timeout; off.Abs() > time.Hour {
			w.t.Errorf("deadline %v is not %v from now", c.Deadline, r.Timeout)
		}
		w.wantActors(p.RID, 1)
	}},
	{"ReadsMissingForUnknownIDs", func(w *world) { w.wantMissing("player-1") }},
	{"IDsAreTakenAsTheyAre", func(w *world) {
		p, elsewhere := w.server("node-a"), w.server("node-b")
		ids := []string{
			"player", "Player", "PLAYER", " player", "player ", "é", "e\u0301", // composed and decomposed
			"a:b", "a%3Ab", "a%3ab", "{zl:default}", "}{", "a\x00b", "a\nb", "a\r\nb", "a*", "..", "日本語", "\U0001F600",
			strings.Repeat("x", store.IDBytesMax), strings.Repeat("x", store.IDBytesMax-1), strings.Repeat("\x00", store.IDBytesMax),
		}
		for i, id := range ids {
			r := request(id, p)
			r.Request = []byte(fmt.Sprint(i))
			w.reserve(r, store.Applied)
			// The mesh of the target is no part of the key.
			w.reserve(request(id, elsewhere), store.Exists)
		}
		for i, id := range ids {
			if a, found := w.read(id); !found || a.ID != id || string(a.Create.Request) != fmt.Sprint(i) {
				w.t.Errorf("id %q reads %+v, %v; want its own creation %d", id, a, found, i)
			}
		}
	}},
	{"SameOperationAgainIsAlreadyApplied", func(w *world) {
		p := w.server("node-a")
		r := request("player-1", p)
		first := w.reserve(r, store.Applied)
		again := w.reserve(r, store.AlreadyApplied)
		if again.ObjectGen != first.ObjectGen || again.Version != first.Version || again.Create.Op != r.Op {
			w.t.Errorf("again gives %+v; want %+v", again, first)
		}
		w.wantActors(p.RID, 1)
	}},
	{"SameOperationAgainAfterItsEndIsNotRunAgain", func(w *world) {
		p := w.server("node-a")
		for _, result := range []store.Result{store.Created, store.Rejected, store.Failed} {
			r := request("player-"+result.String(), p)
			w.finish(w.reserve(r, store.Applied), r.Op, result, store.Applied)
			w.reserve(r, store.AlreadyApplied)
			if _, found := w.read(r.ID); found != (result == store.Created) {
				w.t.Errorf("after %v and a repeated reservation the row is there: %v", result, found)
			}
		}
		a, op := w.create("player-1", p)
		w.delete(a, newOp(), store.Applied)
		r := request("player-1", p)
		r.Op = op
		w.reserve(r, store.AlreadyApplied)
		w.wantMissing("player-1")
	}},
	{"OtherOperationFindsTheRow", func(w *world) {
		p := w.server("node-a")
		creating := w.reserve(request("player-1", p), store.Applied)
		ready, _ := w.create("player-2", p)
		for _, there := range []store.Authority{creating, ready} {
			got := w.reserve(request(there.ID, p), store.Exists)
			if got.State != there.State || got.ObjectGen != there.ObjectGen || got.Version != there.Version {
				w.t.Errorf("Exists shows %+v; want %+v", got, there)
			}
			other := request(there.ID, p)
			other.Type = "monster"
			if got := w.reserve(other, store.TypeMismatch); got.Type != "player" {
				w.t.Errorf("TypeMismatch shows type %q", got.Type)
			}
		}
		w.wantActors(p.RID, 2)
	}},
	{"TargetMustBeTheLiveLifecycle", func(w *world) {
		p := w.server("node-a")
		refuse := func(why string, r store.Reserve) {
			w.t.Helper()
			w.reserve(r, store.TargetUnavailable)
			w.wantMissing(r.ID)
		}
		other := request("player-1", p)
		other.TargetLifecycle++
		refuse("another lifecycle", other)
		unknown := request("player-1", p)
		unknown.TargetRID = "node-x"
		refuse("no such node", unknown)
		for _, state := range []store.HostState{store.Preparing, store.Relocating, store.Relocated, store.Draining, store.Stopped, store.HostError} {
			p.desc.State = state
			p.desc.Revision++
			w.publish(p.Lease, p.desc, store.Applied)
			refuse("not Serving", request("player-1", p))
		}
		noEntry := w.server("node-b", func(d *store.Descriptor) { d.EntrySpotID = "" })
		refuse("no Entry Spot yet", request("player-1", noEntry))
		gone := w.server("node-c")
		w.expire(gone)
		refuse("lease ended", request("player-1", gone))
		w.lease("node-c")
		refuse("lease superseded", request("player-1", gone))
	}},
	{"TargetMustTakeTheType", func(w *world) {
		for rid, edit := range map[string]func(*store.Descriptor){
			"client":     func(d *store.Descriptor) { d.Role = store.RoleClient },
			"no-weight":  func(d *store.Descriptor) { d.Weight = 0 },
			"other-type": func(d *store.Descriptor) { d.ActorTypes = []string{"Player", "player2"} },
			"no-type":    func(d *store.Descriptor) { d.ActorTypes = nil },
		} {
			w.reserve(request("player-1", w.server(rid, edit)), store.TargetIncompatible)
			w.wantMissing("player-1")
		}
		p := w.server("node-a")
		p.desc.ActorTypes = []string{"monster"}
		p.desc.Revision++
		w.publish(p.Lease, p.desc, store.Applied)
		w.reserve(request("player-1", p), store.TargetIncompatible) // it does no longer
	}},
	{"CordonedTargetTakesWhoHasAPass", func(w *world) {
		pass, other := store.PassDigest("tester"), store.PassDigest("Tester")
		p := w.server("node-a", func(d *store.Descriptor) {
			d.Weight, d.Cordoned, d.Passes = 0, true, []string{store.PassDigest("another"), pass}
			d.MaxActors = 1
		})
		got, _ := w.node("node-a")
		if !got.Cordoned || got.Weight != 0 || !slices.Equal(got.Passes, p.desc.Passes) || !got.Admits(pass) || got.Admits(other) || got.Admits("") {
			w.t.Errorf("listed %+v", got)
		}
		with := func(id, pass string) store.Reserve {
			r := request(id, p)
			r.Pass = pass
			return r
		}
		w.reserve(with("player-1", ""), store.TargetIncompatible)
		w.reserve(with("player-1", other), store.TargetIncompatible)
		spot := spotRequest(store.UserSpot, "room-1", p)
		w.reserve(spot, store.TargetIncompatible)
		w.wantMissing("player-1")
		r := with("player-1", pass)
		w.finish(w.reserve(r, store.Applied), r.Op, store.Created, store.Applied)
		w.reserve(with("player-2", pass), store.CapacityExceeded) // it does not make room
		spot.Pass = pass
		w.reserve(spot, store.Applied)

		elsewhere := w.server("node-b")
		moving := w.actor("player-3", elsewhere)
		w.delete(w.must("player-1"), newOp(), store.Applied)
		w.moveTo(moving, p, p.desc.EntrySpotID, false) // it is no new object

		p.desc.Cordoned, p.desc.Passes, p.desc.Weight, p.desc.MaxActors = false, nil, 100, 0
		p.desc.Revision++
		w.publish(p.Lease, p.desc, store.Applied)
		w.reserve(with("player-1", ""), store.Applied)
		w.reserve(with("player-4", other), store.Applied) // a pass keeps nobody out

		p.desc.Weight = 0 // by configuration
		p.desc.Revision++
		w.publish(p.Lease, p.desc, store.Applied)
		w.reserve(with("player-5", pass), store.TargetIncompatible)
	}},
	{"RefusedReservationLeavesNothing", func(w *world) {
		full := w.server("node-a", limit(1))
		w.create("player-0", full)
		w.reserve(request("player-1", full), store.CapacityExceeded)
		w.wantMissing("player-1")
		w.wantActors(full.RID, 1)
		free := w.server("node-b")
		w.reserve(request("player-1", free), store.Applied)
		w.wantActors(free.RID, 1)
	}},
	{"FiftyRacersHaveOneWinner", func(w *world) {
		nodes := []process{w.server("node-a"), w.server("node-b"), w.server("node-c")}
		var mu sync.Mutex
		got := map[store.Reason]int{}
		gens := map[store.ObjectGen]bool{}
		together(50, func(i int) {
			c, err := w.s.Reserve(w.ctx(), request("player-1", nodes[i%len(nodes)]))
			if err != nil {
				w.t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[c.Reason]++
			gens[c.Record.ObjectGen] = true
		})
		if got[store.Applied] != 1 || got[store.Exists] != 49 || len(gens) != 1 {
			w.t.Errorf("outcomes %v over %d generations; want one Applied, 49 Exists, one generation", got, len(gens))
		}
		sum := 0
		for _, d := range w.list(0).Nodes {
			sum += d.Actors
		}
		if sum != 1 {
			w.t.Errorf("%d slots are booked for one row", sum)
		}
	}},
	{"CapacityIsExactUnderAHundredRacers", func(w *world) {
		p := w.server("node-a", limit(10))
		w.create("player-ready", p)
		var applied, full atomic.Int32
		together(100, func(i int) {
			c, err := w.s.Reserve(w.ctx(), request(fmt.Sprintf("player-%d", i), p))
			switch {
			case err != nil:
				w.t.Error(err)
			case c.Reason == store.Applied:
				applied.Add(1)
			case c.Reason == store.CapacityExceeded:
				full.Add(1)
			}
		})
		if applied.Load() != 9 || full.Load() != 91 {
			w.t.Errorf("%d reserved and %d refused beside one Ready; want 9 and 91", applied.Load(), full.Load())
		}
		w.wantActors(p.RID, 10)
	}},
	{"HasNoTimeToLive", func(w *world) {
		p := w.server("node-a")
		r := request("player-1", p)
		r.Timeout = time.Millisecond
		a := w.reserve(r, store.Applied)
		w.expire(p) // takes longer than the timeout
		read, found := w.read(r.ID)
		if !found || read.State != store.Creating || read.LeaseLeft != 0 {
			w.t.Fatalf("past its deadline and its target's lease the row reads %+v, %v", read, found)
		}
		w.renew(p.Lease, longTTL, store.Applied)
		w.finish(a, r.Op, store.Created, store.Applied)
	}},
}
