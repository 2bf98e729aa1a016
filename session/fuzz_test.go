package session_test

import (
	"bytes"
	"testing"

	"github.com/zlnode/zlnode/session"
)

// addVectors seeds a fuzz target with every frame of the vectors.
func addVectors(f *testing.F, add func(frame []byte)) {
	for _, v := range loadVectors[validVector](f, "valid.json") {
		add(unhex(f, v.Hex))
	}
	for _, v := range loadVectors[invalidVector](f, "invalid.json") {
		add(unhex(f, v.Hex))
	}
}

// Whatever the bytes, Decode answers; what it accepts, Append writes again byte
// by byte, except metadata that is received but not sent.
func FuzzDecode(f *testing.F) {
	addVectors(f, func(frame []byte) { f.Add(frame) })
	f.Fuzz(func(t *testing.T, frame []byte) {
		input := bytes.Clone(frame)
		p, err := session.Decode(frame)
		if err != nil {
			if reasonOf(err) == 0 {
				t.Fatalf("not a *DecodeError: %v", err)
			}
			return
		}
		again, err := session.Append(nil, &p)
		if len(p.Meta) > session.MetadataMax {
			if reasonOf(err) != session.ReasonMetadataSize {
				t.Fatalf("metadata of %d bytes: %v", len(p.Meta), err)
			}
			return
		}
		if err != nil {
			t.Fatalf("accepted, but not written again: %v", err)
		}
		if !bytes.Equal(again, input) || session.Size(&p) != len(input) {
			t.Fatalf("written again as %x", again)
		}
		_ = session.CheckInbound(&p)
		for k := range p.Meta.All() {
			if _, ok := p.Meta.Lookup(string(k)); !ok {
				t.Fatalf("key %q of the block is not found", k)
			}
		}
	})
}

// Whatever the bytes, a payload is inflated within the cap and within 255 times
// its size, or refused.
func FuzzDecodePayload(f *testing.F) {
	for _, v := range loadVectors[validVector](f, "valid.json") {
		f.Add(unhex(f, v.PayloadHex), 64<<10)
	}
	f.Add(pickle(f, make([]byte, 5000)), 4999)
	f.Add([]byte{0xC0, 0xff, 0xff, 0xff, 0x7f, 0x1f, 'a', 1, 0, 0x4b}, 0)
	f.Fuzz(func(t *testing.T, payload []byte, limit int) {
		p := compressed(payload)
		size, sizeErr := session.PayloadSize(p, limit)
		plain, err := session.DecodePayload(p, limit)
		if err != nil {
			if reasonOf(err) == 0 || plain != nil {
				t.Fatalf("%d bytes and %v", len(plain), err)
			}
			return
		}
		if sizeErr != nil || size != len(plain) {
			t.Fatalf("PayloadSize = %d, %v; DecodePayload gave %d bytes", size, sizeErr, len(plain))
		}
		if limit > 0 && len(plain) > limit || len(plain) > 255*len(payload) {
			t.Fatalf("%d bytes inflated to %d under a cap of %d", len(payload), len(plain), limit)
		}
		again, err := session.DecodePayload(compressed(pickle(t, plain)), 0)
		if err != nil || !bytes.Equal(again, plain) {
			t.Fatalf("compressed again: %v", err)
		}
	})
}

// Whatever the payload, its compressed form is smaller by an eighth and inflates to
// it, or there is none.
func FuzzCompressPayload(f *testing.F) {
	addVectors(f, func(frame []byte) { f.Add(frame, uint16(3)) })
	f.Add([]byte("position 12, 17; "), uint16(700))
	f.Fuzz(func(t *testing.T, piece []byte, times uint16) {
		plain := bytes.Repeat(piece, min(int(times), 1<<20/(len(piece)+1)))
		input := bytes.Clone(plain)
		got, pays := session.CompressPayload(make([]byte, len(plain)), plain)
		if !bytes.Equal(plain, input) {
			t.Fatal("the payload was changed")
		}
		if !pays {
			return
		}
		if len(got) > len(plain)-len(plain)/8 {
			t.Fatalf("%d bytes became %d", len(plain), len(got))
		}
		if again, err := session.DecodePayload(compressed(got), len(plain)); err != nil || !bytes.Equal(again, plain) {
			t.Fatalf("%d bytes inflated to %d, %v", len(plain), len(again), err)
		}
	})
}

// segment is how a reader cuts frames out of a stream that comes in pieces. It
// returns the frames, and where and why it stopped.
func segment(stream []byte, limit int, piece func(left int) int) (frames [][]byte, rest int, err error) {
	var window []byte
	for fed := 0; ; {
		size, err := session.FrameSize(window, limit)
		if err != nil {
			return frames, len(window), err
		}
		if size > 0 && size <= len(window) {
			frames = append(frames, window[:size])
			window = window[size:]
			continue
		}
		if fed == len(stream) {
			return frames, len(window), nil
		}
		n := piece(len(stream) - fed)
		window = stream[fed-len(window) : fed+n]
		fed += n
	}
}

// However a stream is split, the same frames come out and it ends in the same
// way.
func FuzzFrameSize(f *testing.F) {
	var all []byte
	addVectors(f, func(frame []byte) {
		f.Add(frame, []byte{1}, uint16(0))
		all = append(all, frame...)
	})
	f.Add(all, []byte{1, 7, 3, 200}, uint16(600))
	f.Fuzz(func(t *testing.T, stream, cuts []byte, limit uint16) {
		whole, wholeRest, wholeErr := segment(stream, int(limit), func(left int) int { return left })
		i := 0
		pieces, piecesRest, piecesErr := segment(stream, int(limit), func(left int) int {
			n := 1
			if len(cuts) > 0 {
				n += int(cuts[i%len(cuts)])
				i++
			}
			return min(n, left)
		})
		if len(whole) != len(pieces) || reasonOf(wholeErr) != reasonOf(piecesErr) || wholeErr == nil && wholeRest != piecesRest {
			t.Fatalf("whole: %d frames, %d left, %v; in pieces: %d frames, %d left, %v",
				len(whole), wholeRest, wholeErr, len(pieces), piecesRest, piecesErr)
		}
		for i := range whole {
			if !bytes.Equal(whole[i], pieces[i]) {
				t.Fatalf("frame %d differs", i)
			}
			if limit > 0 && len(whole[i]) > int(limit)+session.PrefixSize {
				t.Fatalf("a frame of %d bytes passed a cap of %d", len(whole[i]), limit)
			}
		}
	})
}
