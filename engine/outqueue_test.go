package engine

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode/internal/buf"
)

// reader plays the loop and the socket for one queue: it "writes" what is there
// in pieces of changing size and keeps the bytes.
type reader struct {
	q     *outQueue
	g     gather
	got   []byte
	piece int
}

func newReader(q *outQueue) *reader {
	return &reader{q: q, g: gather{scratch: make([]byte, readBytes)}}
}

// step takes one piece and reports whether there was anything.
func (r *reader) step() bool {
	if !r.q.waits() {
		return false
	}
	r.piece = r.piece*5%4093 + 1
	r.q.gather(&r.g, r.piece)
	for i := range r.g.iov[:r.g.n] {
		v := &r.g.iov[i]
		r.got = append(r.got, bytesOf(v)...)
	}
	n := r.g.total
	r.g.reset()
	r.q.wrote(n).tell(true)
	return true
}

// tagged is a message of the stress tests: queue, producer, number, and a length
// that the number gives, filled with the producer.
const tagHead = 12

func tagged(queue, producer, i int) *buf.Buf {
	b := buf.Get(tagHead + i*7%150 + i%97/96*appendMax)
	binary.BigEndian.PutUint32(b.Bytes(), uint32(queue<<16|producer))
	binary.BigEndian.PutUint32(b.Bytes()[4:], uint32(i))
	binary.BigEndian.PutUint32(b.Bytes()[8:], uint32(len(b.Bytes())))
	for j := tagHead; j < len(b.Bytes()); j++ {
		b.Bytes()[j] = byte(producer)
	}
	return b
}

// checkTagged fails unless got is each producer's messages in order, of this queue.
func checkTagged(t *testing.T, got []byte, queue, producers, each int) {
	t.Helper()
	next := make([]int, producers)
	for len(got) > 0 {
		if len(got) < tagHead {
			t.Fatalf("queue %d: %d bytes at the end", queue, len(got))
		}
		from := binary.BigEndian.Uint32(got)
		i, n := int(binary.BigEndian.Uint32(got[4:])), int(binary.BigEndian.Uint32(got[8:]))
		p := int(from & 0xffff)
		if int(from>>16) != queue || p >= producers || i != next[p] || n < tagHead || n > len(got) {
			t.Fatalf("queue %d: message %d of %x, %d bytes; want number %v", queue, i, from, n, next)
		}
		for _, v := range got[tagHead:n] {
			if v != byte(p) {
				t.Fatalf("queue %d: message %d of producer %d has another's bytes", queue, i, p)
			}
		}
		next[p]++
		got = got[n:]
	}
	for p, n := range next {
		if n != each {
			t.Fatalf("queue %d: %d messages of producer %d, want %d", queue, n, p, each)
		}
	}
}

// Many queues share the pools of chunks: a producer that was delayed holds a chunk
// of another queue.
func TestQueuesThatShareChunksKeepTheirMessagesApart(t *testing.T) {
	const queues, producers, each = 6, 4, 3000
	live := buf.Live()
	qs := make([]outQueue, queues)
	var producing, reading sync.WaitGroup
	var stop atomic.Bool
	readers := make([]*reader, queues)
	for i := range qs {
		readers[i] = newReader(&qs[i])
		for p := range producers {
			producing.Go(func() {
				for n := range each {
					for errors.Is(qs[i].put(tagged(i, p, n), 64<<10), ErrFull) {
						runtime.Gosched()
					}
				}
			})
		}
		reading.Go(func() {
			for !stop.Load() {
				if !readers[i].step() {
					runtime.Gosched()
				}
			}
		})
	}
	producing.Wait()
	stop.Store(true)
	reading.Wait()
	for i, r := range readers {
		for r.step() {
		}
		checkTagged(t, r.got, i, producers, each)
		if n := qs[i].cost(); n != 0 {
			t.Errorf("queue %d: %d pending", i, n)
		}
	}
	if n := buf.Live() - live; n != 0 {
		t.Errorf("%d buffers left", n)
	}
}

// Goroutines that take turns give one order of all their messages, while others
// put what they like.
func TestAPutThatFollowsAnotherComesAfterIt(t *testing.T) {
	const players, rounds = 4, 2000
	var q outQueue
	r := newReader(&q)
	turn := make([]chan int, players)
	for i := range turn {
		turn[i] = make(chan int, 1)
	}
	var wg sync.WaitGroup
	var over atomic.Bool
	put := func(b *buf.Buf) {
		for q.put(b.Ref(), 1<<20) != nil {
			runtime.Gosched()
		}
		b.Free()
	}
	for i := range players {
		wg.Go(func() {
			for n := range turn[i] {
				put(tagged(0, 0, n))
				if n == players*rounds-1 {
					over.Store(true)
					for _, c := range turn {
						close(c)
					}
					return
				}
				turn[(i+1)%players] <- n + 1
			}
		})
	}
	noise := 0
	wg.Go(func() {
		for ; !over.Load(); noise++ {
			put(tagged(0, 1, noise))
			runtime.Gosched()
		}
	})
	turn[0] <- 0
	for !over.Load() {
		if !r.step() {
			runtime.Gosched()
		}
	}
	wg.Wait()
	for r.step() {
	}
	var order []int
	for got := r.got; len(got) > 0; got = got[binary.BigEndian.Uint32(got[8:]):] {
		if binary.BigEndian.Uint32(got) == 0 {
			order = append(order, int(binary.BigEndian.Uint32(got[4:])))
		}
	}
	if len(order) != players*rounds || !slices.IsSorted(order) {
		t.Errorf("%d messages in turn, sorted %v", len(order), slices.IsSorted(order))
	}
}

