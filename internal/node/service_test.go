package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
)

func TestAServiceQueueIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q serviceQueue
		var want []int64
		next := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			for range rapid.IntRange(0, 3*serviceBlockLen).Draw(t, "pushes") {
				m := q.push()
				if m.cost != 0 || m.packet != nil || m.kind != 0 {
					t.Fatal("a place is not empty")
				}
				next++
				m.cost = next
				want = append(want, next)
			}
			for range rapid.IntRange(0, min(len(want), 3*serviceBlockLen)).Draw(t, "pops") {
				var m served
				if q.pop(&m); m.cost != want[0] {
					t.Fatalf("popped %d, want %d", m.cost, want[0])
				}
				want = want[1:]
			}
			if q.len != len(want) {
				t.Fatalf("%d queued, want %d", q.len, len(want))
			}
		}
	})
}

// sendOwn sends a message to the node itself.
func (n *Node) sendOwn(ctx context.Context, name string, payload []byte) error {
	to := n.PeerTarget(n.cfg.RID)
	return n.Send(ctx, &to, &Outgoing{Name: name, Payload: payload})
}

func (n *Node) askOwn(ctx context.Context, name string) error {
	to := n.PeerTarget(n.cfg.RID)
	r, err := n.Request(ctx, &to, &Outgoing{Name: name})
	if err == nil {
		r.Release()
	}
	return err
}

// As many handlers as may, no more, run at once; each message has one; those of one sender
// begin in order, which with one handler at a time all can see.
func TestHandlersOfAServiceAreBoundedAndInOrder(t *testing.T) {
	for _, concurrency := range []int{1, 3} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			const senders, each = 4, 2000
			app := NewApp()
			app.SetServiceOptions(app.Node, ServiceOptions{Concurrency: concurrency})
			var now, most, count atomic.Int32
			var mu sync.Mutex
			var last [senders]uint32
			done := make(chan struct{})
			app.OnNodeSend(app.Node, "note", func(_ *NodeCall, b []byte) error {
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				from, k := b[0], binary.BigEndian.Uint32(b[1:])
				if concurrency == 1 {
					if k != last[from]+1 {
						t.Errorf("message %d of %d came behind %d", k, from, last[from])
					}
					last[from] = k
				} else {
					mu.Lock()
					last[from]++
					mu.Unlock()
					runtime.Gosched()
				}
				if count.Add(1) == senders*each {
					close(done)
				}
				return nil
			})
			n := serve(t, Config{RID: "a", Workers: 4}, app)
			var wg sync.WaitGroup
			for from := range senders {
				wg.Go(func() {
					for k := range each {
						b := binary.BigEndian.AppendUint32([]byte{byte(from)}, uint32(k+1))
						if err := n.sendOwn(t.Context(), "note", b); err != nil {
							t.Errorf("message %d: %v", k, err)
						}
					}
				})
			}
			wg.Wait()
			await(t, "all messages", done)
			if most := int(most.Load()); most > concurrency {
				t.Errorf("%d handlers ran at once, want %d at most", most, concurrency)
			}
			for from, k := range last {
				if k != each {
					t.Errorf("%d messages of sender %d were handled, want %d", k, from, each)
				}
			}
			until(t, "nothing is busy", func() bool { return n.services.busy() == 0 })
		})
	}
}

// What waits for a service is part of what waits at the node, and is given back.
func TestAServicesQueueIsOfTheNodesBudget(t *testing.T) {
	app := NewApp()
	app.SetServiceOptions(app.Node, ServiceOptions{Concurrency: 1})
	entered, open := make(chan struct{}, 1), make(chan struct{})
	app.OnNodeSend(app.Node, "block", func(*NodeCall, []byte) error {
		entered <- struct{}{}
		<-open
		return nil
	})
	app.OnNodeSend(app.Node, "note", func(*NodeCall, []byte) error { return nil })
	n := serve(t, Config{RID: "a", QueueBytes: queueBytesMin}, app)
	payload := make([]byte, 1000)
	for range 2 {
		if err := n.sendOwn(t.Context(), "block", nil); err != nil {
			t.Fatal(err)
		}
		await(t, "the handler", entered)
		sent := 0
		var err error
		for ; err == nil; sent++ {
			err = n.sendOwn(t.Context(), "note", payload)
		}
		if KindOf(err) != errkind.CapacityExceeded {
			t.Fatal(err)
		}
		if most := queueBytesMin / (len(payload) + messageCost); sent-1 > most || sent < most-most/8 {
			t.Errorf("%d messages waited, want %d or a little less", sent-1, most)
		}
		open <- struct{}{}
		until(t, "all are worked off", func() bool { return n.services.busy() == 0 })
	}
	if s := n.services.own; s.granted != 0 || s.bytes != 0 {
		t.Errorf("%d bytes queued and %d granted in an empty queue", s.bytes, s.granted)
	}
}

