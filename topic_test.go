package zlnode_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

func TestWhatIsPublishedComesToItsSubscribers(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		u := newAudience(w)
		u.open()
		u.reaches(u.c, "world", 2)
		for _, sub := range []struct {
			name string
			run  func(t *testing.T, u *audience)
		}{
			{"each message once and in order, by one record per node", onceAndInOrder},
			{"content of any size is shared", sharedContent},
			{"from a turn, also by who subscribes", publishedInATurn},
			{"an Entry Spot is a subscriber", entrySpotsHear},
			{"who unsubscribes gets no more, of what is queued neither", nothingBehindUnsubscribe},
			{"a Spot's subscriptions end with it", closedSpotsHearNothing},
		} {
			t.Run(sub.name, func(t *testing.T) {
				defer func(whole *testing.T) { u.t = whole }(u.t)
				u.t = t
				sub.run(t, u)
			})
		}
	})
}

func onceAndInOrder(t *testing.T, u *audience) {
	var events4, all atomic.Int64 // of readers at the gateway
	var inOrder atomic.Bool
	inOrder.Store(true)
	first, err := zlnode.Subscribe(u.c.Topic("world"), "event", func(c *zlnode.TopicCall, n int) error {
		if want := events4.Add(1); int64(n) != want || c.Topic() != "world" || c.Packet() != "event" || c.Node() != u.c || c.Codec() != zlnode.JSON {
			inOrder.Store(false)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	second, err := u.c.Topic("world").SubscribeRaw("", func(c *zlnode.TopicCall, _ []byte) error {
		if c.Packet() == "event" || c.Packet() == "nobody's" {
			all.Add(1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	u.reaches(u.a, "world", 2)
	u.reaches(u.a, "elsewhere", 0)
	silent := u.at(u.b)[0]
	u.must(silent, "unsubscribe", "world")

	const count = 300
	u.eventually("all that was published has passed the roads", func() bool {
		return uint64(u.published("a", "b")+u.published("a", "c")) == u.a.Stats().PublishesSent
	})
	before := map[string]int{"b": u.published("a", "b"), "c": u.published("a", "c")}
	sent, missed := u.a.Stats().PublishesSent, u.b.Stats().CopiesMissed
	if p := u.publishes(u.a, "world", 1, count); p != (zlnode.Published{Nodes: 2, Local: 2}) {
		t.Errorf("%+v", p)
	}
	for id := range u.rooms {
		if id == silent {
			continue
		}
		if got := u.heard(id, count); !slices.Equal(got, events("world", 1, count)) {
			t.Errorf("%s heard %d: %v", id, len(got), got)
		}
	}
	u.eventually("both readers have all", func() bool { return events4.Load() == count && all.Load() == count })
	if !inOrder.Load() {
		t.Error("a reader got messages out of order, or as what they are not")
	}
	for to, n := range before {
		if got := u.published("a", to) - n; got != count {
			t.Errorf("%d records went to %s, want one for each of %d messages", got, to, count)
		}
	}
	if got := u.a.Stats().PublishesSent - sent; got != 2*count {
		t.Errorf("%d were counted, want %d", got, 2*count)
	}
	if heard := u.heard(silent, 0); len(heard) != 0 {
		t.Errorf("who had unsubscribed heard %v", heard)
	}

	// A packet for which Spots have no handler is missed by them, and by no reader of all.
	if p, err := zlnode.Publish(u.ctx, u.a.Topic("world"), "nobody's", 1); p != (zlnode.Published{Nodes: 2, Missed: 2}) || err != nil {
		t.Errorf("%+v %v", p, err)
	}
	u.eventually("it is counted", func() bool { return u.b.Stats().CopiesMissed == missed+1 && all.Load() == count+1 })

	first.Unsubscribe()
	first.Unsubscribe()
	u.reaches(u.a, "world", 2) // for the other one
	second.Unsubscribe()
	u.reaches(u.a, "world", 1)
	u.publishes(u.a, "world", count+1, 1)
	u.heard(u.at(u.b)[1], count+1)
	if events4.Load() != count || all.Load() != count+1 {
		t.Error("a reader got a message behind its end")
	}
	u.must(silent, "subscribe", "world")
}

func sharedContent(t *testing.T, u *audience) {
	meta, err := session.NewMetadata(map[string]string{"who": "ada"})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan heardRaw, 10)
	s, err := u.c.Topic("world").SubscribeRaw("blob", func(c *zlnode.TopicCall, payload []byte) error {
		who, _ := c.Metadata().Lookup("who")
		got <- heardRaw{c.Topic(), c.Packet(), string(payload), string(who), c.Codec()}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Unsubscribe()
	u.reaches(u.a, "world", 2)
	for _, size := range []int{0, 10, 79, 80, 89, 5000, 1 << 20} {
		payload := make([]byte, size)
		for i := range payload {
			payload[i] = byte(i)
		}
		want := heardRaw{"world", "blob", string(payload), "ada", zlnode.Raw}
		p, err := u.a.Topic("world").With(meta).PublishRaw(u.ctx, "blob", payload)
		if p != (zlnode.Published{Nodes: 2, Local: 2}) || err != nil {
			t.Fatalf("%d bytes: %+v %v", size, p, err)
		}
		clear(payload)
		for range u.rooms {
			if r := receive(t, u.raw); r != want {
				t.Errorf("%d bytes: a room got %.20q of %d by %q", size, r.Payload, len(r.Payload), r.Who)
			}
		}
		if r := receive(t, got); r != want {
			t.Errorf("%d bytes: the reader got %.20q of %d by %q", size, r.Payload, len(r.Payload), r.Who)
		}
	}
}

func publishedInATurn(t *testing.T, u *audience) {
	u.reaches(u.a, "world", 1)
	u.reaches(u.b, "world", 1)
	for id := range u.rooms {
		u.must(id, "forget", nil)
	}
	from := u.at(u.b)[0]
	for n := range 3 {
		p, err := zlnode.Request[zlnode.Published](u.ctx, u.c.Spot(from), "publish", n)
		if p != (zlnode.Published{Nodes: 1, Local: 2}) || err != nil {
			t.Errorf("%+v %v", p, err)
		}
	}
	for id := range u.rooms {
		if got := u.heard(id, 3); !slices.Equal(got, events("world", 0, 3)) {
			t.Errorf("%s heard %v", id, got)
		}
	}
	// And a reader publishes what it has read.
	again, err := zlnode.Subscribe(u.c.Topic("orders"), "order", func(c *zlnode.TopicCall, n int) error {
		_, err := zlnode.Publish(c, c.Node().Topic("world"), "event", n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Unsubscribe()
	if p, err := zlnode.Publish(u.ctx, u.c.Topic("orders"), "order", 3); p != (zlnode.Published{Local: 1}) || err != nil {
		t.Errorf("%+v %v", p, err)
	}
	for id := range u.rooms {
		if got := u.heard(id, 4); !slices.Equal(got, events("world", 0, 4)) {
			t.Errorf("%s heard %v", id, got)
		}
	}
}

func entrySpotsHear(t *testing.T, u *audience) {
	u.reaches(u.c, "weather", 2)
	if p := u.publishes(u.c, "weather", 1, 1); p != (zlnode.Published{Nodes: 2}) {
		t.Errorf("%+v", p)
	}
	got := []string{receive(t, u.porches), receive(t, u.porches)}
	slices.Sort(got)
	if want := []string{"a 1", "b 1"}; !slices.Equal(got, want) {
		t.Errorf("heard %v, want %v", got, want)
	}
}

func nothingBehindUnsubscribe(t *testing.T, u *audience) {
	id := u.at(u.a)[0]
	u.must(id, "forget", nil)
	// behind asks the Spot for something behind messages that wait in its queue.
	behind := func(what string) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- u.ask(id, what, "world") }()
		receive(t, u.gate.entered)
		u.publishes(u.a, "world", 1, 10)
		u.gate.open <- struct{}{}
		if err := receive(t, done); err != nil {
			t.Fatal(err)
		}
	}
	behind("leave behind a stop")
	if heard := u.heard(id, 0); len(heard) != 0 {
		t.Errorf("behind its end of the subscription it heard %v", heard)
	}
	u.must(id, "subscribe", "world")
	u.must(id, "subscribe", "world") // which changes nothing
	u.publishes(u.a, "world", 11, 1)
	if heard := u.heard(id, 1); !slices.Equal(heard, events("world", 11, 1)) {
		t.Errorf("heard %v", heard)
	}
	behind("begin anew behind a stop")
	u.publishes(u.a, "world", 12, 1)
	if heard := u.heard(id, 2); !slices.Equal(heard, events("world", 11, 2)) {
		t.Errorf("with another subscription it heard %v", heard)
	}
}

func closedSpotsHearNothing(t *testing.T, u *audience) {
	here := u.at(u.b)
	for i, id := range here {
		u.reaches(u.a, "world", 1)
		ref, found, err := u.c.FindSpot(u.ctx, id)
		if !found || err != nil {
			t.Fatal(found, err)
		}
		if closed, err := u.a.CloseSpot(u.ctx, ref); !closed || err != nil {
			t.Fatal(closed, err)
		}
		if p := u.publishes(u.b, "world", i, 1); p != (zlnode.Published{Nodes: 1, Local: 1 - i}) {
			t.Errorf("with %d rooms closed: %+v", i+1, p)
		}
	}
	u.reaches(u.a, "world", 0) // the last one's end was told
	if st := u.b.Stats(); st.Topics != 1 {
		t.Errorf("%d topics have subscribers at b, want the weather", st.Topics)
	}
}

// What is wrong with topics is said at once.
func TestTopicsAreChecked(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		u := newAudience(w)
		n := u.server("a", u.app())
		u.c = n
		for id, typ := range map[string]string{"room-0": "room", "deaf-0": "deaf"} {
			if _, err := n.CreateSpot(u.ctx, zlnode.CreateSpot{ID: id, Type: typ}); err != nil {
				t.Fatal(err)
			}
		}
		long := strings.Repeat("x", 256)
		for _, packet := range []string{"subscribe", "unsubscribe"} {
			_, err := zlnode.Request[any](u.ctx, n.Instance("den-0", "den"), packet, "world")
			wantKind(t, err, zlnode.InvalidOperation)
			for _, topic := range []string{"", long, "\xff"} {
				wantKind(t, u.ask("room-0", packet, topic), zlnode.InvalidOperation)
			}
		}
		wantKind(t, u.ask("deaf-0", "subscribe", "world"), zlnode.InvalidOperation)
		nothing := func(*zlnode.TopicCall, int) error { return nil }
		for _, topic := range []string{"", long, "\xff"} {
			_, err := zlnode.Publish(u.ctx, n.Topic(topic), "event", 1)
			wantKind(t, err, zlnode.InvalidOperation)
			_, err = zlnode.Subscribe(n.Topic(topic), "event", nothing)
			wantKind(t, err, zlnode.InvalidOperation)
		}
		_, err := zlnode.Publish(u.ctx, n.Topic("world"), "", 1)
		wantKind(t, err, zlnode.InvalidOperation)
		_, err = n.Topic("world").PublishRaw(u.ctx, "event", make([]byte, 1<<20+1))
		wantKind(t, err, zlnode.InvalidOperation)
		_, err = n.Topic("world").With(session.Metadata("no metadata")).PublishRaw(u.ctx, "event", nil)
		wantKind(t, err, zlnode.InvalidOperation)
		_, err = zlnode.Subscribe(n.Topic("world"), long, nothing)
		wantKind(t, err, zlnode.InvalidOperation)
		_, err = zlnode.Subscribe[int](n.Topic("world"), "event", nil)
		wantKind(t, err, zlnode.InvalidOperation)

		// A Spot has 1,024 topics; the world is one of them.
		if done, err := zlnode.Request[int](u.ctx, n.Spot("room-0"), "subscribe many", 1024); zlnode.KindOf(err) != zlnode.CapacityExceeded {
			t.Errorf("%d %v", done, err)
		}
		if st := n.Stats(); st.Topics != 1024+1 { // and the Entry Spot's
			t.Errorf("%d topics", st.Topics)
		}
		u.must("room-0", "unsubscribe", "many-7")
		u.must("room-0", "subscribe", "one more")

		w.stop(n)
		_, err = zlnode.Publish(u.ctx, n.Topic("world"), "event", 1)
		wantKind(t, err, zlnode.ShuttingDown)
		_, err = zlnode.Subscribe(n.Topic("world"), "event", nothing)
		wantKind(t, err, zlnode.ShuttingDown)
	})
}

func TestSubscriptionHandlersAreChecked(t *testing.T) {
	app := zlnode.NewApp()
	none := func(*zlnode.SpotCall, *listener, int) error { return nil }
	room := zlnode.DefineUserSpot(app, "room", func(*zlnode.SpotContext) (*listener, error) { return &listener{}, nil }, zlnode.SpotWide, zlnode.DisableRelocation)
	zlnode.OnTopic(room, "twice", none)
	zlnode.OnTopic(room, "twice", none)
	zlnode.OnTopic(room, "", none)
	den := zlnode.DefineInstanceSpot(app, "den", func(*zlnode.SpotContext) (*listener, error) { return &listener{}, nil }, zlnode.DisableRelocation)
	zlnode.OnTopic(den, "event", none)
	_, err := zlnode.Start(t.Context(), zlnode.Config{RID: "a", Role: zlnode.RoleServer}, app)
	wantKind(t, err, zlnode.InvalidOperation)
	for _, part := range []string{
		`subscription "twice" of "room" is registered twice`, `subscription "" of "room"`, `subscription "event" of "den": only an entry spot and user spots`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// A subscriber that is slow misses what finds its queue full, and no other does.
func TestASlowSubscriberMissesAlone(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		u := newAudience(w)
		n := u.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, ObjectQueueMessages: 8}, u.app())
		u.c = n
		if _, err := n.CreateSpot(u.ctx, zlnode.CreateSpot{ID: "room-0", Type: "room"}); err != nil {
			t.Fatal(err)
		}
		slow, fast, failed := make(chan int, 100), make(chan int, 100), make(chan int, 100)
		subscribe := func(h func(c *zlnode.TopicCall, n int) error) *zlnode.Subscription {
			t.Helper()
			s, err := zlnode.Subscribe(n.Topic("world"), "event", h)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		reader := newGate()
		subscribe(func(_ *zlnode.TopicCall, n int) error {
			reader.pass()
			slow <- n
			return nil
		})
		subscribe(func(_ *zlnode.TopicCall, n int) error { fast <- n; return nil })
		broken := subscribe(func(_ *zlnode.TopicCall, n int) error {
			failed <- n
			if n%2 == 0 {
				panic("a reader that breaks")
			}
			return errors.New("no")
		})
		stopped := u.gate.stop(t, w, n.Spot("room-0"))

		const count = 20
		for i := range count {
			want := zlnode.Published{Local: 4}
			if i >= 7 { // the turn that it stands in counts, too
				want = zlnode.Published{Local: 3, Missed: 1}
			}
			if i >= 8 {
				want = zlnode.Published{Local: 2, Missed: 2}
			}
			if p, err := zlnode.Publish(u.ctx, n.Topic("world"), "event", i); p != want || err != nil {
				t.Fatalf("event %d: %+v %v", i, p, err)
			}
			if i == 0 {
				receive(t, reader.entered)
			}
			if got := receive(t, fast); got != i {
				t.Fatalf("%d came, want %d", got, i)
			}
			receive(t, failed)
		}
		if st := n.Stats(); st.CopiesMissed != 25 || st.Dropped != 0 {
			t.Errorf("%d copies missed, %d dropped", st.CopiesMissed, st.Dropped)
		}
		w.eventually("the failures are counted", func() bool { st := n.Stats(); return st.FailedSends == count && st.Panics == count/2 })
		broken.Unsubscribe()
		close(reader.open)
		close(u.gate.open)
		if err := receive(t, stopped); err != nil {
			t.Fatal(err)
		}
		for i := range 8 { // the newest are those that are missed
			if got := receive(t, slow); got != i {
				t.Errorf("the slow one got %d, want %d", got, i)
			}
		}
		if got := u.heard("room-0", 7); !slices.Equal(got, events("world", 0, 7)) {
			t.Errorf("the room heard %v", got)
		}
		if p := u.publishes(n, "world", count, 1); p != (zlnode.Published{Local: 3}) {
			t.Errorf("%+v", p)
		}
		if got := receive(t, slow); got != count {
			t.Errorf("then it got %d", got)
		}
	})
}

// A node that stops reads what it has accepted.
func TestANodeThatStopsReadsWhatIsQueued(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		n := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleClient}, zlnode.NewApp())
		g, read := newGate(), make(chan int, 10)
		if _, err := zlnode.Subscribe(n.Topic("t"), "n", func(_ *zlnode.TopicCall, n int) error {
			g.pass()
			read <- n
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if _, err := zlnode.Publish(w.ctx, n.Topic("t"), "n", i); err != nil {
				t.Fatal(err)
			}
		}
		receive(t, g.entered)
		stopped := make(chan struct{})
		go func() { defer close(stopped); w.stop(n) }()
		w.eventually("it stops", func() bool {
			_, err := zlnode.Publish(w.ctx, n.Topic("t"), "nobody's", 9)
			return zlnode.KindOf(err) == zlnode.ShuttingDown
		})
		close(g.open)
		receive(t, stopped)
		close(read)
		var got []string
		for n := range read {
			got = append(got, fmt.Sprint(n))
		}
		if want := []string{"0", "1", "2"}; !slices.Equal(got, want) {
			t.Errorf("read %v, want %v", got, want)
		}
	})
}

// What a node may subscribe to is bounded, so that what its links have to tell is.
func TestANodesSubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		n := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleClient}, zlnode.NewApp())
		nothing := func(*zlnode.TopicCall, []byte) error { return nil }
		last := func(topic func(i int) string) (made int, last *zlnode.Subscription) {
			t.Helper()
			for i := range 20_000 {
				s, err := n.Topic(topic(i)).SubscribeRaw("", nothing)
				if err != nil {
					wantKind(t, err, zlnode.CapacityExceeded)
					return i, last
				}
				last = s
			}
			t.Fatal("there is no bound")
			panic("unreachable")
		}
		if made, _ := last(func(int) string { return "one" }); made != 16_384 {
			t.Errorf("%d subscriptions to one topic", made)
		}
		made, s := last(func(i int) string { return fmt.Sprintf("%0255d", i) })
		if made != 16_383 { // with 256 bytes each, in 4 MiB, in which the first topic is
			t.Errorf("%d topics with long names", made)
		}
		s.Unsubscribe()
		if _, err := n.Topic("another").SubscribeRaw("", nothing); err != nil {
			t.Error(err)
		}
	})
}
