package zlnode_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

func TestAPayloadToAClientIsCompressedWhereThatPays(t *testing.T) {
	const least = 200
	onEachStageWith(t, func(c *zlnode.Config) { c.Sessions[0].CompressMin = least }, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		seq := uint64(1)
		check := func(p session.Packet, want []byte, small bool) {
			t.Helper()
			plain, err := session.DecodePayload(&p, 1<<20)
			if err != nil || !bytes.Equal(plain, want) {
				t.Errorf("%d bytes came as %d, %v", len(want), len(plain), err)
			}
			if p.Compressed != small || small && len(p.Payload) > len(want)/2 {
				t.Errorf("%d bytes: compressed %v, %d bytes", len(want), p.Compressed, len(p.Payload))
			}
		}
		for _, k := range []struct {
			payload string
			small   bool
		}{
			{strings.Repeat("a", least), true},
			{strings.Repeat("a", least-1), false},
			{strings.Repeat("position 12, 17; ", 3000), true},
			{string(noise(300)), false},
		} {
			seq++
			c.write(request(seq, "echo", k.payload))
			check(c.answer(seq), []byte(k.payload), k.small)
		}
		c.write(request(90, "flood", `3000`))
		check(c.read(), make([]byte, 3000), true)
		c.answer(90)
		c.write(request(91, "push to self", `3000`))
		check(c.read(), make([]byte, 3000), true)
		c.answer(91)
	})
}

func TestNothingIsCompressedUnlessThePortSaysSo(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		c.write(request(2, "echo", strings.Repeat("a", 60_000)))
		if p := c.answer(2); p.Compressed || len(p.Payload) != 60_000 {
			t.Errorf("compressed %v, %d bytes", p.Compressed, len(p.Payload))
		}
	})
}

// Not every foreign client inflates an Error.
func TestAnErrorToAClientIsNeverCompressed(t *testing.T) {
	app := zlnode.NewApp()
	v := zlnode.DefineSession(app, "player", func(*zlnode.SessionContext) (*visitor, error) { return &visitor{}, nil })
	zlnode.OnPacketRequest(v, "fail", func(*zlnode.SessionCall, *visitor, string) (string, error) {
		return "", zlnode.Errorf(zlnode.Rejected, "%s", strings.Repeat("no ", 150))
	})
	n, err := zlnode.Start(t.Context(), zlnode.Config{Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player", CompressMin: 1}}}, app)
	if err != nil {
		t.Fatal(err)
	}
	defer shutdown(t, n)
	c := dialStream(t, n.SessionAddrs()[0].String())
	c.write(request(1, "fail", `""`))
	if p := c.answer(1); p.Kind != session.KindError || p.Compressed || !strings.Contains(string(p.Payload), "no no no") {
		t.Errorf("%v, compressed %v: %s", p.Kind, p.Compressed, p.Payload)
	}
}

func TestACompressMinBelowZeroIsRefused(t *testing.T) {
	app := zlnode.NewApp()
	zlnode.DefineSession(app, "player", func(*zlnode.SessionContext) (*visitor, error) { return &visitor{}, nil })
	_, err := zlnode.Start(t.Context(), zlnode.Config{Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player", CompressMin: -1}}}, app)
	if !errors.Is(err, zlnode.InvalidOperation) || !strings.Contains(err.Error(), "CompressMin") {
		t.Errorf("error %v", err)
	}
}

// noise returns n bytes that do not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	return b
}