// A handler that panics or ends its goroutine ends its message alone.
func TestAServiceGoesOnAfterAHandlerThatDoesNotReturn(t *testing.T) {
	app := NewApp()
	app.SetServiceOptions(app.Node, ServiceOptions{Concurrency: 1})
	var kept *NodeCall
	app.OnNodeRequest(app.Node, "panic", func(*NodeCall, []byte) (Reply, error) { panic("boom") })
	app.OnNodeRequest(app.Node, "exit", func(*NodeCall, []byte) (Reply, error) {
		runtime.Goexit()
		return Reply{}, nil
	})
	app.OnNodeRequest(app.Node, "large", func(*NodeCall, []byte) (Reply, error) {
		return Reply{Payload: make([]byte, payloadBytesMax+1)}, nil
	})
	app.OnNodeRequest(app.Node, "keep", func(c *NodeCall, _ []byte) (Reply, error) {
		kept = c
		return Reply{}, nil
	})
	n := serve(t, Config{RID: "a"}, app)
	for name, kind := range map[string]errkind.Kind{
		"panic": errkind.InternalFailure, "exit": errkind.InternalFailure, "large": errkind.CapacityExceeded, "none": errkind.NotFound,
	} {
		if err := n.askOwn(t.Context(), name); KindOf(err) != kind {
			t.Errorf("%s: %v, want %v", name, err, kind)
		}
		if err := n.askOwn(t.Context(), "keep"); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	until(t, "the turn is over", func() bool { return n.services.busy() == 0 })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a call may be used after its turn")
			}
		}()
		kept.Name()
	}()
	if got := n.Stats().FailedRequests; got != 4 {
		t.Errorf("%d failed requests are counted, want 4", got)
	}
}

// A request whose deadline passed in the queue is not executed.
func TestALateRequestToAServiceDoesNotRun(t *testing.T) {
	app := NewApp()
	ran := false
	app.OnNodeRequest(app.Node, "run", func(*NodeCall, []byte) (Reply, error) {
		ran = true
		return Reply{}, nil
	})
	n := serve(t, Config{RID: "a"}, app)
	ended := make(chan *Error, 1)
	corr, err := n.local.add(completeFunc(func(r result) { ended <- r.err }), clock.Never)
	if err == nil {
		err = n.services.own.push(sender{kind: msgRequest, corr: corr}, &Outgoing{Name: "run"}, clock.Now(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := await(t, "the end", ended); err != errNoReply || ran {
		t.Errorf("%v; it ran: %v", err, ran)
	}
}

// Who waits in several lines takes credit in one at a time, and leaves none behind, whatever is
// given meanwhile.
func TestCreditOfSeveralLinksIsTakenOnce(t *testing.T) {
	const window, size = 8 << 20, 1 << 20
	for round := range 200 {
		links := make([]*linkConn, 3)
		for i := range links {
			links[i] = &linkConn{gate: link.NewCreditGate(window, 10)}
			if !links[i].gate.TryTake(window) {
				t.Fatal("a new gate has no credit")
			}
		}
		b := &submission{mesh: &mesh{node: &Node{}}, channel: "c", o: &Outgoing{Name: "n", Payload: make([]byte, size)}}
		line := b.line()
		places, crowded := line.join(&servers{links: links}, map[*linkConn]bool{links[2]: round%2 == 0})
		if want := 2 + round%2; places != want || crowded {
			t.Fatalf("%d places, crowded %v; want %d", places, crowded, want)
		}
		var wg sync.WaitGroup
		for _, l := range links {
			wg.Go(func() {
				if err := l.gate.Give(window); err != nil {
					t.Error(err)
				}
			})
		}
		var first grant
		if round%4 > 1 {
			<-line.news
			if first, _ = line.next(); first.link == nil || first.err != nil {
				t.Fatalf("it is told of %+v", first)
			}
		}
		line.leave()
		wg.Wait()
		for i, l := range links {
			want := window
			if l == first.link {
				want -= line.size
			}
			if l.gate.Left() != want {
				t.Fatalf("link %d has %d bytes of credit, want %d", i, l.gate.Left(), want)
			}
		}
	}
}

// meshOfChannels is a mesh without a node.
func meshOfChannels() *mesh {
	n := &Node{news: newNews()}
	m := &mesh{node: n, links: newLinks("self", n.news)}
	m.channels = newChannels(m)
	return m
}

// serverOf links a server of channel "c", whose link has no credit, to a mesh without a node.
func serverOf(m *mesh, rid string, waiters int) *linkConn {
	const window = 8 << 20
	l := &linkConn{node: m.node, mesh: m, peer: link.Peer{RID: rid}, gate: link.NewCreditGate(window, waiters), pending: newPendingTable()}
	l.gate.TryTake(window)
	m.links.slots[rid] = l
	m.links.publish(l)
	m.channels.replace(l, map[string]uint16{"c": 1})
	return l
}

// Who waits for a server keeps the place in line, whatever else happens in the meshes.
func TestNewsOfOthersTakesNoPlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshOfChannels()
		m.node.cfg.SendTimeout = time.Minute
		l := serverOf(m, "a", 10)
		if _, err := l.gate.Await(1, func(error) {}); err != nil { // who came before
			t.Fatal(err)
		}
		b := &submission{mesh: m, channel: "c", o: &Outgoing{Name: "n"}, deadline: clock.Now().Add(time.Hour)}
		ended := make(chan *Error, 1)
		go func() {
			_, _, err := b.wait(t.Context())
			ended <- err
		}()
		for range 20 {
			synctest.Wait()
			m.node.news.tell()
		}
		synctest.Wait()
		if len(ended) > 0 {
			t.Errorf("it has ended: %v", <-ended)
			return
		}
		if err := <-ended; err != errNotSubmitted { // a minute later
			t.Error(err)
		}
	})
}

