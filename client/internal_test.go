package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/session"
)

// The table is compared with a plain slice of what should be in it.
func TestTheRequestTableGivesEveryRequestOutOnceAndTheEarliestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const bound = 40
		var table requestTable
		table.init(bound, 7)
		var model []*request
		forget := func(r *request) {
			model = slices.DeleteFunc(model, func(m *request) bool { return m == r })
		}
		now := clock.Mono(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				r := &request{deadline: now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "timeout")))}
				switch err := table.add(r); {
				case len(model) == bound:
					if !errors.Is(err, ErrTooManyPending) {
						t.Fatalf("over the bound: %v", err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					model = append(model, r)
				}
			case 2:
				if len(model) == 0 {
					continue
				}
				want := model[rapid.IntRange(0, len(model)-1).Draw(t, "which")]
				if got := table.take(want.seq); got != want {
					t.Fatalf("take(%d) = %v", want.seq, got)
				}
				if table.take(want.seq) != nil {
					t.Fatalf("request %d was given out twice", want.seq)
				}
				forget(want)
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "passed")))
				for r := table.takeExpired(now); r != nil; r = table.takeExpired(now) {
					if r.deadline > now {
						t.Fatalf("deadline %d was given out at %d", r.deadline, now)
					}
					forget(r)
				}
			}
			want := clock.Never
			for _, r := range model {
				want = min(want, r.deadline)
			}
			if got := table.nextDeadline(); got != want {
				t.Fatalf("next deadline %d, want %d", got, want)
			}
		}
		seqs := make(map[uint64]bool)
		for _, r := range table.close(ErrClosed) {
			if !slices.Contains(model, r) || seqs[r.seq] || r.seq <= 7 {
				t.Fatalf("request %d is left over", r.seq)
			}
			seqs[r.seq] = true
		}
		if len(seqs) != len(model) {
			t.Fatalf("%d requests left, want %d", len(seqs), len(model))
		}
		if err := table.add(&request{}); !errors.Is(err, ErrClosed) || table.take(8) != nil || len(table.close(nil)) != 0 {
			t.Fatalf("a closed table took a request: %v", err)
		}
	})
}

// feed gives stream to an inbox as a reader would, at most piece bytes a time,
// and returns the frames and the largest buffer seen.
func feed(tb rapid.TB, b *inbox, stream []byte, piece int) (frames [][]byte, largest int) {
	tb.Helper()
	for len(stream) > 0 {
		space := b.space()
		if len(space) == 0 {
			tb.Fatal("no space for the next byte")
		}
		n := copy(space[:min(len(space), piece)], stream)
		stream = stream[n:]
		b.received(n)
		largest = max(largest, len(b.buf))
		for {
			frame, err := b.next()
			if err != nil {
				tb.Fatal(err)
			}
			if frame == nil {
				break
			}
			frames = append(frames, bytes.Clone(frame))
		}
	}
	return frames, largest
}

func TestTheInboxCutsTheSameFramesHoweverTheyArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want [][]byte
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			p := session.Packet{
				Kind: session.KindSend, Name: []byte("n"),
				Payload: make([]byte, rapid.SampledFrom([]int{0, 1, 100, 5000, 40_000}).Draw(t, "size")),
			}
			frame, err := session.Append(nil, &p)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, frame)
		}
		b := inbox{frameMax: 50_000}
		got, largest := feed(t, &b, bytes.Join(want, nil), rapid.IntRange(1, 60_000).Draw(t, "piece"))
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("%d frames came out of %d", len(got), len(want))
		}
		if largest > b.frameMax+session.PrefixSize {
			t.Fatalf("the buffer grew to %d bytes", largest)
		}
	})
}

