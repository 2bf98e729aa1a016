package engine

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/buf"
)

const (
	streamBytes  = 256 << 20
	streamPart   = 256 << 10
	streamWindow = 4 << 20 // sent and not acknowledged, at most
	streamQueued = 1       // parts in the out queue, at most: so much a message waits
	streamHead   = 12      // length, number, CRC
	streamUnsent = 1 << 20 // as links have it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// outStream sends source in parts. All of it is its connection's loop's.
type outStream struct {
	c        *Conn
	source   []byte
	sent     int // parts given to the engine
	queued   int // of them, those that it still has
	acked    int
	finished chan struct{}
}

func (s *outStream) next() {
	for s.sent*streamPart < len(s.source) && s.queued < streamQueued && (s.sent-s.acked)*streamPart < streamWindow {
		body := s.source[s.sent*streamPart:][:streamPart]
		head := buf.Get(streamHead)
		binary.BigEndian.PutUint32(head.Bytes(), streamHead-4+streamPart)
		binary.BigEndian.PutUint32(head.Bytes()[4:], uint32(s.sent))
		binary.BigEndian.PutUint32(head.Bytes()[8:], crc32.Checksum(body, castagnoli))
		if err := s.c.SendParts(head, [][]byte{body}, s.written); err != nil {
			panic(err)
		}
		s.sent++
		s.queued++
	}
}

func (s *outStream) written(bool) {
	s.queued--
	s.next()
}

func (s *outStream) ack() {
	s.acked++
	if s.acked*streamPart == len(s.source) {
		close(s.finished)
		return
	}
	s.next()
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// plainStream sends source over a plain pair of connections and returns how long
// it took.
func plainStream(b *testing.B, w, r net.Conn, source, target []byte) time.Duration {
	began := time.Now()
	sums := make(chan uint32, len(source)/streamPart)
	go func() {
		for i := 0; i < len(source); i += streamPart {
			part := source[i:][:streamPart]
			sums <- crc32.Checksum(part, castagnoli)
			if _, err := w.Write(part); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	for i := 0; i < len(source); i += streamPart {
		part := target[i:][:streamPart]
		if _, err := io.ReadFull(r, part); err != nil {
			b.Fatal(err)
		}
		if crc32.Checksum(part, castagnoli) != <-sums {
			b.Fatal("a part differs")
		}
	}
	return time.Since(began)
}

// BenchmarkStream moves 256 MiB between two engines, as state goes between nodes,
// and the same bytes over a plain connection: one writer, one reader, the same
// pieces and checksums. The metric "ratio" is the engine's rate ÷ the plain one, the
// median of the ops, as the machine's mood changes from one op to the next.
func BenchmarkStream(b *testing.B) {
	source, target := make([]byte, streamBytes), make([]byte, streamBytes)
	for i := range source {
		source[i] = byte(i * i >> 7)
	}
	out := &outStream{source: source}
	sender, receiver := start(b, 1), start(b, 1)
	in := testProtocol(&hooks{})
	in.TrustLength = true
	in.Placer = &placer{
		place: func(_ *Conn, prefix []byte, size int) ([]byte, int) {
			at := int(binary.BigEndian.Uint32(prefix[4:])) * streamPart
			return target[at : at+size-streamHead], streamHead
		},
		placed: func(c *Conn, head, dst []byte) error {
			if crc32.Checksum(dst, castagnoli) != binary.BigEndian.Uint32(head[8:]) {
				b.Error("a part differs")
			}
			return c.SendControl(buf.Copy(frame("")))
		},
	}
	dialled := testProtocol(&hooks{
		frame: func(*Conn, []byte, *buf.Buf) error { out.ack(); return nil },
	})
	dialled.UnsentMax = streamUnsent
	c, err := sender.Dial(b.Context(), listen(b, receiver, in), dialled)
	if err != nil {
		b.Fatal(err)
	}
	out.c = c

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	w := dialMany(b, ln.Addr().String(), 1)[0]
	r, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()

	var cpus []float64
	var cpu [3]time.Duration
	var ours, plains, ratios []float64   // of each op, in seconds
	plainStream(b, w, r, source, target) // the pages of both are there from here on
	b.SetBytes(2 * streamBytes)
	before := [2]Stats{sender.Stats(), receiver.Stats()}
	for b.Loop() {
		runtime.GC()
		cpu[0] = cpuTime()
		plain := plainStream(b, w, r, source, target).Seconds()
		cpu[1] = cpuTime()
		began := time.Now()
		out.sent, out.acked, out.finished = 0, 0, make(chan struct{})
		if err := c.Post(func(*Conn) { out.next() }); err != nil {
			b.Fatal(err)
		}
		<-out.finished
		engine := time.Since(began).Seconds()
		cpu[2] = cpuTime()
		cpus = append(cpus, float64(cpu[1]-cpu[0])/float64(cpu[2]-cpu[1]))
		ours, plains, ratios = append(ours, engine), append(plains, plain), append(ratios, plain/engine)
	}
	const mib = float64(streamBytes) / (1 << 20)
	parts := float64(b.N) * streamBytes / streamPart
	b.ReportMetric(mib/median(ours), "MiB/s-engine")
	b.ReportMetric(mib/median(plains), "MiB/s-plain")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(cpus), "cpu-ratio")
	b.ReportMetric(float64(sender.Stats().Writes-before[0].Writes)/parts, "writes/part")
	b.ReportMetric(float64(sender.Stats().Blocked-before[0].Blocked)/parts, "blocked/part")
	placed := receiver.Stats().BytesPlaced - before[1].BytesPlaced
	b.ReportMetric(1-float64(placed)/parts/streamPart, "copies-in")
}
