package chunker

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/buf"
)

// transfer passes all chunks of o in order.
func transfer(t testing.TB, o *Outgoing, in *Incoming) {
	t.Helper()
	for i := range o.Manifest().Chunks {
		p, crc := chunk(o, i)
		fresh, err := in.Add(i, crc, p)
		if err != nil || !fresh || in.Received() != i+1 {
			t.Fatalf("chunk %d: %v, %v; %d received", i, fresh, err, in.Received())
		}
		clear(p) // it is the caller's again
	}
}

func TestAnySegmentsAndAnyChunksGiveTheSameBytes(t *testing.T) {
	freed(t)
	source := noise(200 << 10)
	rapid.Check(t, func(t *rapid.T) {
		want := source[:rapid.IntRange(0, len(source)).Draw(t, "bytes")]
		lengths := rapid.SliceOfN(rapid.IntRange(1, 50<<10), 1, 20).Draw(t, "segments")
		segments := append(cut(want, lengths...), nil, []byte{})
		o := NewOutgoing(segments, rapid.Uint32Range(ChunkMin, 64<<10).Draw(t, "chunk"), None)
		m := o.Manifest()
		if m.Total != uint64(len(want)) || m.Raw != m.Total || m.CRC != CRC(want) {
			t.Fatalf("%+v of %d bytes", m, len(want))
		}
		in, err := NewIncoming(m, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Free()
		for i := range m.Chunks {
			p, crc := chunk(o, i)
			if _, err := in.Add(i, crc, p); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := in.Payload(); err != nil || !in.Done() || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
		}
	})
}

func TestChunksAreViewsOfTheSegments(t *testing.T) {
	segments := cut(noise(10<<10), 1000, 3000)
	o := NewOutgoing(segments, 4096, None)
	views, _ := o.AppendChunk(nil, 0)
	if len(views) != 3 || &views[0][0] != &segments[0][0] || &views[1][0] != &segments[1][0] || &views[2][0] != &segments[2][0] {
		t.Fatalf("%d views, or of other bytes", len(views))
	}
	if len(views[2]) != 96 || cap(views[2]) != 96 {
		t.Errorf("a view of %d bytes can be extended to %d", len(views[2]), cap(views[2]))
	}
	views, _ = o.AppendChunk(nil, 1)
	if &views[0][0] != &segments[2][96] {
		t.Error("the second chunk does not begin where the first one ends")
	}
	o = NewOutgoing(cut(noise(6<<10), 1<<10), 2<<10, None)
	if views, _ := o.AppendChunk(nil, 1); len(views) != 2 || len(views[0]) != 1<<10 {
		t.Errorf("%d views of two segments, the first of %d bytes", len(views), len(views[0]))
	}
}

func TestAPayloadOfNothingIsWholeAtOnce(t *testing.T) {
	freed(t)
	o := NewOutgoing([][]byte{nil}, ChunkMin, Zstd)
	in := target(t, o, Limits{})
	if o.Manifest() != (Manifest{ChunkBytes: ChunkMin}) || !o.Done() || !in.Done() {
		t.Errorf("%+v, done %v and %v", o.Manifest(), o.Done(), in.Done())
	}
	if got, err := in.Payload(); err != nil || got == nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	in.Free()
}

func TestAChunkThatComesAgainIsIgnored(t *testing.T) {
	freed(t)
	want := noise(5000)
	o := NewOutgoing([][]byte{want}, 2048, None)
	in := target(t, o, Limits{})
	for range 2 { // the second time all are there
		for i := range o.Manifest().Chunks {
			p, crc := chunk(o, i)
			if _, err := in.Add(i, crc, p); err != nil {
				t.Fatal(err)
			}
			for again := range i + 1 {
				clear(p)
				if fresh, err := in.Add(again, 0, p); fresh || err != nil {
					t.Fatalf("chunk %d again: %v, %v", again, fresh, err)
				}
			}
		}
	}
	if got, err := in.Payload(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes, %v", err)
	}
	in.Free()
}

func TestABadChunkEndsThePayload(t *testing.T) {
	freed(t)
	o := NewOutgoing([][]byte{noise(5000)}, 2048, None)
	first, firstCRC := chunk(o, 0)
	last, lastCRC := chunk(o, 2)
	for _, c := range []struct {
		name  string
		index uint32
		crc   uint32
		p     []byte
		want  Kind
	}{
		{"gap", 2, lastCRC, last, KindGap},
		{"beyond", 3, lastCRC, last, KindBeyond},
		{"short", 1, CRC(first[1:]), first[1:], KindSize},
		{"long", 1, CRC(append(first, 0)), append(first, 0), KindSize},
		{"empty", 1, 0, nil, KindSize},
		{"another checksum", 1, firstCRC + 1, first, KindChunkCRC},
	} {
		in := target(t, o, Limits{})
		if _, err := in.Add(0, firstCRC, first); err != nil {
			t.Fatal(err)
		}
		fresh, err := in.Add(c.index, c.crc, c.p)
		if fresh || kindOf(err) != c.want {
			t.Errorf("%s: %v, %v", c.name, fresh, err)
		}
		p, crc := chunk(o, 1)
		if fresh, again := in.Add(1, crc, p); fresh || kindOf(again) != c.want || in.Done() || in.room.b != nil {
			t.Errorf("%s: afterwards %v, %v, done %v", c.name, fresh, again, in.Done())
		}
	}
}

// req: RL-06 (its first half: nothing of a payload with a wrong checksum can be read)
func TestAPayloadWithAnotherChecksumIsNeverWhole(t *testing.T) {
	freed(t)
	o := NewOutgoing([][]byte{noise(5000)}, 2048, None)
	m := o.Manifest()
	m.CRC++
	in, err := NewIncoming(m, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Chunks {
		p, crc := chunk(o, i)
		_, err = in.Add(i, crc, p)
		if last := i+1 == m.Chunks; (err != nil) != last {
			t.Fatalf("chunk %d: %v", i, err)
		}
	}
	if kindOf(err) != KindWholeCRC || in.Done() || in.room.b != nil {
		t.Errorf("%v, done %v", err, in.Done())
	}
	defer func() {
		if recover() == nil {
			t.Error("a payload that is not whole was read")
		}
	}()
	_, _ = in.Payload()
}

func TestAPayloadThatIsGivenUpGivesItsMemoryBack(t *testing.T) {
	freed(t)
	o := NewOutgoing([][]byte{make([]byte, 40<<20)}, ChunkBytes, None)
	in := target(t, o, Limits{})
	for i := range uint32(18) { // so that its memory has grown
		p, crc := chunk(o, i)
		if _, err := in.Add(i, crc, p); err != nil {
			t.Fatal(err)
		}
	}
	in.Free()
	in.Free()
}

func TestMemoryThatGrowsKeepsWhatHasCome(t *testing.T) {
	freed(t)
	want := noise(40 << 20)
	o := NewOutgoing(cut(want, 3<<20, 100), ChunkBytes, None)
	in := target(t, o, Limits{})
	transfer(t, o, in)
	if got, err := in.Payload(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes, %v", err)
	}
	in.Free()
}

func TestMemoryFollowsWhatHasCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 1<<45).Draw(t, "total")
		need := rapid.IntRange(1, total).Draw(t, "need")
		size := roomSize(total, need)
		if size < need || size > total || size > roomStart && size > roomGrowth*need {
			t.Fatalf("%d bytes for %d of %d", size, need, total)
		}
		moved := 0
		for have := 0; have < total; {
			moved += have
			have = roomSize(total, have+1)
		}
		if moved > total/(roomGrowth-4) {
			t.Fatalf("%d bytes of %d are moved as the memory grows", moved, total)
		}
	})
}

