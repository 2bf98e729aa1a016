package zlnode_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// These tests are about what stands in the frames themselves.

func TestRepliesCarryWhatTheProtocolSays(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		meta, err := session.NewMetadata(map[string]string{"trace": "abc"})
		if err != nil {
			t.Fatal(err)
		}
		const flow = "01a22840-d4b2-7584-83ed-5fc44e31cb33"
		seq := uint64(1 << 60)
		c.write(request(seq, "login", `{"ID":"a"}`))
		c.answer(seq)
		for _, name := range []string{"mark", "note", "echo", "fail in session", "fail in actor", "nothing"} {
			for _, r := range []struct {
				correlation, flow, want []byte
				origin                  uint8
			}{
				{nil, nil, nil, 0},
				{[]byte("c-1"), nil, []byte("c-1"), 0},
				{nil, []byte(flow), nil, 4},
				{[]byte("c-2"), []byte(flow), []byte("c-2"), 1},
				{[]byte{}, []byte(flow), nil, 2}, // a correlation of length 0 is not sent back
			} {
				seq++
				p := request(seq, name, `1`)
				p.Meta, p.Correlation, p.Flow, p.Origin = meta, r.correlation, r.flow, r.origin
				c.write(p)
				a := c.answer(seq)
				if string(a.Correlation) != string(r.want) || (a.Correlation == nil) != (r.want == nil) ||
					string(a.Flow) != string(r.flow) || a.Origin != r.origin || a.Meta != nil || len(a.Name) != 0 {
					t.Errorf("%s with correlation %q and flow %q: the answer has %q %q %d, metadata %v, name %q",
						name, r.correlation, r.flow, a.Correlation, a.Flow, a.Origin, a.Meta, a.Name)
				}
			}
		}
	})
}

// The frames that a foreign connector was recorded with reach the Actor as its
// application meant them, compressed ones too.
func TestAForeignConnectorsPacketsReachTheActor(t *testing.T) {
	raw, err := os.ReadFile("session/testdata/valid.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Frames []struct {
			Note, From, Hex string
			Plain           *string `json:"payload_plain_hex"`
			Header          struct {
				Name     string
				Codec    int
				Metadata map[string]string
			}
			Payload string `json:"payload_hex"`
		}
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	onEachStage(t, func(t *testing.T, s *stage) {
		var want []string
		compressed := 0
		for _, v := range vectors.Frames {
			frame, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			if p, err := session.Decode(frame); err != nil || !strings.HasPrefix(v.From, "client") || p.Kind == session.KindControl {
				continue
			}
			c := s.stream(t) // sequences of the recordings repeat
			c.write(request(1<<40, "login", `{"ID":"a"}`))
			c.answer(1 << 40)
			c.writeBytes(frame)
			c.write(request(1<<41, "note", "1")) // its reply tells that the frame was dealt with
			for seq := uint64(0); seq != 1<<41; {
				p := c.read()
				if p.Kind == session.KindError {
					t.Errorf("%s: %s", v.Note, p.Payload)
				}
				seq = p.Seq
			}
			if v.Header.Name == "echo" {
				continue // its handler keeps no journal
			}
			plain := v.Payload
			if v.Plain != nil {
				plain = *v.Plain
				compressed++
			}
			payload, err := hex.DecodeString(plain)
			if err != nil {
				t.Fatal(err)
			}
			var meta []string
			for k, v := range v.Header.Metadata {
				meta = append(meta, k+"="+v)
			}
			want = append(want, fmt.Sprintf("%s codec=%d meta=%v session=true payload=%q", v.Header.Name, v.Header.Codec, meta, payload))
		}
		if got := s.journal.of("seen"); !slices.Equal(got, want) || compressed == 0 {
			t.Errorf("the Actor saw\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestACompressedRequestIsAnsweredPlain(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		p := request(2, "echo", "")
		// One literal and a match of 99: a hundred times the letter a.
		p.Compressed, p.Payload = true, []byte("\x40\x59\x1f\x61\x01\x00\x4b\x50\x61\x61\x61\x61\x61")
		c.write(p)
		if a := c.answer(2); a.Compressed || string(a.Payload) != strings.Repeat("a", 100) {
			t.Errorf("answer %q", a.Payload)
		}
	})
}

// What may not travel between nodes is refused, wherever the Actor is.
func TestOversizeMetadataIsRefused(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		c.writeBytes(withMetadata(frames(t, request(2, "echo", "")), append([]byte{1, 1, 'k', 2000 >> 8, 2000 & 0xff}, strings.Repeat("v", 2000)...)))
		a := c.answer(2)
		kind, _, err := session.ParseErrorBody(a.Payload)
		if a.Kind != session.KindError || err != nil || kind != client.InvalidOperation {
			t.Errorf("answer %v %s", a.Kind, a.Payload)
		}
	})
}

// withMetadata puts a block that no client may send into a frame without payload.
func withMetadata(frame, block []byte) []byte {
	const flags, metadata = session.PrefixSize + 3, 0x02
	frame[flags] |= metadata
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(block)))
	frame = append(frame, block...)
	binary.BigEndian.PutUint16(frame, uint16(len(frame)-session.PrefixSize))
	return frame
}