// A server that says that it takes nothing, and then that it does, takes no place in line.
func TestAWeightThatChangesToAndFroTakesNoPlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshOfChannels()
		m.node.cfg.SendTimeout = time.Minute
		flips, _ := serverOf(m, "a", 10), serverOf(m, "b", 10)
		b := &submission{mesh: m, channel: "c", o: &Outgoing{Name: "n"}, deadline: clock.Now().Add(time.Hour)}
		ended := make(chan *Error, 1)
		go func() {
			_, _, err := b.wait(t.Context())
			ended <- err
		}()
		synctest.Wait()
		var behind atomic.Bool
		if _, err := flips.gate.Await(1, func(error) { behind.Store(true) }); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			m.channels.replace(flips, map[string]uint16{"c": uint16(i % 2 * 100)})
			synctest.Wait()
		}
		if err := flips.gate.Give(1); err != nil { // too little for who is first
			t.Fatal(err)
		}
		synctest.Wait()
		if behind.Load() {
			t.Error("who came later is before who waited")
		}
		if len(ended) > 0 {
			t.Errorf("it has ended: %v", <-ended)
			return
		}
		if err := <-ended; err != errNotSubmitted { // a minute later
			t.Error(err)
		}
	})
}

// A caller that gives up while it waits finds that in the error.
func TestWhoGivesUpTheWaitForAServerIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meshOfChannels()
		m.node.cfg.SendTimeout = time.Minute
		serverOf(m, "a", 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan *Error, 1)
		go func() {
			b := &submission{mesh: m, channel: "c", o: &Outgoing{Name: "n"}, deadline: clock.Now().Add(time.Hour)}
			_, _, err := b.wait(ctx)
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err == nil || !errors.Is(err, context.Canceled) || err.Kind != errNotSubmitted.Kind {
			t.Error(err)
		}
	})
}

// The send timeout ends the wait also if one gives credit at that moment and takes nothing.
func TestTheWaitForAServerEndsInTime(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			m := meshOfChannels()
			m.node.cfg.SendTimeout = time.Minute
			l, _ := serverOf(m, "a", 10), serverOf(m, "b", 10)
			l.pending.fail(errLinkLost)
			ended := make(chan *Error, 1)
			go func() {
				b := &submission{mesh: m, channel: "c", o: &Outgoing{Name: "n"}, w: &waiter{done: make(chan result, 1)}, deadline: clock.Now().Add(time.Hour)}
				_, _, err := b.wait(context.Background())
				ended <- err
			}()
			synctest.Wait()
			time.AfterFunc(time.Minute, func() { _ = l.gate.Give(1 << 20) })
			if err := <-ended; err != errNotSubmitted {
				t.Error(err)
			}
		})
	}
}

