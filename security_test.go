package zlnode_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/pierrec/lz4/v4"
	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/session"
)

// Attacks on the session port that reach the node behind the reactor; each test names the
// attack. Those of frames and their sizes are in hostile_test.go, on what comes before
// authentication in session_auth_test.go, on the link port in hostile_link_test.go and
// hostile_peer_test.go.

// Attack: request flood of one session. It goes on for as long as a hundred others work, and
// all that these ask is answered. The flooder has many more requests under way than its
// Session has room for, and reads what it is told: so it is no slow client, which is closed.
func TestAFloodOfOneSessionCostsNoOther(t *testing.T) {
	onEachStageInTurn(t, func(t *testing.T, s *stage) {
		const normal, each, underWay = 100, 3, 2000
		flooder := s.stream(t)
		flooder.write(request(1, "login", `{"ID":"flooder"}`))
		flooder.answer(1)
		var others [normal]*stream
		for i := range others {
			others[i] = s.stream(t)
			others[i].write(request(1, "login", fmt.Sprintf(`{"ID":"n%d"}`, i)))
			others[i].answer(1)
			if i%20 == 0 { // those before have said nothing since
				for _, c := range append([]*stream{flooder}, others[:i]...) {
					_, _ = c.conn.Write(session.PongFrame())
				}
			}
		}

		var over atomic.Bool
		var sent uint64
		var flood, reads sync.WaitGroup
		window := make(chan struct{}, underWay)
		flood.Go(func() {
			for seq := uint64(2); !over.Load(); seq += 200 {
				for range 200 {
					window <- struct{}{}
				}
				var packets []session.Packet
				for i := range uint64(100) {
					packets = append(packets, request(seq+2*i, "fail in session", `"kind"`), request(seq+2*i+1, "fail in actor", `"kind"`))
				}
				if _, err := flooder.conn.Write(frames(t, packets...)); err != nil {
					t.Errorf("the flooder: %v", err)
					return
				}
				sent += 200
			}
			for range underWay { // until all have ended
				window <- struct{}{}
			}
			_ = flooder.conn.CloseWrite()
		})
		ended := map[uint64]int{}
		reads.Go(func() {
			for {
				p, err := flooder.next()
				if err != nil {
					return
				}
				if p.Kind == session.KindError {
					<-window
					ended[p.Seq]++
				}
			}
		})
		var honest sync.WaitGroup
		for i, c := range others {
			honest.Go(func() {
				for n := range each {
					want, seq := fmt.Sprint(i*each+n), uint64(2+2*n)
					for k, name := range []string{"note", "mark"} {
						if _, err := c.conn.Write(frames(t, request(seq+uint64(k), name, want))); err != nil {
							t.Error(err)
							return
						}
						p, err := c.next()
						for err == nil && p.Kind == session.KindControl {
							_, _ = c.conn.Write(session.PongFrame()) // a failure shows at the next read
							p, err = c.next()
						}
						if err != nil || p.Kind != session.KindResponse || p.Seq != seq+uint64(k) || string(p.Payload) != want {
							t.Errorf("client %d: %v to %d: %s %v", i, p.Kind, p.Seq, p.Payload, err)
							return
						}
					}
				}
			})
		}
		honest.Wait()
		over.Store(true)
		flood.Wait()
		reads.Wait()
		for seq, n := range ended {
			if n != 1 {
				t.Errorf("request %d of the flooder has %d ends", seq, n)
			}
		}
		if uint64(len(ended)) != sent || sent == 0 {
			t.Errorf("%d requests of the flood have ended of %d", len(ended), sent)
		}
	})
}

// Attack: join/bind spam. The binds of one Session that wait for an Actor are bounded, and
// their places come back.
func TestBindsOfOneSessionAreBounded(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		const most, asked = 1024, 1500
		ref := s.create("a")
		stopped := make(chan error, 1)
		go func() {
			_, err := s.ask("a", "stop", struct{}{})
			stopped <- err
		}()
		receive(t, s.gate.entered)
		c := s.stream(t)
		spam := func() session.Packet { return request(1, "bind at once", jsonOf(t, bindSpam{ref, asked})) }
		c.write(spam())
		s.await("refusals", func() bool { return len(s.journal.of("bind")) == asked-most })
		for _, kind := range s.journal.of("bind") {
			if kind != zlnode.CapacityExceeded.String() {
				t.Errorf("a bind failed with %s", kind)
			}
		}
		s.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		if p := c.answer(1); string(p.Payload) != fmt.Sprint(most) {
			t.Errorf("%v: %s of the binds succeeded, want %d", p.Kind, p.Payload, most)
		}
		s.journal.clear()
		for range 2 { // as often as before: no place was lost
			c.write(request(2, "bind at once", jsonOf(t, bindSpam{ref, most})))
			if p := c.answer(2); string(p.Payload) != fmt.Sprint(most) {
				t.Errorf("%v: %s of the binds succeeded, want %d", p.Kind, p.Payload, most)
			}
		}
		c.write(request(3, "note", "1"))
		c.answer(3)
	})
}

