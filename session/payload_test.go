package session_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/zlnode/zlnode/session"
)

// pickle compresses plain as the foreign library does.
func pickle(tb testing.TB, plain []byte) []byte {
	tb.Helper()
	block := make([]byte, lz4.CompressBlockBound(len(plain)))
	n, err := lz4.CompressBlock(plain, block, nil)
	if err != nil {
		tb.Fatal(err)
	}
	diff := len(plain) - n
	if n == 0 || diff <= 0 {
		return append([]byte{0}, plain...)
	}
	switch {
	case diff < 1<<8:
		return append([]byte{0x40, byte(diff)}, block[:n]...)
	case diff < 1<<16:
		return append([]byte{0x80, byte(diff), byte(diff >> 8)}, block[:n]...)
	default:
		return append([]byte{0xC0, byte(diff), byte(diff >> 8), byte(diff >> 16), byte(diff >> 24)}, block[:n]...)
	}
}

func compressed(payload []byte) *session.Packet {
	return &session.Packet{Kind: session.KindSend, Name: []byte("x"), Compressed: true, Payload: payload}
}

func TestAPayloadInEveryFormOfThePickleIsInflated(t *testing.T) {
	noise := make([]byte, 300)
	for rng, i := rand.New(rand.NewPCG(1, 2)), 0; i < len(noise); i++ {
		noise[i] = byte(rng.Uint32())
	}
	for name, c := range map[string]struct {
		plain []byte
		first byte
	}{
		"stored":                {noise, 0x00},
		"stored, empty":         {nil, 0x00},
		"difference of 1 byte":  {bytes.Repeat([]byte("a"), 200), 0x40},
		"difference of 2 bytes": {bytes.Repeat([]byte("ab"), 2000), 0x80},
		"difference of 4 bytes": {bytes.Repeat([]byte("abc"), 60000), 0xC0},
	} {
		p := compressed(pickle(t, c.plain))
		if p.Payload[0] != c.first {
			t.Errorf("%s: first byte %#x, want %#x: the case does not test its form", name, p.Payload[0], c.first)
		}
		got, err := session.DecodePayload(p, 0)
		if err != nil || !bytes.Equal(got, c.plain) {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(c.plain))
		}
	}
}

func TestAPlainPayloadIsReturnedAsItIs(t *testing.T) {
	p := &session.Packet{Payload: []byte("as it is")}
	got, err := session.DecodePayload(p, 8)
	if err != nil || string(got) != "as it is" || &got[0] != &p.Payload[0] {
		t.Errorf("DecodePayload = %q, %v; want the same memory", got, err)
	}
	if _, err := session.DecodePayload(p, 7); reasonOf(err) != session.ReasonPayloadSize {
		t.Errorf("a cap of 7 bytes: %v", err)
	}
	dst := make([]byte, 8)
	if err := session.InflatePayload(dst, p); err != nil || string(dst) != "as it is" {
		t.Errorf("InflatePayload = %q, %v", dst, err)
	}
}

