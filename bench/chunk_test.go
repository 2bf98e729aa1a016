package bench

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/internal/clock"
)

// moveBytes is the payload of a large move.
const moveBytes = 256 << 20

// loopback returns the two ends of a TCP connection.
func loopback(b *testing.B) (near, far *net.TCPConn) {
	b.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	near, err = net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		b.Fatal(err)
	}
	far, err = l.AcceptTCP()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// plainStep is how much the plain stream sums and writes, or reads and sums, at a time.
const plainStep = 256 << 10

// sendPlain writes state and then its CRC-32C, which it computes on the way.
func sendPlain(c *net.TCPConn, state []byte) error {
	var sum uint32
	for rest := state; len(rest) > 0; {
		n := min(plainStep, len(rest))
		sum = crc32.Update(sum, castagnoli, rest[:n])
		if _, err := c.Write(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	_, err := c.Write(binary.BigEndian.AppendUint32(nil, sum))
	return err
}

// receivePlain fills state and compares the CRC-32C.
func receivePlain(c *net.TCPConn, state []byte) error {
	var sum uint32
	for rest := state; len(rest) > 0; {
		n, err := c.Read(rest[:min(plainStep, len(rest))])
		if err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, rest[:n])
		rest = rest[n:]
	}
	var want [4]byte
	if _, err := io.ReadFull(c, want[:]); err != nil {
		return err
	}
	if got := binary.BigEndian.Uint32(want[:]); got != sum {
		return fmt.Errorf("CRC %x, not %x", sum, got)
	}
	return nil
}

// sendChunks sends state as a move does: a manifest, and then each chunk, of index, CRC and
// bytes, when the pacer lets it; the target answers each with how many it has.
func sendChunks(c *net.TCPConn, state []byte, budget int64) error {
	out := chunker.NewOutgoing([][]byte{state}, chunker.ChunkBytes, chunker.None)
	m := out.Manifest()
	head := binary.BigEndian.AppendUint64(nil, m.Total)
	head = binary.BigEndian.AppendUint32(head, m.ChunkBytes)
	head = binary.BigEndian.AppendUint32(head, m.Chunks)
	head = binary.BigEndian.AppendUint32(head, m.CRC)
	if _, err := c.Write(head); err != nil {
		return err
	}

	pacer := chunker.NewPacer[*chunker.Outgoing](budget, new(chunker.Budget))
	pacer.Add(out, out)
	var mu sync.Mutex // over pacer
	room := make(chan struct{}, 1)
	acks := make(chan error, 1)
	go func() { acks <- takeAcks(c, &mu, pacer, out, room) }()

	record := make([]byte, 8)
	list := make([][]byte, 0, 4)
	for sent := uint32(0); sent < m.Chunks; {
		mu.Lock()
		_, index, ok := pacer.Next(clock.Now())
		mu.Unlock()
		if !ok {
			select {
			case <-room:
				continue
			case err := <-acks:
				return err
			}
		}
		views, crc := out.AppendChunk(append(list, record), index)
		binary.BigEndian.PutUint32(record, index)
		binary.BigEndian.PutUint32(record[4:], crc)
		buffers := net.Buffers(views)
		if _, err := buffers.WriteTo(c); err != nil {
			return err
		}
		sent++
		mu.Lock()
		pacer.Written()
		mu.Unlock()
	}
	return <-acks
}

// takeAcks reads how many chunks the target has until it has all. Of several that have come
// only the last one says anything.
func takeAcks(c *net.TCPConn, mu *sync.Mutex, pacer *chunker.Pacer[*chunker.Outgoing], out *chunker.Outgoing, room chan<- struct{}) error {
	in := make([]byte, 4<<10)
	have := 0
	for done := false; !done; {
		n, err := c.Read(in[have:])
		if err != nil {
			return err
		}
		have += n
		whole := have &^ 3
		if whole == 0 {
			continue
		}
		received := binary.BigEndian.Uint32(in[whole-4:])
		have = copy(in, in[whole:have])
		mu.Lock()
		ok := pacer.Acked(clock.Now(), out, received)
		done = out.Done()
		mu.Unlock()
		if !ok {
			return fmt.Errorf("%d chunks acknowledged", received)
		}
		select {
		case room <- struct{}{}:
		default:
		}
	}
	return nil
}

// receiveChunks is the other side. Each chunk is read into the one slab and added, or
// straight into its place.
func receiveChunks(c *net.TCPConn, inPlace bool) error {
	var head [20]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	m := chunker.Manifest{
		Total:      binary.BigEndian.Uint64(head[:]),
		Raw:        binary.BigEndian.Uint64(head[:]),
		ChunkBytes: binary.BigEndian.Uint32(head[8:]),
		Chunks:     binary.BigEndian.Uint32(head[12:]),
		CRC:        binary.BigEndian.Uint32(head[16:]),
	}
	in, err := chunker.NewIncoming(m, chunker.Limits{})
	if err != nil {
		return err
	}
	defer in.Free()
	slab := make([]byte, 8+m.ChunkBytes)
	for !in.Done() {
		size := int(min(m.Total-uint64(in.Received())*uint64(m.ChunkBytes), uint64(m.ChunkBytes)))
		if inPlace {
			err = readInPlace(c, in, size)
		} else {
			_, err = io.ReadFull(c, slab[:8+size])
			if err == nil {
				_, err = in.Add(binary.BigEndian.Uint32(slab), binary.BigEndian.Uint32(slab[4:]), slab[8:8+size])
			}
		}
		if err != nil {
			return err
		}
		if _, err := c.Write(binary.BigEndian.AppendUint32(slab[:0], in.Received())); err != nil {
			return err
		}
	}
	_, err = in.Payload()
	return err
}

func readInPlace(c *net.TCPConn, in *chunker.Incoming, size int) error {
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	place, err := in.Claim(binary.BigEndian.Uint32(head[:]), size)
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(c, place); err != nil {
		return err
	}
	return in.Commit(binary.BigEndian.Uint32(head[4:]))
}

// BenchmarkChunks passes 256 MiB over one loopback connection in turn as a plain stream and
// in chunks, and reports how much faster (above 1) or slower the chunks are, by the clock
// (ratio) and in processor time (cpu-ratio, which says more on a machine that others
// use too): the median of all pairs. Both ends of both compute a CRC-32C. The chunks' target
// takes memory for the payload each time; so does the plain one, unless it keeps it.
func BenchmarkChunks(b *testing.B) {
	state := make([]byte, moveBytes)
	for i := range state {
		state[i] = byte(i ^ i>>8 ^ i>>16)
	}
	for _, c := range []struct {
		name           string
		budget         int64
		inPlace, keeps bool
	}{
		{"budget=16MiB/added", 16 << 20, false, false},
		{"budget=16MiB/in-place", 16 << 20, true, false},
		{"budget=1MiB/added", 1 << 20, false, false},
		{"budget=16MiB/added/plain-keeps-memory", 16 << 20, false, true},
		{"budget=16MiB/in-place/plain-keeps-memory", 16 << 20, true, true},
	} {
		b.Run("256MiB/"+c.name, func(b *testing.B) {
			near, far := loopback(b)
			var kept []byte
			ways := [...]way{
				{func() error { return sendPlain(near, state) }, func() error {
					if !c.keeps || kept == nil {
						kept = make([]byte, moveBytes)
					}
					return receivePlain(far, kept)
				}},
				{func() error { return sendChunks(near, state, c.budget) }, func() error { return receiveChunks(far, c.inPlace) }},
			}
			var clocks [2][]float64
			var ratios, cpuRatios []float64
			b.SetBytes(2 * moveBytes)
			for b.Loop() {
				var wall, cpu [2]float64
				for i := range ways {
					i = (i + len(ratios)) % 2 // each goes first in turn
					wall[i], cpu[i] = ways[i].measure(b)
					clocks[i] = append(clocks[i], wall[i])
				}
				ratios, cpuRatios = append(ratios, wall[0]/wall[1]), append(cpuRatios, cpu[0]/cpu[1])
			}
			b.ReportMetric(moveBytes/median(clocks[0])/(1<<20), "plain-MiB/s")
			b.ReportMetric(moveBytes/median(clocks[1])/(1<<20), "chunks-MiB/s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(cpuRatios), "cpu-ratio")
		})
	}
}

// way is a way to pass the payload.
type way struct{ send, receive func() error }

// measure returns how long a transfer takes, in seconds by the clock and of this process's
// processor time. Garbage of the one before is not its business.
func (w *way) measure(b *testing.B) (clock, cpu float64) {
	b.Helper()
	runtime.GC()
	start, used := time.Now(), processorTime(b)
	sent := make(chan error, 1)
	go func() { sent <- w.send() }()
	if err := w.receive(); err != nil {
		b.Fatal(err)
	}
	if err := <-sent; err != nil {
		b.Fatal(err)
	}
	return time.Since(start).Seconds(), (processorTime(b) - used).Seconds()
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
