package chunker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/clock"
)

// link is a Pacer whose moves are named by a letter; Next's answers read "a0". Its window is
// wide, and its clock stands still until a test moves it.
type link struct {
	*Pacer[string]
	now *clock.Mono
}

func newLink(limit int64, node *Budget) link {
	l := link{NewPacer[string](limit, node), new(clock.Mono)}
	l.window.bytes = 1 << 40
	return l
}

func (l link) Next() (move string, index uint32, ok bool) { return l.Pacer.Next(*l.now) }

func (l link) Acked(out *Outgoing, received uint32) bool {
	return l.Pacer.Acked(*l.now, out, received)
}

// sends returns what goes out until Next has nothing.
func (l link) sends() string {
	var out []string
	for {
		move, i, ok := l.Next()
		if !ok {
			return strings.Join(out, " ")
		}
		out = append(out, fmt.Sprint(move, i))
		l.Written()
	}
}

// chunks returns an Outgoing of n chunks of 1 KiB.
func chunks(n int) *Outgoing { return NewOutgoing([][]byte{noise(n << 10)}, 1<<10, None) }

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestWhatIsInFlightStaysWithinTheLinksLimit(t *testing.T) {
	node := new(Budget)
	l := newLink(3<<10+500, node)
	a := chunks(6)
	l.Add("a", a)
	expect(t, l.sends(), "a0 a1 a2")
	if l.InFlight() != 3<<10 || node.InFlight() != 3<<10 || !l.Full() {
		t.Errorf("%d and %d bytes in flight, full %v", l.InFlight(), node.InFlight(), l.Full())
	}
	l.Acked(a, 2)
	expect(t, l.sends(), "a3 a4")
	l.Acked(a, 2) // the same again, and one that came late, make no room
	l.Acked(a, 1)
	expect(t, l.sends(), "")
	if a.Acked() != 2 || l.InFlight() != 3<<10 {
		t.Errorf("%d chunks acknowledged, %d bytes in flight", a.Acked(), l.InFlight())
	}
	l.Acked(a, 5)
	expect(t, l.sends(), "a5")
	l.Acked(a, 6)
	if !a.Done() || l.InFlight() != 0 || node.InFlight() != 0 || l.Full() {
		t.Errorf("%d and %d bytes in flight of a payload that has come, full %v", l.InFlight(), node.InFlight(), l.Full())
	}
}

// req: PO-05
func TestAPayloadLargerThanEveryBudgetArrivesInOrder(t *testing.T) {
	freed(t)
	node := new(Budget)
	node.SetLimit(10)
	l := newLink(100, node)
	want := noise(10000)
	o := NewOutgoing([][]byte{want}, 1024, None)
	in := target(t, o, Limits{})
	l.Add("a", o)
	for !o.Done() {
		_, i, ok := l.Next()
		if !ok {
			t.Fatalf("nothing is sent, and nothing is in flight, after %d chunks", o.Acked())
		}
		l.Written()
		if _, _, more := l.Next(); more {
			t.Fatal("two chunks over the budget are in flight")
		}
		p, crc := chunk(o, i)
		if _, err := in.Add(i, crc, p); err != nil {
			t.Fatal(err)
		}
		l.Acked(o, in.Received())
	}
	if got, err := in.Payload(); err != nil || string(got) != string(want) {
		t.Errorf("other bytes, %v", err)
	}
	in.Free()
}

func TestMovesOfALinkTakeTurns(t *testing.T) {
	l := newLink(0, new(Budget))
	l.Add("a", chunks(5))
	move, i, _ := l.Next()
	l.Written()
	expect(t, fmt.Sprint(move, i), "a0")
	l.Add("b", chunks(2))
	l.Add("c", chunks(3))
	expect(t, l.sends(), "a1 b0 c0 a2 b1 c1 a3 c2 a4")
}

// A small chunk that would fit does not overtake a large one that waits.
func TestTheMoveWhoseTurnItIsKeepsItsTurnWhileItWaits(t *testing.T) {
	l := newLink(4<<10, new(Budget))
	large := NewOutgoing([][]byte{noise(6 << 10)}, 3<<10, None)
	small := chunks(4)
	l.Add("large", large)
	l.Add("small", small)
	expect(t, l.sends(), "large0 small0")
	l.Acked(small, 1) // room for a small one
	expect(t, l.sends(), "")
	l.Acked(large, 1)
	expect(t, l.sends(), "large1 small1")
}

func TestOneChunkAtATimeWaitsInTheLinksQueue(t *testing.T) {
	l := newLink(0, new(Budget))
	l.Add("a", chunks(9))
	for range 3 {
		if _, _, ok := l.Next(); !ok {
			t.Fatal("nothing to send")
		}
		if _, _, ok := l.Next(); ok {
			t.Fatal("a second chunk while the first one is in the queue")
		}
		l.Written()
	}
}