// bindSpam asks a Session to bind an Actor that often at once.
type bindSpam struct {
	Ref   zlnode.ActorRef
	Times int
}

// bindAtOnce is the handler of a bindSpam, which says how many succeeded.
func (s *stage) bindAtOnce(c *zlnode.SessionCall, q bindSpam) (int, error) {
	var bound atomic.Int64
	var binds sync.WaitGroup
	for range q.Times {
		binds.Go(func() {
			if err := c.Session().Bind(s.ctx, q.Ref); err != nil {
				s.journal.add("bind %v", zlnode.KindOf(err))
				return
			}
			bound.Add(1)
		})
	}
	binds.Wait()
	return int(bound.Load()), nil
}

// Attack: decompression bomb. What is too large, or is no honest claim, closes the connection
// before memory is taken for it; there is one level of compression.
func TestADecompressionBombIsDefused(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		claim := func(n uint32, block ...byte) []byte {
			return append(binary.LittleEndian.AppendUint32([]byte{0xC0}, n-uint32(len(block))), block...)
		}
		whole := bomb(1, "mark", 32<<10).Payload
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for what, payload := range map[string][]byte{
			"4 GiB from nothing":         claim(1<<32 - 1),
			"1 GiB from 1 KiB":           claim(1<<30, make([]byte, 1<<10)...),
			"2 GiB from a bomb's head":   claim(1<<31, whole[5:]...),
			"a byte over the cap":        bomb(1, "mark", 64<<10+1).Payload,
			"more than can come of it":   claim(60<<10, make([]byte, 200)...),
			"cut short":                  whole[:len(whole)-1],
			"less than it claims":        append(binary.LittleEndian.AppendUint32([]byte{0xC0}, 32<<10), whole[5:]...),
			"no header":                  {},
			"a header with unknown bits": append([]byte{0xC1}, whole[1:]...),
		} {
			for range 5 {
				p := request(1, "mark", "")
				p.Compressed, p.Payload = true, payload
				if e := s.refused(t, frames(t, p)); !e.orderly || !e.told || e.reason != session.ProtocolError {
					t.Errorf("%s: the server ended with %+v", what, e)
				}
			}
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 4<<30 { // the claims are of more than 30 GiB
			t.Errorf("%d bytes were allocated", took)
		}
		b.untouched()

		// A bomb in a bomb is bytes to the handler.
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		inner := bomb(2, "echo", 60<<10).Payload
		outer := request(2, "echo", "")
		outer.Compressed, outer.Payload = true, append([]byte{0}, inner...) // stored as it is
		c.write(outer)
		if p := c.answer(2); p.Kind != session.KindResponse || !bytes.Equal(p.Payload, inner) {
			t.Errorf("%v of %d bytes, want those of the inner bomb, %d", p.Kind, len(p.Payload), len(inner))
		}
	})
}

// bomb is a request whose payload of that many bytes is compressed as far as the format goes.
func bomb(seq uint64, name string, size int) session.Packet {
	block := make([]byte, lz4.CompressBlockBound(size))
	n, err := lz4.CompressBlock(make([]byte, size), block, nil)
	if err != nil || n == 0 {
		panic("zeros do not compress")
	}
	p := request(seq, name, "")
	p.Compressed, p.Payload = true, binary.LittleEndian.AppendUint32([]byte{0xC0}, uint32(size-n))
	p.Payload = append(p.Payload, block[:n]...)
	return p
}

