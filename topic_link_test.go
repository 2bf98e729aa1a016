package zlnode_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// A node that takes nothing misses messages; neither the publisher nor any other node is
// kept waiting, and when it goes on it gets what is published then, in order.
func TestASlowNodeDelaysNoOther(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		u := newAudience(w)
		u.open()
		read := make(chan int, 100)
		if _, err := u.c.Topic("world").SubscribeRaw("blob", func(_ *zlnode.TopicCall, payload []byte) error {
			read <- int(payload[0])
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		u.reaches(u.a, "world", 2)
		rooms := u.at(u.a)
		for _, id := range rooms {
			u.must(id, "unsubscribe", "world")
		}
		end := u.roads.At(stallBefore, "a", "b", wire.CmdPublish, u.published("a", "b")+1)
		blob := make([]byte, 512<<10)
		took, missed := 0, 0
		for i := range 40 { // 20 MiB, of which 8 have credit
			blob[0] = byte(i)
			p, err := u.a.Topic("world").PublishRaw(u.ctx, "blob", blob)
			if err != nil || p.Nodes+p.Missed != 2 {
				t.Fatalf("message %d: %+v %v", i, p, err)
			}
			if got := receive(t, read); got != i {
				t.Fatalf("message %d came as %d", i, got)
			}
			took, missed = took+p.Nodes-1, missed+p.Missed
		}
		receive(t, end.Reached)
		if took == 0 || took > 16 || took+missed != 40 {
			t.Errorf("the slow node was to get %d and missed %d", took, missed)
		}
		if st := u.a.Stats(); st.PublishesMissed != uint64(missed) {
			t.Errorf("%d were counted as missed, want %d", st.PublishesMissed, missed)
		}
		u.roads.GoOn("a", "b")
		for i := range 2 * took { // to two rooms
			if r := receive(t, u.raw); r.Payload[0] >= byte(took) {
				t.Errorf("copy %d is of message %d", i, r.Payload[0])
			}
		}
		u.reaches(u.a, "world", 2)
		u.publishes(u.a, "world", 1, 5)
		for _, id := range u.at(u.b) {
			if got := u.heard(id, 5); !slices.Equal(got, events("world", 1, 5)) {
				t.Errorf("%s heard %v", id, got)
			}
		}
	})
}

// With a link goes what its other end was interested in, and a new one is told what is then:
// also what came and went while there was none.
// req: FO-08
func TestALinkThatReturnsIsToldWhoSubscribes(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		u := newAudience(w)
		u.open()
		room := u.at(u.b)[0]
		u.must(room, "subscribe", "before")
		u.must(room, "subscribe", "throughout")
		u.reaches(u.a, "before", 1)
		u.reaches(u.a, "throughout", 1)

		end := u.roads.At(cutBefore, "a", "b", wire.CmdPublish, u.published("a", "b")+1)
		if _, err := zlnode.Publish(u.ctx, u.a.Topic("throughout"), "event", 0); err != nil { // which is lost
			t.Fatal(err)
		}
		receive(t, end.Reached)
		u.reaches(u.a, "throughout", 0)
		if st := u.a.Stats(); st.TopicsElsewhere != 0 {
			t.Errorf("%d topics are left of the lost link", st.TopicsElsewhere)
		}
		u.must(room, "unsubscribe", "before")
		u.must(room, "subscribe", "after")
		u.must(room, "subscribe", "meanwhile")
		u.must(room, "unsubscribe", "meanwhile")
		u.roads.Open("a", "b")
		u.linked(u.a, 1)

		u.reaches(u.a, "throughout", 1)
		u.reaches(u.a, "after", 1)
		for _, topic := range []string{"before", "meanwhile"} {
			if p := u.publishes(u.a, topic, 1, 1); p != (zlnode.Published{}) {
				t.Errorf("%s: %+v", topic, p)
			}
		}
		u.publishes(u.a, "throughout", 1, 3)
		if got := u.heard(room, 3); !slices.Equal(got, events("throughout", 1, 3)) {
			t.Errorf("heard %v", got)
		}
	})
}

// Whether a subscription or the link is there first, the other node knows in the end.
// req: FO-08
func TestSubscriptionsAndLinksThatComeAndGoConverge(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		u := newAudience(w)
		u.openServers()
		name := func(i int) string { return fmt.Sprint("topic-", i) }
		const topics = 60
		stop, stopped := make(chan struct{}), make(chan map[string]bool, 1)
		go func() { // subscriptions come and go all the time
			here, chance := map[string]*zlnode.Subscription{}, rand.New(rand.NewPCG(1, 2))
			for i := 0; ; i++ {
				select {
				case <-stop:
					known := map[string]bool{}
					for topic := range here {
						known[topic] = true
					}
					stopped <- known
					return
				default:
				}
				topic := name(chance.IntN(topics))
				if s := here[topic]; s != nil {
					s.Unsubscribe()
					delete(here, topic)
				} else {
					s, err := u.b.Topic(topic).SubscribeRaw("", func(*zlnode.TopicCall, []byte) error { return nil })
					if err != nil {
						t.Error(err)
					}
					here[topic] = s
				}
				if i%topics == 0 {
					u.idle()
				}
			}
		}()
		for range 3 {
			u.linked(u.a, 1)
			records, _ := u.roads.Passed("b", "a", wire.CmdInterest)
			end := u.roads.At(cutBehind, "b", "a", wire.CmdInterest, records+40)
			receive(t, end.Reached)
			u.eventually("the link is lost", func() bool { return u.a.Stats().Peers == 0 && u.b.Stats().Peers == 0 })
			u.roads.Open("a", "b")
		}
		u.linked(u.a, 1)
		close(stop)
		known := receive(t, stopped)
		if len(known) == 0 || len(known) == topics {
			t.Fatalf("%d topics are left", len(known))
		}
		known["weather"] = true // the Entry Spot's
		u.eventually("a knows as many", func() bool { return u.a.Stats().TopicsElsewhere == len(known) })
		for i := range topics {
			if topic := name(i); known[topic] {
				u.reaches(u.a, topic, 1)
			} else {
				u.reaches(u.a, topic, 0)
			}
		}
		if st := u.a.Stats(); st.TopicsElsewhere != len(known) {
			t.Errorf("%d topics, want %d", st.TopicsElsewhere, len(known))
		}
	})
}