// A producer that has reserved room and not yet copied its bytes holds up what
// comes after it, and nothing that came before.
func TestAHalfDoneAppendHoldsUpOnlyWhatFollows(t *testing.T) {
	var q outQueue
	put := func(s string) {
		if err := q.put(buf.Copy([]byte(s)), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	put(string(make([]byte, appendMax+1))) // a chunk of its own, below
	put("abc")
	c := q.top.Load()
	q.pending.Add(3 + MessageCost)
	c.state.Add(stateMessage + 3) // reserved by a producer that pauses here
	put("ghi")                    // into the same chunk
	r := newReader(&q)
	for r.step() {
	}
	if len(r.got) != appendMax+1 {
		t.Errorf("%d bytes read before the hole is filled, want those of the chunk below", len(r.got))
	}
	put("jkl") // above, as the chunk is sealed
	for r.step() {
	}
	copy(c.room[3:], "def")
	c.done.Add(3)
	for r.step() {
	}
	if got := string(r.got[appendMax+1:]); got != "abcdefghijkl" || q.cost() != 0 {
		t.Errorf("got %q, %d pending", got, q.cost())
	}
}

func TestAQueueOfOneSmallMessageIsSmallAndALongOneIsDense(t *testing.T) {
	var q outQueue
	for range 200 {
		if err := q.put(buf.Copy(make([]byte, 64)), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	var grades []int
	for c := q.top.Load(); c != nil; c = c.next {
		grades = append(grades, int(c.grade))
	}
	if want := []int{3, 2, 1, 0}; !slices.Equal(grades, want) {
		t.Errorf("grades %v from the top, want %v", grades, want)
	}
	q.drop()
	if n := q.cost(); n != 0 {
		t.Errorf("%d pending", n)
	}
}

func TestTheBudgetCountsEveryMessageOnce(t *testing.T) {
	for _, size := range []int{1, 100, appendMax, appendMax + 1, 5000} {
		var q outQueue
		const limit = 100_000
		n := 0
		for q.put(buf.Get(size), limit) == nil {
			n++
		}
		if want := limit / (size + MessageCost); n != want {
			t.Errorf("size %d: %d messages fit, want %d", size, n, want)
		}
		if err := q.put(buf.Get(size), limit); !errors.Is(err, ErrFull) {
			t.Errorf("full: %v", err)
		}
		q.close()
		if err := q.put(buf.Get(size), limit); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		r := newReader(&q)
		for r.step() {
		}
		if len(r.got) != n*size || !q.ended() {
			t.Errorf("size %d: %d bytes, ended %v", size, len(r.got), q.ended())
		}
	}
}

func TestAnEmptyMessageTakesNothing(t *testing.T) {
	var q outQueue
	if err := q.put(buf.Get(0), 1000); err != nil || q.cost() != 0 || q.waits() {
		t.Errorf("%v, %d pending", err, q.cost())
	}
	q.close()
	if err := q.put(buf.Get(0), 1000); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// What a slow producer may hold in its hand: a chunk that it looked at, and that
// has since had other owners. It must not write there.
func TestAStaleLookReservesNothing(t *testing.T) {
	for name, meanwhile := range map[string]func(q *outQueue, c *chunk){
		"taken by the loop": func(q *outQueue, _ *chunk) { q.take() },
		"reused by another queue": func(q *outQueue, c *chunk) {
			q.take()
			c.begin(nil, []byte("a"))
			new(outQueue).push(c)
		},
		"reused by the same queue": func(q *outQueue, c *chunk) {
			q.take()
			q.first, q.last = nil, nil
			c.begin(nil, []byte("a"))
			q.push(c)
		},
		"appended to": func(q *outQueue, _ *chunk) {
			if err := q.put(buf.Copy([]byte("b")), 1000); err != nil {
				t.Error(err)
			}
		},
	} {
		var q outQueue
		if err := q.put(buf.Copy([]byte("a")), 1000); err != nil {
			t.Fatal(err)
		}
		c := q.top.Load()
		seen, ok := c.look(1, &q.top)
		if !ok {
			t.Fatal("no room in a new chunk")
		}
		meanwhile(&q, c)
		if c.reserve(seen, 1) {
			t.Errorf("reserved in a chunk that was %s", name)
		}
	}
}

func TestAChunkOfAnotherQueueHasNoRoom(t *testing.T) {
	var mine, others outQueue
	if err := others.put(buf.Copy([]byte("a")), 1000); err != nil {
		t.Fatal(err)
	}
	if _, ok := others.top.Load().look(1, &mine.top); ok {
		t.Error("room in a chunk that is not on top of the queue")
	}
}

func BenchmarkQueue(b *testing.B) {
	var q outQueue
	g := gather{scratch: make([]byte, readBytes)}
	msg := make([]byte, 64)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if q.put(buf.Copy(msg), 1<<20) != nil || i%1000 == 999 {
			for q.waits() {
				q.gather(&g, flushBytes)
				n := g.total
				g.reset()
				q.wrote(n)
			}
		}
	}
}