func TestAMoveThatEndsMakesRoom(t *testing.T) {
	node := new(Budget)
	l := newLink(2<<10, node)
	a, b := chunks(5), chunks(5)
	l.Add("a", a)
	expect(t, l.sends(), "a0 a1")
	l.Add("b", b)
	expect(t, l.sends(), "")
	l.Remove(a)
	l.Remove(a)
	expect(t, l.sends(), "b0 b1")
	if !l.Acked(a, 1) || l.InFlight() != 2<<10 {
		t.Errorf("%d bytes in flight after a late acknowledgement", l.InFlight())
	}
}

func TestAnAcknowledgementOfWhatWasNeverSentIsNone(t *testing.T) {
	l := newLink(2<<10, new(Budget))
	a := chunks(5)
	l.Add("a", a)
	expect(t, l.sends(), "a0 a1")
	if l.Acked(a, 3) || a.Acked() != 0 || l.InFlight() != 2<<10 {
		t.Errorf("%d chunks acknowledged, %d bytes in flight", a.Acked(), l.InFlight())
	}
}

// req: RL-05
func TestWhatALostLinkCarriedIsSentAgainFromTheSource(t *testing.T) {
	freed(t)
	node := new(Budget)
	l := newLink(3<<10, node)
	want := noise(6 << 10)
	o := NewOutgoing([][]byte{want}, 1<<10, None)
	in := target(t, o, Limits{})
	l.Add("a", o)
	l.Add("b", chunks(4))
	expect(t, l.sends(), "a0 b0 a1")
	for i := range uint32(2) {
		p, crc := chunk(o, i)
		if _, err := in.Add(i, crc, p); err != nil {
			t.Fatal(err)
		}
	}
	l.Acked(o, 1) // the second acknowledgement is lost with the link
	if _, _, ok := l.Next(); !ok {
		t.Fatal("nothing to send")
	}
	l.Lost() // with a chunk in the queue
	if l.InFlight() != 0 || node.InFlight() != 0 || node.links != 0 {
		t.Fatalf("%d bytes in flight on a link that is lost, %d of the node", l.InFlight(), node.InFlight())
	}
	expect(t, l.sends(), "")

	if o.Resume(7) {
		t.Error("resumed behind the last chunk")
	}
	if !o.Resume(in.Received()) {
		t.Fatal("not resumed")
	}
	next := newLink(0, node)
	next.Add("a", o)
	expect(t, next.sends(), "a2 a3 a4 a5")
	for i := uint32(2); i < 6; i++ {
		p, crc := chunk(o, i)
		if _, err := in.Add(i, crc, p); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := in.Payload(); err != nil || string(got) != string(want) {
		t.Errorf("other bytes, %v", err)
	}
	in.Free()
}

func TestLimitsCanBeSetAtAnyTime(t *testing.T) {
	node := new(Budget)
	l := newLink(0, node)
	a := chunks(20)
	l.Add("a", a)
	l.SetLimit(1 << 10)
	expect(t, l.sends(), "a0")
	l.SetLimit(3 << 10)
	expect(t, l.sends(), "a1 a2")
	l.SetLimit(0)
	node.SetLimit(4 << 10)
	expect(t, l.sends(), "a3")
	l.SetLimit(1 << 10)
	l.Acked(a, 1)
	expect(t, l.sends(), "")
	l.Acked(a, 4)
	expect(t, l.sends(), "a4")
	node.SetLimit(0)
	l.SetLimit(0)
	expect(t, l.sends(), "a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16 a17 a18 a19")
}

func TestLinksShareTheNodesBudget(t *testing.T) {
	node := new(Budget)
	node.SetLimit(4 << 10)
	first, second := newLink(0, node), newLink(0, node)
	a, b := chunks(9), chunks(9)
	first.Add("a", a)
	expect(t, first.sends(), "a0 a1 a2 a3")
	second.Add("b", b)
	expect(t, second.sends(), "b0") // it may always have one
	first.Acked(a, 1)
	expect(t, first.sends(), "") // it has more than its half
	first.Acked(a, 2)
	expect(t, first.sends(), "")
	second.Acked(b, 1)
	expect(t, second.sends(), "b1 b2") // that it got back
	first.Acked(a, 3)
	expect(t, first.sends(), "a4")
	second.Remove(b)
	expect(t, first.sends(), "a5 a6") // and now it is alone again
}

func TestAMoveIsInOnePacer(t *testing.T) {
	node := new(Budget)
	l := newLink(0, node)
	a := chunks(2)
	panics := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic", name)
			}
		}()
		f()
	}
	l.Add("a", a)
	panics("another Add", func() { newLink(0, node).Add("a", a) })
	panics("Resume in a pacer", func() { a.Resume(0) })
	l.Lost()
	panics("Add without Resume", func() { l.Add("a", a) })
}