// However often subscriptions come and go while a link is slow, what waits to be told of them
// is bounded, and the link is not lost by it.
func TestChangesOfInterestDoNotPileUp(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		u := newAudience(w)
		u.openServers() // alone: every other link would have to take it all
		u.linked(u.b, 1)
		u.c = u.b
		u.furnish()
		room := u.at(u.b)[0]
		u.must(room, "subscribe", "was there before")
		u.reaches(u.a, "was there before", 1)
		records, _ := u.roads.Passed("b", "a", wire.CmdInterest)
		end := u.roads.At(stallBefore, "b", "a", wire.CmdInterest, records+1)
		u.must(room, "unsubscribe", "was there before")
		receive(t, end.Reached)
		flapping := strings.Repeat("x", 255)
		u.must(room, "flap", flapping) // 26 MiB of records, for 16 of room and what the network holds
		u.must(room, "subscribe", "is there then")
		hellos, _ := u.roads.Passed("a", "b", wire.CmdHello)
		u.roads.GoOn("a", "b")
		u.reaches(u.a, "is there then", 1)
		u.reaches(u.a, flapping, 0)
		u.reaches(u.a, "was there before", 0)
		if again, _ := u.roads.Passed("a", "b", wire.CmdHello); again != hellos {
			t.Error("the link was lost")
		}
	})
}

// A node that breaks the rules of interest loses its link, and what it has said with it.
func TestInterestThatBreaksItsRulesClosesTheLink(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.server("b-owner", s.app())
		s.gateway = s.newGateway("a-gateway", 1)
		b := s.bystander(t)
		topics := func(names ...string) (list []byte) {
			for _, name := range names {
				list = wire.AppendTopic(list, name)
			}
			return list
		}
		hostile := func(withdraw bool, list []byte) []byte {
			return (&wire.Interest{Withdraw: withdraw, Topics: list}).AppendTo(nil)
		}
		var many, large []byte
		for i := 0; i <= wire.MaxTopics; i += 1000 {
			var list []byte
			for k := i; k < i+1000; k++ {
				list = wire.AppendTopic(list, fmt.Sprint(k))
			}
			many = append(many, hostile(false, list)...)
		}
		for i := 0; i <= wire.MaxTopicBytes/256; i += 128 {
			var list []byte
			for k := i; k < i+128; k++ {
				list = wire.AppendTopic(list, fmt.Sprintf("%0255d", k))
			}
			large = append(large, hostile(false, list)...)
		}
		for _, c := range []struct {
			what    string
			records []byte
		}{
			{"twice in one record", hostile(false, topics("t", "t"))},
			{"twice", slices.Concat(hostile(false, topics("t", "u")), hostile(false, topics("u")))},
			{"in none, and no more", hostile(true, topics("t"))},
			{"no more, twice", slices.Concat(hostile(false, topics("t")), hostile(true, topics("t")), hostile(true, topics("t")))},
			{"in too many topics", many},
			{"in names too long together", large},
			{"in more than a record may have", hostileInterest(wire.MaxInterest + 1)},
		} {
			s.broken(t, "interest "+c.what, c.records)
			s.await("nothing is left of it", func() bool { return s.owner.Stats().TopicsElsewhere == 0 })
			b.served()
		}

		// What keeps to the rules is heard, and a message to nobody harms nobody.
		p := s.member(t)
		p.send(&wire.Interest{Topics: topics("t", "u")}, &wire.Interest{Withdraw: true, Topics: topics("u")},
			&wire.Publish{Topic: []byte("t"), Name: []byte("x")}, &wire.Probe{ID: 1})
		if r, ok := p.read().(*wire.Ack); !ok || r.ID != 1 {
			t.Errorf("%+v, want the link open", r)
		}
		if got, err := zlnode.Publish(s.ctx, s.owner.Topic("u"), "x", 1); got != (zlnode.Published{}) || err != nil {
			t.Errorf("%+v %v", got, err)
		}
		if got, err := zlnode.Publish(s.ctx, s.owner.Topic("t"), "x", 1); got != (zlnode.Published{Nodes: 1}) || err != nil {
			t.Errorf("%+v %v", got, err)
		}
		if r, ok := p.read().(*wire.Publish); !ok || string(r.Topic) != "t" || string(r.Name) != "x" || string(r.Payload) != "1" || r.Codec != 1 {
			t.Errorf("%+v, want the message", r)
		}
		p.conn.Close()
		b.untouched()
		s.await("nothing is left of it", func() bool { return s.owner.Stats().TopicsElsewhere == 0 })
	})
}

// hostileInterest is an interest record with a list of that many bytes.
func hostileInterest(size int) []byte {
	record := (&wire.Interest{Topics: wire.AppendTopic(nil, "x")}).AppendTo(nil)
	return altered(record, func([]byte) []byte {
		body := make([]byte, size) // of topics with one byte, and one with two if it is odd
		for i := range size / 2 {
			body[2*i], body[2*i+1] = 1, 'x'
		}
		if size%2 == 1 {
			body[size-3], body[size-1] = 2, 'x'
		}
		return body
	})
}