func TestThePlainSizeObeysTheCapBeforeAnythingIsInflated(t *testing.T) {
	bomb := compressed(pickle(t, make([]byte, 1<<20)))
	if len(bomb.Payload) > 8<<10 {
		t.Fatalf("the bomb has %d bytes", len(bomb.Payload))
	}
	if n := testing.AllocsPerRun(10, func() {
		if _, err := session.DecodePayload(bomb, 64<<10); reasonOf(err) != session.ReasonPayloadSize {
			t.Errorf("DecodePayload: %v, want it refused for its size", err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a refused payload", n)
	}
	got, err := session.DecodePayload(bomb, 1<<20)
	if err != nil || len(got) != 1<<20 {
		t.Errorf("at exactly the cap: %d bytes, %v", len(got), err)
	}
}

func TestAMalformedCompressedPayloadIsRefused(t *testing.T) {
	good := pickle(t, bytes.Repeat([]byte("a"), 200))
	change := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	for name, payload := range map[string][]byte{
		"nothing at all":            {},
		"reserved bit set":          change(0, 0x41),
		"difference is missing":     {0xC0, 1, 2},
		"claims one byte more":      change(1, good[1]+1),
		"claims one byte less":      change(1, good[1]-1),
		"block cut short":           good[:len(good)-1],
		"block is empty":            {0x40, 9},
		"claims what no block says": {0xC0, 0xff, 0xff, 0xff, 0x7f, 0x1f, 'a', 1, 0, 0x4b},
	} {
		if got, err := session.DecodePayload(compressed(payload), 0); reasonOf(err) != session.ReasonPayload {
			t.Errorf("%s: %d bytes, %v; want it refused", name, len(got), err)
		}
	}
}

func TestAClaimThatNoBlockCanKeepTakesNoMemoryEvenWithoutACap(t *testing.T) {
	p := compressed([]byte{0xC0, 0xff, 0xff, 0xff, 0x7f, 0x1f, 'a', 1, 0, 0x4b})
	if n := testing.AllocsPerRun(10, func() {
		if _, err := session.DecodePayload(p, 0); reasonOf(err) != session.ReasonPayload {
			t.Errorf("DecodePayload: %v, want it refused", err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for 2 GiB that are only claimed", n)
	}
}

func TestInflatingNeverWritesPastTheRoomGiven(t *testing.T) {
	p := compressed(pickle(t, bytes.Repeat([]byte("a"), 200)))
	room := bytes.Repeat([]byte{'#'}, 256)
	if err := session.InflatePayload(room[:100:100], p); reasonOf(err) != session.ReasonPayload {
		t.Errorf("InflatePayload into too little room: %v", err)
	}
	if !bytes.Equal(room[100:], bytes.Repeat([]byte{'#'}, 156)) {
		t.Error("bytes behind the room were overwritten")
	}
	if n := testing.AllocsPerRun(10, func() {
		if err := session.InflatePayload(room[:200], p); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAPayloadIsCompressedOnlyIfThatSavesAnEighth(t *testing.T) {
	noise := make([]byte, 3000)
	for rng, i := rand.New(rand.NewPCG(3, 4)), 0; i < len(noise); i++ {
		noise[i] = byte(rng.Uint32())
	}
	for name, c := range map[string]struct {
		plain []byte
		pays  bool
	}{
		"nothing":            {nil, false},
		"a few bytes":        {[]byte("aaaaaaaa"), false},
		"noise":              {noise, false},
		"mostly noise":       {append(bytes.Clone(noise), make([]byte, 300)...), false},
		"a third is alike":   {append(bytes.Clone(noise), make([]byte, 1500)...), true},
		"difference in 1":    {bytes.Repeat([]byte("a"), 200), true},
		"difference in 2":    {bytes.Repeat([]byte("ab"), 2000), true},
		"difference in 4":    {bytes.Repeat([]byte("abc"), 60000), true},
		"alike far too late": {append(append(bytes.Clone(noise), make([]byte, 70_000)...), noise...), true},
	} {
		dst := make([]byte, len(c.plain)+10)
		rest := dst[len(c.plain):]
		copy(rest, "untouched!")
		got, pays := session.CompressPayload(dst, c.plain)
		if pays != c.pays || string(rest) != "untouched!" {
			t.Errorf("%s: pays %v, want %v; behind it %q", name, pays, c.pays, rest)
			continue
		}
		if !pays {
			continue
		}
		if len(got) > len(c.plain)-len(c.plain)/8 {
			t.Errorf("%s: %d bytes of %d", name, len(got), len(c.plain))
		}
		if plain, err := session.DecodePayload(compressed(got), len(c.plain)); err != nil || !bytes.Equal(plain, c.plain) {
			t.Errorf("%s: inflated to %d bytes, %v", name, len(plain), err)
		}
	}
}