func TestAChunkReadIntoItsPlaceIsNotCopied(t *testing.T) {
	freed(t)
	want := noise(5000)
	o := NewOutgoing([][]byte{want}, 2048, None)
	in := target(t, o, Limits{})
	for i := range o.Manifest().Chunks {
		p, crc := chunk(o, i)
		if cut, err := in.Claim(i, len(p)); err != nil || len(cut) != len(p) || cap(cut) != len(p) {
			t.Fatalf("chunk %d: %d bytes of room for %d, %v", i, cap(cut), len(p), err)
		} else {
			cut[0] ^= 0xff // and then the link is lost
		}
		if in.Received() != i {
			t.Fatalf("%d received, but chunk %d was claimed only", in.Received(), i)
		}
		place, err := in.Claim(i, len(p))
		if err != nil {
			t.Fatal(err)
		}
		copy(place, p)
		if err := in.Commit(crc); err != nil || in.Received() != i+1 {
			t.Fatalf("chunk %d: %v", i, err)
		}
		if place, err := in.Claim(i, len(p)); place != nil || err != nil {
			t.Fatalf("chunk %d again: %d bytes of room, %v", i, len(place), err)
		}
	}
	if got, err := in.Payload(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes, %v", err)
	}
	in.Free()
}

func TestNothingIsCommittedThatWasNotClaimed(t *testing.T) {
	freed(t)
	o := NewOutgoing([][]byte{noise(5000)}, 2048, None)
	p, crc := chunk(o, 0)
	for name, before := range map[string]func(*Incoming){
		"no claim": func(*Incoming) {},
		"a claim that was committed": func(in *Incoming) {
			_, _ = in.Add(0, crc, p)
		},
		"a claim, and another one that was refused": func(in *Incoming) {
			_, _ = in.Claim(0, len(p))
			_, _ = in.Claim(2, len(p))
		},
		"a claim, and another one that was there before": func(in *Incoming) {
			_, _ = in.Add(0, crc, p)
			_, _ = in.Claim(1, len(p))
			_, _ = in.Claim(0, len(p))
		},
		"a claim, and another checksum": func(in *Incoming) {
			_, _ = in.Claim(0, len(p))
			_ = in.Commit(crc + 1)
		},
		"a claim of what was freed": func(in *Incoming) {
			_, _ = in.Claim(0, len(p))
			in.Free()
		},
	} {
		in := target(t, o, Limits{})
		before(in)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("after %s: committed", name)
				}
			}()
			_ = in.Commit(crc)
		}()
		in.Free()
	}
}