// The servers of a channel are those whose link is in use and whose latest offer has a weight
// for it, whatever the order in which links and offers come and go.
func TestServersAreWhoOffersOverAPresentLink(t *testing.T) {
	names := []string{"x", "y"}
	rapid.Check(t, func(t *rapid.T) {
		m := meshOfChannels()
		var all []*linkConn
		offers := map[*linkConn]map[string]uint16{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			var l *linkConn
			if len(all) > 0 {
				l = rapid.SampledFrom(all).Draw(t, "link")
			}
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0: // a link, maybe in place of another one to the same peer
				l = &linkConn{peer: link.Peer{RID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rid")}}
				all = append(all, l)
				m.links.mu.Lock()
				m.links.slots[l.peer.RID] = l
				m.links.set(l.peer.RID, nil)
				m.links.mu.Unlock()
				m.links.publish(l)
			case 1:
				if l != nil {
					m.links.remove(l)
					m.channels.gone(l)
					delete(offers, l)
				}
			default:
				if l != nil {
					offers[l] = map[string]uint16{}
					for _, name := range names {
						if w := rapid.Uint16Range(0, 3).Draw(t, "weight"); w > 0 {
							offers[l][name] = w - 1
						}
					}
					m.channels.replace(l, offers[l])
				}
			}
			for _, name := range names {
				var got []*linkConn
				if s := m.channels.of(name); s != nil {
					got = s.links
				}
				for _, l := range got {
					// A link that another one has replaced ends at once, and is forgotten then.
					if offers[l][name] == 0 {
						t.Fatalf("a link to %s serves %s", l.peer.RID, name)
					}
				}
				for rid, l := range m.links.all() {
					if offers[l][name] > 0 && !slices.Contains(got, l) {
						t.Fatalf("%s is not among the servers of %s", rid, name)
					}
				}
			}
		}
		for _, l := range all {
			m.links.remove(l)
			m.channels.gone(l)
		}
		if m.channels.servers.Len() != 0 || len(m.channels.offers) != 0 {
			t.Fatal("without links something is left")
		}
	})
}

// What a peer says costs what it has to say: nobody looks at all links for it until a message
// asks, and then once.
func TestOffersThatChangeAreLookedAtWhenSomebodyAsks(t *testing.T) {
	m := meshOfChannels()
	both := [2]map[string]uint16{{}, {}}
	for i := range wire.MaxOffered {
		both[0][fmt.Sprint(i)], both[1][fmt.Sprint(i)] = 1, 2
	}
	restless, other := serverOf(m, "restless", 1), serverOf(m, "other", 1)
	m.channels.replace(other, both[0])
	for i := range 100 {
		m.channels.replace(restless, both[i%2])
	}
	for name := range both[0] {
		if s, ok := m.channels.servers.Load(name); !ok || s.now.Load() != nil || s.last != nil {
			t.Fatalf("channel %s was looked at", name)
		}
	}
	first := m.channels.of("1")
	if first == nil || len(first.links) != 2 || m.channels.of("1") != first {
		t.Fatalf("its servers are %+v", first)
	}
	m.channels.replace(restless, both[0])
	if m.channels.of("1") != first {
		t.Error("who waits for one of the servers is disturbed by a weight")
	}
	m.channels.replace(restless, nil)
	if s := m.channels.of("1"); s == nil || len(s.links) != 1 {
		t.Errorf("its servers are %+v", s)
	}
	m.channels.replace(other, nil)
	if m.channels.of("1") != nil || m.channels.servers.Len() != 0 {
		t.Error("something is left of a channel that nobody serves")
	}
}

func BenchmarkChooseServer(b *testing.B) {
	m := meshOfChannels()
	for i := range 3 {
		l := &linkConn{peer: link.Peer{RID: fmt.Sprint("node-", i)}}
		m.links.slots[l.peer.RID] = l
		m.links.publish(l)
		m.channels.replace(l, map[string]uint16{"work": uint16(i + 1)})
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s := m.channels.of("work")
			if s.links[s.next()] == nil {
				b.Error("no link")
			}
		}
	})
}
