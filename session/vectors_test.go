package session_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/zlnode/zlnode/session"
)

// receiveCap is the cap that the vectors are received under, as on a server.
const receiveCap = 64 << 10

type validVector struct {
	Note   string
	Hex    string
	Header struct {
		Kind          session.Kind
		Codec         session.Codec
		Flags         byte
		RequestSeq    string `json:"request_seq"`
		Name          string
		Metadata      map[string]string
		CorrelationID *string `json:"correlation_id"`
		FlowID        *string `json:"flow_id"`
		FlowOrigin    uint8   `json:"flow_origin"`
	}
	PayloadHex      string  `json:"payload_hex"`
	PayloadPlainHex *string `json:"payload_plain_hex"`
}

type invalidVector struct{ Why, Hex string }

func loadVectors[T any](tb testing.TB, file string) []T {
	tb.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		tb.Fatal(err)
	}
	var doc struct{ Frames []T }
	if err := json.Unmarshal(raw, &doc); err != nil {
		tb.Fatal(err)
	}
	if len(doc.Frames) == 0 {
		tb.Fatalf("%s holds no frames", file)
	}
	return doc.Frames
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestAFrameOfAForeignConnectorDecodesToItsHeaderAndEncodesToTheSameBytes(t *testing.T) {
	for i, v := range loadVectors[validVector](t, "valid.json") {
		t.Run(strconv.Itoa(i)+" "+v.Note, func(t *testing.T) {
			frame := unhex(t, v.Hex)
			if size, err := session.FrameSize(frame, receiveCap); err != nil || size != len(frame) {
				t.Fatalf("FrameSize = %d, %v; want %d", size, err, len(frame))
			}
			p, err := session.Decode(frame)
			if err != nil {
				t.Fatal(err)
			}
			checkHeader(t, &p, &v)
			if !bytes.Equal(p.Payload, unhex(t, v.PayloadHex)) {
				t.Errorf("payload = %x, want %s", p.Payload, v.PayloadHex)
			}
			plain, err := session.DecodePayload(&p, receiveCap)
			if err != nil {
				t.Fatal(err)
			}
			want := v.PayloadHex
			if v.PayloadPlainHex != nil {
				want = *v.PayloadPlainHex
			}
			if !bytes.Equal(plain, unhex(t, want)) {
				t.Errorf("plain payload = %x, want %s", plain, want)
			}
			again, err := session.Append(nil, &p)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again, frame) {
				t.Errorf("encoded again:\n%x, want\n%x", again, frame)
			}
			if session.Size(&p) != len(frame) {
				t.Errorf("Size = %d, want %d", session.Size(&p), len(frame))
			}
		})
	}
}

func checkHeader(t *testing.T, p *session.Packet, v *validVector) {
	t.Helper()
	h := &v.Header
	if p.Kind != h.Kind || p.Codec != h.Codec || string(p.Name) != h.Name || p.Origin != h.FlowOrigin {
		t.Errorf("kind %v codec %v name %q origin %d, want %v %v %q %d",
			p.Kind, p.Codec, p.Name, p.Origin, h.Kind, h.Codec, h.Name, h.FlowOrigin)
	}
	if p.Compressed != (h.Flags&0x04 != 0) {
		t.Errorf("Compressed = %v with flags %#x", p.Compressed, h.Flags)
	}
	var seq uint64
	if h.RequestSeq != "" {
		var err error
		if seq, err = strconv.ParseUint(h.RequestSeq, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if p.Seq != seq {
		t.Errorf("Seq = %d, want %d", p.Seq, seq)
	}
	checkOptional(t, "correlation id", p.Correlation, h.CorrelationID)
	checkOptional(t, "flow id", p.Flow, h.FlowID)
	if (p.Meta == nil) != (h.Metadata == nil) || p.Meta.Len() != len(h.Metadata) {
		t.Errorf("metadata has %d entries, want %d", p.Meta.Len(), len(h.Metadata))
	}
	for key, value := range h.Metadata {
		if got, ok := p.Meta.Lookup(key); !ok || string(got) != value {
			t.Errorf("metadata %q = %q, %v; want %q", key, got, ok, value)
		}
	}
}

func checkOptional(t *testing.T, what string, got []byte, want *string) {
	t.Helper()
	switch {
	case want == nil && got != nil:
		t.Errorf("%s = %q, want it absent", what, got)
	case want != nil && string(got) != *want:
		t.Errorf("%s = %q, want %q", what, got, *want)
	}
}

// receive does with a frame what a receiver does before it hands anything out.
func receive(frame []byte) error {
	if _, err := session.FrameSize(frame, receiveCap); err != nil {
		return err
	}
	p, err := session.Decode(frame)
	if err != nil {
		return err
	}
	_, err = session.DecodePayload(&p, receiveCap)
	return err
}

func TestAFrameThatBreaksTheContractIsRefused(t *testing.T) {
	for _, v := range loadVectors[invalidVector](t, "invalid.json") {
		t.Run(v.Why, func(t *testing.T) {
			if err := receive(unhex(t, v.Hex)); reasonOf(err) == 0 {
				t.Errorf("receive = %v, want a *DecodeError", err)
			}
		})
	}
}

// A block of LZ4 inflates to at most 255 times its size, so that is the most a
// liar can make a receiver take; everything else costs nothing.
func TestARefusedFrameCostsNoMemoryForALengthThatItOnlyClaims(t *testing.T) {
	for _, v := range loadVectors[invalidVector](t, "invalid.json") {
		frame := unhex(t, v.Hex)
		const runs = 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			if receive(frame) == nil {
				t.Errorf("%s: accepted", v.Why)
			}
		}
		runtime.ReadMemStats(&after)
		if taken := (after.TotalAlloc - before.TotalAlloc) / runs; taken > uint64(255*len(frame)) {
			t.Errorf("%s: %d bytes taken for a frame of %d", v.Why, taken, len(frame))
		}
	}
}