func TestTheInboxGrowsWithWhatArrivedNotWithWhatIsClaimed(t *testing.T) {
	b := inbox{frameMax: 1 << 20}
	claim := binary.BigEndian.AppendUint16(nil, 6)
	claim = binary.BigEndian.AppendUint32(claim, 1<<20-6)
	if _, largest := feed(t, &b, append(claim, make([]byte, 3000)...), 1<<20); largest != inboxMin {
		t.Errorf("%d bytes are held for 3006 received", largest)
	}
	frames, largest := feed(t, &b, make([]byte, 1<<20-3000), 1<<20)
	if len(frames) != 1 || largest != 1<<20+session.PrefixSize {
		t.Errorf("%d frames, %d bytes held at most", len(frames), largest)
	}
	b.space()
	if len(b.buf) != inboxMin {
		t.Errorf("%d bytes are held after the large frame", len(b.buf))
	}
}

// deadlines is a connection that notes its read deadlines.
type deadlines struct {
	net.Conn
	set []clock.Mono
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, clock.At(t))
	return nil
}

func TestTheAlarmKeepsTheEarliestTimeUntilTheReaderLooksAround(t *testing.T) {
	var conn deadlines
	var a alarm
	a.init(&conn)
	a.ring(30)
	a.ring(40)
	a.ring(20)
	a.clear()
	a.ring(50)
	// A Close that comes while the connection says goodbye must not cut that short.
	a.last(100)
	a.ring(10)
	if want := []clock.Mono{30, 20, 50, 100}; !slices.Equal(conn.set, want) {
		t.Errorf("deadlines %d, want %d", conn.set, want)
	}
}

func TestAnIdleOutQueueGivesUpWhatABurstTook(t *testing.T) {
	var q outQueue
	q.init(nil, 1<<20, 0)
	p := session.Packet{Kind: session.KindSend, Name: []byte("n"), Payload: make([]byte, 100_000)}
	var batch []byte
	for range 2 {
		if err := q.push(t.Context(), &p, 0); err != nil {
			t.Fatal(err)
		}
		batch, _, _ = q.take(batch)
	}
	if cap(batch)+cap(q.pending) < 200_000 {
		t.Errorf("a busy queue keeps %d bytes for reuse", cap(batch)+cap(q.pending))
	}
	q.heartbeat(true, false)
	batch, _, _ = q.take(batch)
	if string(batch) != string(session.PingFrame()) || cap(batch)+cap(q.pending) > spareMax {
		t.Errorf("an idle queue keeps %d bytes", cap(batch)+cap(q.pending))
	}
}

func TestABackoffStaysWithinItsBounds(t *testing.T) {
	b := backoff{min: 100, max: 1000}
	step := time.Duration(100)
	for range 10 {
		if d := b.next(); d < step/2 || d > step {
			t.Errorf("pause %d, want %d to %d", d, step/2, step)
		}
		step = min(2*step, 1000)
	}
	b.lasted(1000)
	if d := b.next(); d < 500 {
		t.Errorf("pause %d after a short connection", d)
	}
	b.lasted(1001)
	if d := b.next(); d > 100 {
		t.Errorf("pause %d after a long connection", d)
	}
}

// A write may fail because the server has closed, and is heard of before its reason: what
// the server said decides whether to connect anew.
func TestWhatTheServerSaidIsTheCauseThoughAWriteFailed(t *testing.T) {
	for _, said := range []error{&ClosedError{Reason: session.ProtocolError}, &StatusError{Code: 1008}, ErrProtocol} {
		c, s := net.Pipe()
		l := newLink(&Client{opts: Options{MaxFrame: 1 << 10, OutQueueBytes: 1 << 10}}, c, 0)
		l.failed.Store(&writeFailure{err: net.ErrClosed, until: clock.Never})
		l.conn = failing{c, said}
		if cause := l.serve(); !errors.Is(cause, said) || ShouldReconnect(cause) {
			t.Errorf("%v became %v", said, cause)
		}
		_ = s.Close()
	}
}

// failing is a connection whose end is what the reader is told.
type failing struct {
	net.Conn
	err error
}

func (f failing) Read([]byte) (int, error) { return 0, f.err }
