package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zlnode/zlnode/store"
)

var nodeCases = []testCase{
	{"DescriptorIsListedAsPublished", func(w *world) {
		p := w.server("node-a", func(d *store.Descriptor) {
			d.ActorTypes = []string{"monster", "player", "日本"}
			d.MaxActors = 7
			d.Revision = 1<<64 - 1
		})
		got, found := w.node("node-a")
		if !found || got.LeaseLeft <= 0 || got.LeaseLeft > longTTL {
			w.t.Fatalf("listed %+v, %v", got, found)
		}
		want := p.desc
		want.LeaseLeft = got.LeaseLeft
		if !reflect.DeepEqual(got, want) {
			w.t.Errorf("listed    %+v\npublished %+v", got, want)
		}
	}},
	{"EmptyNamespaceHasAnEmptyList", func(w *world) {
		if l := w.list(0); l.Nodes == nil || len(l.Nodes) != 0 {
			w.t.Errorf("list is %+v; want an empty one, not nil", l)
		}
	}},
	{"UnchangedListIsNotReadAgain", func(w *world) {
		p := w.server("node-a")
		first := w.list(0)
		if again := w.list(first.Change); again.Nodes != nil || again.Change != first.Change {
			w.t.Errorf("list since %d is %+v; want nil nodes", first.Change, again)
		}
		w.renew(p.Lease, longTTL, store.Applied)
		w.publish(p.Lease, p.desc, store.AlreadyApplied)
		w.create("player-1", p)
		if again := w.list(first.Change); again.Nodes != nil {
			w.t.Error("a renewal, the same descriptor again or an Actor moved the change number")
		}
		p.desc.State = store.Draining
		p.desc.Revision++
		w.publish(p.Lease, p.desc, store.Applied)
		again := w.list(first.Change)
		if len(again.Nodes) != 1 || again.Nodes[0].State != store.Draining || again.Change <= first.Change {
			w.t.Errorf("after a state change the list since %d is %+v", first.Change, again)
		}
	}},
	{"RevisionDoesNotFallWithinALifecycle", func(w *world) {
		p := w.server("node-a", func(d *store.Descriptor) { d.Revision = 10 })
		older := p.desc
		older.Revision = 9 // a longer decimal is not a larger word
		older.State = store.Preparing
		w.publish(p.Lease, older, store.VersionConflict)
		if d, _ := w.node("node-a"); d.State != store.Serving {
			w.t.Errorf("an older revision was written: state %d", d.State)
		}
		w.expire(p)
		next := w.lease("node-a")
		older.Lifecycle = next.Gen
		w.publish(next, older, store.Applied)
	}},
	{"IsPublishedUnderAValidLeaseOnly", func(w *world) {
		p := w.server("node-a")
		w.expire(p)
		w.publish(p.Lease, p.desc, store.LeaseExpired)
		w.lease("node-a")
		w.publish(p.Lease, p.desc, store.LeaseSuperseded)
		if _, found := w.node("node-a"); found {
			w.t.Error("the descriptor of the superseded process is still listed")
		}
	}},
	{"IsRemovedByItsProcess", func(w *world) {
		p, other := w.server("node-a"), w.server("node-b")
		before := w.list(0).Change
		stranger := p.Lease
		stranger.OwnerID = randomHex()
		for _, step := range []struct {
			lease store.Lease
			want  store.Reason
		}{{stranger, store.LeaseSuperseded}, {p.Lease, store.Applied}, {p.Lease, store.Missing}} {
			if reason, err := w.s.RemoveNode(w.ctx(), step.lease); err != nil || reason != step.want {
				w.t.Fatalf("RemoveNode = %v, %v; want %v", reason, err, step.want)
			}
		}
		l := w.list(before)
		if len(l.Nodes) != 1 || l.Nodes[0].RID != other.RID {
			w.t.Errorf("list is %+v; want node-b only", l)
		}
	}},
	{"GoesWithItsLease", func(w *world) {
		p := w.server("node-a")
		before := w.list(0).Change
		if reason, err := w.s.ReleaseLease(w.ctx(), p.Lease); err != nil || reason != store.Applied {
			w.t.Fatalf("ReleaseLease = %v, %v", reason, err)
		}
		if l := w.list(before); l.Nodes == nil || len(l.Nodes) != 0 {
			w.t.Errorf("list after the release is %+v", l)
		}
	}},
	{"ListIsCompleteAndInByteOrder", func(w *world) {
		const n = 40
		var rids []string
		for i := range n {
			rids = append(rids, fmt.Sprintf("node-%d", i))
		}
		together(8, func(part int) {
			for i := part; i < n; i += 8 {
				if _, err := w.startServer(rids[i]); err != nil {
					w.t.Error(err)
				}
			}
		})
		slices.Sort(rids)
		var got []string
		for _, d := range w.list(0).Nodes {
			got = append(got, d.RID)
		}
		if !slices.Equal(got, rids) {
			w.t.Errorf("listed %v; want all %d in byte order", got, n)
		}
	}},
	{"DescriptorOfAlmostOneMiBIsKept", func(w *world) {
		// A control character takes six bytes when encoded.
		var types []string
		for i := range 670 {
			types = append(types, fmt.Sprintf("%05d-%s", i, strings.Repeat("\x01", store.IDBytesMax-6)))
		}
		w.server("node-a", func(d *store.Descriptor) { d.ActorTypes = types })
		w.server("node-b")
		nodes := w.list(0).Nodes
		if len(nodes) != 2 || !slices.Equal(nodes[0].ActorTypes, types) {
			w.t.Errorf("listed %d nodes; want two, the first with its %d types", len(nodes), len(types))
		}
	}},
	{"ListIsOfOneMoment", func(w *world) {
		// One node publishes again and again. Its revision and the change number grow
		// together, so their difference tells whether a list mixes two moments.
		p := w.server("node-a")
		first := w.list(0)
		ctx, stop := context.WithCancel(w.ctx())
		var publisher sync.WaitGroup
		publisher.Go(func() {
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil && p.desc.Revision < 200 { // an end, for readers that are always too late
				<-tick.C
				p.desc.Revision++
				if reason, err := w.s.PublishNode(w.ctx(), p.Lease, p.desc); err != nil || reason != store.Applied {
					w.t.Errorf("PublishNode = %v, %v", reason, err)
				}
			}
		})
		last := first
		for last.Nodes[0].Revision < 20 && !w.t.Failed() {
			var err error
			if last, err = w.s.ListNodes(w.ctx(), 0); errors.Is(err, store.ErrUnavailable) {
				last = first // it changed during each try, which the error says
				continue
			} else if err != nil {
				w.t.Fatal(err)
			}
			if last.Change-first.Change != last.Nodes[0].Revision-first.Nodes[0].Revision {
				w.t.Errorf("list %+v after %+v: change number and content are of different moments", last, first)
			}
		}
		stop()
		publisher.Wait()
	}},
}
