package bench

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/chunker"
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

// receivePlain reads size bytes into memory of their own and compares the CRC-32C.
func receivePlain(c *net.TCPConn, size int) error {
	state := make([]byte, size)
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
	go func() {
		acks <- func() error {
			var have [4]byte
			for done := false; !done; {
				if _, err := io.ReadFull(c, have[:]); err != nil {
					return err
				}
				mu.Lock()
				ok := pacer.Acked(out, binary.BigEndian.Uint32(have[:]))
				done = out.Done()
				mu.Unlock()
				if !ok {
					return fmt.Errorf("has %d chunks", have)
				}
				select {
				case room <- struct{}{}:
				default:
				}
			}
			return nil
		}()
	}()

	record := make([]byte, 8)
	list := make([][]byte, 0, 4)
	for sent := uint32(0); sent < m.Chunks; {
		mu.Lock()
		_, index, ok := pacer.Next()
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

// receiveChunks is the other side: each chunk is read into the one slab and added.
func receiveChunks(c *net.TCPConn) error {
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
	for left := m.Total; left > 0; {
		n := min(left, uint64(m.ChunkBytes))
		left -= n
		if _, err := io.ReadFull(c, slab[:8+n]); err != nil {
			return err
		}
		if _, err := in.Add(binary.BigEndian.Uint32(slab), binary.BigEndian.Uint32(slab[4:]), slab[8:8+n]); err != nil {
			return err
		}
		if _, err := c.Write(binary.BigEndian.AppendUint32(nil, in.Received())); err != nil {
			return err
		}
	}
	_, err = in.Payload()
	return err
}

// BenchmarkChunks passes 256 MiB over one loopback connection in turn as a plain stream and
// in chunks, and reports how much faster (above 1) or slower the chunks are. Both
// receivers take fresh memory for the payload; both ends of both compute a CRC-32C.
func BenchmarkChunks(b *testing.B) {
	state := make([]byte, moveBytes)
	for i := range state {
		state[i] = byte(i ^ i>>8 ^ i>>16)
	}
	for _, budget := range []int64{chunker.LinkBytes, 1 << 20, 0} {
		b.Run(fmt.Sprintf("256MiB/budget=%d", budget), func(b *testing.B) {
			near, far := loopback(b)
			var plain, chunks time.Duration
			pass := func(total *time.Duration, send, receive func() error) {
				start := time.Now()
				sent := make(chan error, 1)
				go func() { sent <- send() }()
				if err := receive(); err != nil {
					b.Fatal(err)
				}
				if err := <-sent; err != nil {
					b.Fatal(err)
				}
				*total += time.Since(start)
			}
			b.SetBytes(2 * moveBytes)
			for b.Loop() {
				pass(&plain, func() error { return sendPlain(near, state) }, func() error { return receivePlain(far, moveBytes) })
				pass(&chunks, func() error { return sendChunks(near, state, budget) }, func() error { return receiveChunks(far) })
			}
			mib := float64(b.N) * moveBytes / (1 << 20)
			b.ReportMetric(mib/plain.Seconds(), "plain-MiB/s")
			b.ReportMetric(mib/chunks.Seconds(), "chunks-MiB/s")
			b.ReportMetric(plain.Seconds()/chunks.Seconds(), "ratio")
		})
	}
}