func TestAChunkAllocatesNothingAtItsSource(t *testing.T) {
	o := NewOutgoing(cut(noise(1<<20), 10<<10, 70<<10), 64<<10, None)
	node := new(Budget)
	p := NewPacer[*Outgoing](1, node)
	views := make([][]byte, 0, 16)
	var received uint32
	if got := testing.AllocsPerRun(100, func() {
		if o.Done() || received == 0 {
			o.Resume(0)
			p.Add(o, o)
			received = 0
		}
		out, i, ok := p.Next(0)
		if !ok {
			t.Fatal("nothing to send")
		}
		views, _ = out.AppendChunk(views[:0], i)
		p.Written()
		received++
		p.Acked(0, o, received)
	}); got != 0 {
		t.Errorf("%v allocations a chunk", got)
	}
}

func TestAChunkAllocatesOnlyMemoryAtItsTarget(t *testing.T) {
	o := NewOutgoing([][]byte{noise(1 << 20)}, 4<<10, None)
	in := target(t, o, Limits{})
	p, crc := chunk(o, 0)
	if _, err := in.Add(0, crc, p); err != nil {
		t.Fatal(err)
	}
	i := uint32(1)
	if got := testing.AllocsPerRun(100, func() {
		p := o.source.segments[0][i*4<<10:][:4<<10]
		if _, err := in.Add(i, o.crcs[i], p); err != nil {
			t.Fatal(err)
		}
		i++
	}); got != 0 {
		t.Errorf("%v allocations a chunk", got)
	}
}

// take is Add, in one step or in two.
func take(in *Incoming, index, crc uint32, p []byte, two bool) (fresh bool, err error) {
	if !two {
		return in.Add(index, crc, p)
	}
	place, err := in.Claim(index, len(p))
	if place == nil {
		return false, err
	}
	copy(place, p)
	err = in.Commit(crc)
	return err == nil, err
}

// Whatever chunks come in whatever order, what is not the next chunk as it is is refused
// or was there before, memory follows what has come, and what is whole is the payload.
func FuzzAssemble(f *testing.F) {
	f.Add(uint32(5000), uint32(2048), []byte{0, 0, 0})
	f.Add(uint32(5000), uint32(1024), []byte{0, 1, 0, 2, 0})
	f.Add(uint32(9000), uint32(1024), []byte{0, 0, 3, 0})
	f.Add(uint32(9000), uint32(4096), []byte{0, 0, 4, 0})
	f.Add(uint32(9000), uint32(4096), []byte{0, 5, 0})
	f.Add(uint32(2<<20), uint32(300<<10), []byte{0, 0, 0, 0, 0, 0, 0, 1, 7})
	source := noise(3 << 20)
	f.Fuzz(func(t *testing.T, size, chunkBytes uint32, steps []byte) {
		want := source[:size%uint32(len(source))]
		chunkBytes = ChunkMin + chunkBytes%(ChunkMax-ChunkMin+1)
		o := NewOutgoing([][]byte{want}, chunkBytes, None)
		m := o.Manifest()
		before := buf.Live()
		in, err := NewIncoming(m, Limits{ChunkBytes: ChunkMax})
		if err != nil {
			t.Fatal(err)
		}
		var next uint32
		var failed Kind
		for _, step := range steps {
			index, wrong := next, Kind(0)
			switch step % 6 {
			case 1: // one that came
				index = uint32(step/6) % (next + 1)
			case 2:
				index += 1 + uint32(step/6)
			}
			var p []byte
			var crc uint32
			if index < m.Chunks {
				p, crc = chunk(o, index)
			}
			switch {
			case index >= m.Chunks:
				wrong = KindBeyond
			case index > next:
				wrong = KindGap
			case index == next && step%6 == 3:
				p, wrong = p[:len(p)-1], KindSize
			case index == next && step%6 == 4:
				p[int(step)%len(p)] ^= 1 + step
				wrong = KindChunkCRC
			case index == next && step%6 == 5:
				crc ^= 1 << (step % 32)
				wrong = KindChunkCRC
			}
			if failed == 0 {
				failed = wrong
			}
			fresh, err := take(in, index, crc, p, step >= 128)
			if kindOf(err) != failed || (err == nil) != (failed == 0) || fresh != (failed == 0 && index == next) {
				t.Fatalf("chunk %d, next is %d: %v, %v, want kind %d", index, next, fresh, err, failed)
			}
			if fresh {
				next++
			}
			if b := in.room.b; b != nil && len(b.Bytes()) > max(roomGrowth*in.room.used, roomStart) {
				t.Fatalf("%d bytes for %d that came", len(b.Bytes()), in.room.used)
			}
			if in.Done() != (failed == 0 && next == m.Chunks) || failed == 0 && in.Received() != next {
				t.Fatalf("done %v, received %d of %d", in.Done(), in.Received(), next)
			}
		}
		if in.Done() {
			if got, err := in.Payload(); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("other bytes, %v", err)
			}
		}
		in.Free()
		if buf.Live() != before {
			t.Fatal("memory was not given back")
		}
	})
}
