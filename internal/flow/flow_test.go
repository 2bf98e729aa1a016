package flow_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/session"
)

const text = "01976fe4-f4a0-7abc-8def-0123456789ab"

func TestIDs(t *testing.T) {
	id, err := flow.Parse(text)
	if err != nil || id.String() != text {
		t.Fatalf("%v, %v", id, err)
	}
	if made := flow.New(0x01976fe4f4a0, 0xffffffffffffffff, 0xffffffffffffffff); made.String() != "01976fe4-f4a0-7fff-bfff-ffffffffffff" {
		t.Errorf("made %v", made)
	}
	for _, bad := range []string{
		"", text[1:], strings.ToUpper(text), strings.Replace(text, "-", "0", 1),
		"01976fe4-f4a0-4abc-8def-0123456789ab", "01976fe4-f4a0-7abc-cdef-0123456789ab", strings.Replace(text, "0", "-", 1),
	} {
		if _, err := flow.Parse(bad); err == nil {
			t.Errorf("%q is taken for a flow id", bad)
		}
	}
}

// The bytes are part of the protocol between nodes.
func TestBytesOfAContext(t *testing.T) {
	id, _ := flow.Parse(text)
	c := flow.Context{
		ID: id, Origin: flow.OfClient, Trace: flow.Trace{ID: [16]byte{0xaa}, Span: [8]byte{0xbb}, Flags: 1}, Correlation: []byte("c7"),
	}
	application, err := session.NewMetadata(map[string]string{"k": "v"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "02" + "07" + "7a6c2d666c6f77" + "002f" + "07" + // two entries; "zl-flow", 47 bytes: all three
		"01976fe4f4a07abc8def0123456789ab" + "01" + // flow, of a client
		"aa000000000000000000000000000000" + "bb00000000000000" + "01" + // trace
		"02" + "6337" + // correlation id
		"01" + "016b" + "000176" // and a whole block with one entry
	if got := hex.EncodeToString(flow.Append(nil, &c, application)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func contexts() *rapid.Generator[flow.Context] {
	return rapid.Custom(func(t *rapid.T) (c flow.Context) {
		if rapid.Bool().Draw(t, "flow") {
			c.ID = flow.New(rapid.Int64Range(0, 1<<48-1).Draw(t, "ms"), rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b"))
			c.Origin = flow.Origin(rapid.IntRange(1, 4).Draw(t, "origin"))
		}
		if rapid.Bool().Draw(t, "trace") {
			c.Trace = flow.Trace{ID: [16]byte{1}, Span: [8]byte{2}, Flags: rapid.Byte().Draw(t, "flags")}
		}
		c.Correlation = rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "correlation")
		return c
	})
}

// A block that has a Context is what it was made of, is valid metadata but for the text in
// it, and is never over the limit.
func TestContextsTravel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := contexts().Draw(t, "context")
		made, err := session.NewMetadata(rapid.MapOfN(rapid.StringN(1, 4, 8), rapid.StringN(0, 300, 300), 0, 5).Draw(t, "metadata"))
		if err != nil {
			t.Skip("it is no metadata")
		}
		application := []byte(made)
		fits := c.Fit(application)
		block := flow.Append(nil, &fits, application)
		if len(block) != flow.Size(&fits, application) || len(block) > flow.MetadataMax {
			t.Fatalf("%d bytes, not %d", len(block), flow.Size(&fits, application))
		}
		got, rest := flow.Split(block)
		if got.ID != fits.ID || got.Origin != fits.Origin || got.Trace != fits.Trace || !bytes.Equal(got.Correlation, fits.Correlation) || !bytes.Equal(rest, application) {
			t.Fatalf("%+v became %+v, %q became %q", fits, got, application, rest)
		}
		entries := 0
		for range session.Metadata(block).All() {
			entries++
		}
		if want := made.Len(); entries != session.Metadata(block).Len() || entries < want || entries > want+1 {
			t.Fatalf("%d entries of %d", entries, want)
		}
	})
}

// What has no room is left out, the correlation id first, and never what is the
// application's.
func TestContextGivesWay(t *testing.T) {
	id, _ := flow.Parse(text)
	c := flow.Context{ID: id, Origin: flow.OfClient, Correlation: bytes.Repeat([]byte{'c'}, 100)}
	for _, k := range []struct{ bytes, correlation int }{{700, 100}, {950, 0}, {1000, -1}, {1024, -1}} {
		application, err := session.NewMetadata(map[string]string{"k": strings.Repeat("v", k.bytes-5)})
		if err != nil {
			t.Fatal(err)
		}
		fits := c.Fit(application)
		if k.correlation < 0 != fits.Empty() || k.correlation >= 0 && len(fits.Correlation) != k.correlation {
			t.Errorf("beside %d bytes: flow %v, a correlation id of %d bytes", len(application), !fits.Empty(), len(fits.Correlation))
		}
		if _, rest := flow.Split(flow.Append(nil, &fits, application)); !bytes.Equal(rest, application) {
			t.Errorf("the application's %d bytes are %d", len(application), len(rest))
		}
	}
	full := []byte{255}
	if fits := c.Fit(full); !fits.Empty() {
		t.Error("a context is the 256th entry")
	}
}

// Whatever a peer sends, it is taken apart without harm.
func FuzzSplit(f *testing.F) {
	id, _ := flow.Parse(text)
	f.Add(flow.Append(nil, &flow.Context{ID: id, Origin: 1, Correlation: []byte("c")}, []byte{1, 1, 'k', 0, 1, 'v'}))
	f.Add([]byte("\x01\x07zl-flow\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, block []byte) {
		c, rest := flow.Split(block)
		fits := c.Fit(rest)
		if !fits.Empty() && flow.In(block) {
			if again, same := flow.Split(flow.Append(nil, &fits, rest)); again.ID != c.ID || !bytes.Equal(same, rest) {
				t.Errorf("%x: %+v, then %+v", block, c, again)
			}
		}
	})
}