// With any moves, limits, losses and acknowledgements the sums are right, the limits are
// kept but for one chunk, turns are fair, and whoever has nothing in flight may send.
func TestPacersKeepTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := new(Budget)
		var links []link
		for range rapid.IntRange(1, 3).Draw(t, "links") {
			l := newLink(rapid.Int64Range(0, 12<<10).Draw(t, "limit"), node)
			l.window.bytes = rapid.Int64Range(0, 12<<10).Draw(t, "window")
			links = append(links, l)
		}
		type move struct {
			out    *Outgoing
			passed map[*move]bool // others of the link that have sent a chunk while this one waits
		}
		moves := make([][]*move, len(links)) // of each link
		names := make(map[string]*move)
		queued := make([]bool, len(links))
		left := func(i int, m *move) {
			moves[i] = slices.DeleteFunc(moves[i], func(o *move) bool { return o == m })
		}
		pick := func(i int) *move {
			if len(moves[i]) == 0 {
				return nil
			}
			return rapid.SampledFrom(moves[i]).Draw(t, "move")
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			i := rapid.IntRange(0, len(links)-1).Draw(t, "link")
			l := links[i]
			switch rapid.SampledFrom([]string{"add", "next", "next", "next", "written", "written", "ack", "ack", "remove", "lost", "limit", "node", "time"}).Draw(t, "step") {
			case "add":
				m := &move{out: NewOutgoing([][]byte{make([]byte, rapid.IntRange(0, 9000).Draw(t, "bytes"))}, rapid.Uint32Range(ChunkMin, 4<<10).Draw(t, "chunk"), None), passed: make(map[*move]bool)}
				name := fmt.Sprint(len(names))
				names[name] = m
				l.Add(name, m.out)
				if !m.out.Done() {
					moves[i] = append(moves[i], m)
				}
			case "next":
				before, nodeBefore := l.InFlight(), node.InFlight()
				name, index, ok := l.Next()
				waits := slices.ContainsFunc(moves[i], func(m *move) bool { return !m.out.sent() })
				if !ok {
					if before == 0 && waits && !queued[i] {
						t.Fatal("a link with nothing in flight does not send")
					}
					break
				}
				if queued[i] {
					t.Fatal("two chunks in the queue")
				}
				queued[i] = true
				m := names[name]
				if index+1 != m.out.next || !slices.Contains(moves[i], m) {
					t.Fatalf("move %s: chunk %d, not the next one of a move that is here", name, index)
				}
				if size := int64(m.out.manifest.size(index)); l.InFlight() != before+size || node.InFlight() != nodeBefore+size {
					t.Fatal("a chunk that does not count")
				}
				if before > 0 && (l.limit > 0 && l.InFlight() > l.limit || node.limit > 0 && node.InFlight() > node.limit) {
					t.Fatalf("%d of %d bytes on the link, %d of %d of the node", l.InFlight(), l.limit, node.InFlight(), node.limit)
				}
				if before > 0 && l.InFlight() > max(l.window.bytes, 2*int64(m.out.manifest.ChunkBytes)) {
					t.Fatalf("%d bytes on the link, whose window is %d", l.InFlight(), l.window.bytes)
				}
				for _, other := range moves[i] {
					switch {
					case other == m || other.out.sent():
						clear(other.passed)
					case other.passed[m]:
						t.Fatalf("move %s has a second turn while one waits for its first", name)
					default:
						other.passed[m] = true
					}
				}
			case "written":
				queued[i] = false
				l.Written()
			case "ack":
				if m := pick(i); m != nil {
					n := rapid.Uint32Range(0, m.out.manifest.Chunks).Draw(t, "received")
					if known := n <= m.out.next; l.Acked(m.out, n) != known {
						t.Fatalf("%d of %d acknowledged: known %v", n, m.out.next, known)
					}
					if m.out.Done() {
						left(i, m)
					}
				}
			case "remove":
				if m := pick(i); m != nil {
					l.Remove(m.out)
					left(i, m)
				}
			case "lost":
				l.Lost()
				moves[i], queued[i] = nil, false
			case "limit":
				l.SetLimit(rapid.Int64Range(0, 12<<10).Draw(t, "limit"))
			case "time":
				*l.now = l.now.Add(time.Duration(rapid.Int64Range(0, int64(2*windowHalf)).Draw(t, "passes")))
			case "node":
				node.SetLimit(rapid.Int64Range(0, 16<<10).Draw(t, "limit"))
			}

			var all, busy int64
			for i, l := range links {
				var sum int64
				for _, m := range moves[i] {
					sum += m.out.inFlight()
				}
				if l.InFlight() != sum || len(l.moves) != len(moves[i]) {
					t.Fatalf("%d bytes of %d moves in flight, want %d of %d", l.InFlight(), len(l.moves), sum, len(moves[i]))
				}
				all += sum
				if len(moves[i]) > 0 {
					busy++
				}
			}
			if node.InFlight() != all || node.links != busy {
				t.Fatalf("node: %d bytes of %d links, want %d of %d", node.InFlight(), node.links, all, busy)
			}
		}
	})
}