// Attack: log injection. Names and texts of clients are quoted and cut in every line, and what
// a client does wrong packet by packet is not worth a line above level Debug.
func TestClientsForgeNoLogLines(t *testing.T) {
	t.Parallel()
	var log rawLog
	s := guestStage(t, func(s *stage, g *guests) {
		zlnode.OnPacketRaw(g, "say", func(_ *zlnode.SessionCall, _ *visitor, payload []byte) error {
			return fmt.Errorf("it said %s", payload)
		})
		zlnode.OnPacketRequestRaw(g, "shout", func(_ *zlnode.SessionCall, _ *visitor, payload []byte) ([]byte, error) {
			panic("it said " + string(payload))
		})
	}, nil, func(c *node.Config) { c.Logger = zerolog.New(&log).Level(zerolog.DebugLevel) })
	evil := "\"}\n{\"level\":\"error\",\"message\":\"forged\"}\r\n\x1b[31m\u202e" // and its like
	long := strings.Repeat(evil, 1000)[:40_000]
	c := s.stream(t)
	name := strings.ToValidUTF8(strings.Repeat(evil, 10)[:session.NameMax-4], "")
	for i, p := range []session.Packet{
		request(0, name, long), request(0, "mark", long), request(0, "shout", long), request(0, "note", long),
		request(0, "fail", `"plain"`),
	} {
		p.Seq = uint64(i + 1)
		p.Correlation = []byte(evil)
		one := p
		one.Kind, one.Seq, one.Correlation = session.KindSend, 0, nil
		c.write(p, one)
		c.answer(p.Seq)
	}
	c.write(send("say", long), request(100, "mark", "1"))
	c.answer(100)
	c.writeBytes(session.AppendClosing(nil, session.ClientClose, evil))
	c.end()
	c.conn.Close()
	receive(t, s.closed)
	d := s.stream(t)
	d.write(send("$zlink."+evil, long))
	d.end()
	d.conn.Close()
	s.await("no session", func() bool { return s.gateway.Stats().Sessions == 0 })

	lines := log.lines()
	said := 0
	for _, line := range lines {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("a line is not whole: %q", line)
			continue
		}
		if fields["message"] == "forged" {
			t.Errorf("a forged line: %q", line)
		}
		for field, v := range fields {
			text, _ := v.(string)
			if text != "" && strings.Contains(text, "forged") {
				said++
			}
			if field != "stack" && len(text) > 300 {
				t.Errorf("%d bytes in field %q", len(text), field)
			}
		}
		if i := strings.IndexFunc(line, unicode.IsControl); i >= 0 || !utf8.ValidString(line) {
			t.Errorf("a line with a control character: %q", line)
		}
		if fields["level"] == "warn" && fmt.Sprint(fields["packet"]) == name {
			t.Errorf("an unknown packet is worth a warning: %q", line)
		}
	}
	if said < 4 {
		t.Errorf("%d fields quote the client; the log has\n%s", said, strings.Join(lines, "\n"))
	}
}

// rawLog keeps what is logged.
type rawLog struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *rawLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *rawLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.all.String(), func(r rune) bool { return r == '\n' })
}

// Attack: session port speaking the node protocol. Every record that nodes send each other,
// and every command number with what may follow, closes the connection.
func TestNoLinkCommandMeansAnythingOnTheSessionPort(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		hostile := goldenRecords(t)
		for cmd := range 256 {
			body := []int{0, 8, 300, 5 << 16}[cmd%4]
			record := binary.BigEndian.AppendUint32(nil, uint32(2+body))
			hostile = append(hostile, append(append(record, byte(cmd), 0), make([]byte, body)...))
		}
		for i, record := range hostile {
			c := s.stream(t)
			_, _ = c.conn.Write(slices.Concat(record, frames(t, send("mark", "1")))) // the server may be faster
			if e := c.end(); e.frames != 0 {
				t.Errorf("%x: %d frames came back", record[:min(len(record), 64)], e.frames)
			}
			c.conn.Close()
			if i%100 == 0 {
				b.served()
			}
		}
		b.untouched()
	})
}

// goldenRecords are the records that the link protocol's golden vectors have.
func goldenRecords(t *testing.T) (records [][]byte) {
	t.Helper()
	files, err := filepath.Glob("internal/wire/testdata/golden/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "----\n") {
			digits, _, _ := strings.Cut(part, "\n\n")
			if b, err := hex.DecodeString(strings.ReplaceAll(digits, "\n", "")); err == nil && len(b) >= 6 {
				records = append(records, b)
			}
		}
	}
	if len(records) < 40 {
		t.Fatalf("%d golden records", len(records))
	}
	return records
}

// Attack: the reverse. No frame of clients means anything on the link port.
func TestNoClientFrameMeansAnythingOnTheLinkPort(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		var hostile [][]byte
		for _, file := range []string{"valid", "invalid"} {
			raw, err := os.ReadFile("session/testdata/" + file + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var vectors struct{ Frames []struct{ Hex string } }
			if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors.Frames) == 0 {
				t.Fatal(len(vectors.Frames), err)
			}
			for _, v := range vectors.Frames {
				frame, err := hex.DecodeString(v.Hex)
				if err != nil {
					t.Fatal(err)
				}
				hostile = append(hostile, frame)
			}
		}
		for kind := session.KindSend; kind <= session.KindControl; kind++ {
			p := session.Packet{Kind: kind}
			switch kind {
			case session.KindSend:
				p.Name = []byte("note")
			case session.KindRequest:
				p.Name, p.Seq = []byte("note"), 1
			case session.KindResponse, session.KindError:
				p.Seq = 1
			case session.KindControl:
				p.Name = []byte(session.PingName)
			}
			hostile = append(hostile, frames(t, p))
		}
		for _, frame := range hostile {
			p := s.peer(t)
			p.write(slices.Concat(frame, frames(t, send("mark", "1"))))
			_ = p.conn.CloseWrite() // the node may be faster
			p.end()
			b.served()
		}
		b.untouched()
	})
}
