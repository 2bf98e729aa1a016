package link

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/wire"
)

func TestBothEndsLearnWhoTheOtherIs(t *testing.T) {
	cd, ca := testConfig("node-a"), testConfig("node-b")
	cd.Lifecycle, cd.Role, cd.Window = 11, wire.RoleClient, 6<<20
	ca.Lifecycle, ca.Role, ca.Window = 22, wire.RoleServer, 7<<20
	d, a := newDialler(t, cd, "node-b", 1), newAcceptor(t, ca, 2)
	run(t, d, a, nil)
	wantD := Peer{RID: "node-b", Lifecycle: 22, Role: wire.RoleServer, Version: 1, Window: 7 << 20}
	wantA := Peer{RID: "node-a", Lifecycle: 11, Role: wire.RoleClient, Version: 1, Window: 6 << 20}
	if d.admitted == nil || *d.admitted != wantD {
		t.Errorf("dialler admitted %+v, want %+v", d.admitted, wantD)
	}
	if a.admitted == nil || *a.admitted != wantA {
		t.Errorf("acceptor admitted %+v, want %+v", a.admitted, wantA)
	}
}

// Any single changed bit anywhere in the handshake ends it at one end at least:
// nobody is admitted by both sides on other terms than were sent.
func TestNoBitCanBeChangedOnTheWay(t *testing.T) {
	d, a := newDialler(t, testConfig("node-a"), "node-b", 1), newAcceptor(t, testConfig("node-b"), 2)
	run(t, d, a, nil)
	for who, records := range map[string][][]byte{"node-a": d.sent, "node-b": a.sent} {
		for n, record := range records {
			for bit := range 8 * len(record) {
				d, a := newDialler(t, testConfig("node-a"), "node-b", 1), newAcceptor(t, testConfig("node-b"), 2)
				seen := 0
				run(t, d, a, func(from *party, r []byte) []byte {
					if from.cfg.RID != who {
						return r
					}
					seen++
					if seen-1 != n {
						return r
					}
					r = bytes.Clone(r)
					r[bit/8] ^= 1 << (bit % 8)
					return r
				})
				if d.admitted != nil {
					t.Fatalf("bit %d of record %d of %s changed: dialler admitted %+v", bit, n, who, d.admitted)
				}
				if a.admitted != nil && !(who == "node-b" && n == 1) {
					t.Fatalf("bit %d of record %d of %s changed: acceptor admitted %+v", bit, n, who, a.admitted)
				}
			}
		}
	}
}

func TestWhoHasNoKeyIsNeverAdmitted(t *testing.T) {
	for _, key := range []string{strings.Repeat("x", KeyMin), testKey[1:], testKey + "x"} {
		cfg := testConfig("node-a")
		cfg.Keys = [][]byte{[]byte(key)}
		d, a := newDialler(t, cfg, "node-b", 1), newAcceptor(t, testConfig("node-b"), 2)
		run(t, d, a, nil)
		if d.verified+a.verified > 0 || a.closed == nil || a.closed.Reason != wire.RejectBadKey || d.closed == nil || d.closed.Cause != RefusedByPeer {
			t.Errorf("key %q: acceptor %+v, dialler %+v", key, a.closed, d.closed)
		}
	}
}

func TestARejectSaysNothingButItsReason(t *testing.T) {
	cfg := testConfig("node-a")
	cfg.Mesh = "us"
	d, a := newDialler(t, cfg, "", 1), newAcceptor(t, testConfig("node-b"), 2)
	run(t, d, a, nil)
	if len(a.sent) != 1 {
		t.Fatalf("refusing end sent %d records", len(a.sent))
	}
	r, err := wire.Decode(a.sent[0])
	reject, ok := r.(*wire.Reject)
	if err != nil || !ok || reject.Reason != wire.RejectBadMesh || len(reject.Text) != 0 {
		t.Errorf("refusing end sent %+v, %v", r, err)
	}
}

// A peer that holds the key but does not keep to the version that follows from
// both hellos is refused: it would read the records differently.
func TestAnotherVersionThanTheCommonOneIsRefused(t *testing.T) {
	cd, ca := testConfig("node-a"), testConfig("node-b")
	cd.MinVersion, cd.MaxVersion, ca.MinVersion, ca.MaxVersion = 1, 2, 1, 2
	d, a := newDialler(t, cd, "node-b", 1), newAcceptor(t, ca, 2)
	d.open(t)
	a.open(t)
	a.give(t, d.next())
	liar := d.core.(*Dialler)
	d.give(t, a.next())
	admit := wire.Admit{Window: DefaultWindow, Version: 1}
	admit.MAC = liar.mac([]byte(testKey), roleDialler, admit.Window, admit.Version)
	a.give(t, admit.AppendTo(nil))
	if a.verified > 0 || a.closed == nil || a.closed.Reason != wire.RejectBadVersion {
		t.Errorf("closed %+v", a.closed)
	}
}

func TestAnEventOfNoKindIsMisuse(t *testing.T) {
	for _, p := range []*party{newDialler(t, testConfig("node-a"), "", 1), newAcceptor(t, testConfig("node-b"), 2)} {
		if err := p.Step(0, Event{}); !errors.Is(err, ErrMisuse) {
			t.Errorf("got %v", err)
		}
	}
}

func TestTheShellsRecordsAreItsOwn(t *testing.T) {
	d, a := newDialler(t, testConfig("node-a"), "node-b", 1), newAcceptor(t, testConfig("node-b"), 2)
	run(t, d, a, func(_ *party, r []byte) []byte {
		arrived := bytes.Clone(r)
		clear(r) // what was sent is written over, as a pooled buffer would be
		return arrived
	})
	if d.admitted == nil || a.admitted == nil {
		t.Errorf("dialler %+v, acceptor %+v", d.closed, a.closed)
	}
}

// Nodes of one round of the rotation, and of two neighbouring ones, link: whoever proves itself
// by a key finds it at the other end. Others do not: one of them proves itself by a key that the
// other has never had, or has no more.
func TestRotationNeverSplitsTheMesh(t *testing.T) {
	o, n := []byte(strings.Repeat("o", KeyMin)), []byte(strings.Repeat("n", KeyMin))
	steps := [][][]byte{{o}, {o, n}, {n, o}, {n}}
	for i := range steps {
		for j := range steps {
			cd, ca := testConfig("node-a"), testConfig("node-b")
			cd.Keys, ca.Keys = steps[i], steps[j]
			d, a := newDialler(t, cd, "node-b", 1), newAcceptor(t, ca, 2)
			run(t, d, a, nil)
			if links := max(i, j)-min(i, j) <= 1; links != (d.admitted != nil && a.admitted != nil) {
				t.Errorf("steps %d and %d of the rotation: admitted %+v, %+v; closed %+v, %+v", i, j, d.admitted, a.admitted, d.closed, a.closed)
			} else if !links && (d.closed == nil || d.closed.Reason != wire.RejectBadKey) {
				t.Errorf("steps %d and %d of the rotation: the dialler hears %+v", i, j, d.closed)
			}
		}
	}
}

// Whatever two nodes are configured to, they are admitted by each other if, and
// only if, they fit, and then they agree on version and windows.
func TestNodesAreAdmittedExactlyIfTheyFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Config {
			c := Config{
				Mesh:      rapid.SampledFrom([]string{"eu", "us"}).Draw(t, name+" mesh"),
				RID:       rapid.SampledFrom([]string{"a", "b"}).Draw(t, name+" rid"),
				Lifecycle: rapid.Uint64Range(1, 3).Draw(t, name+" lifecycle"),
				Keys:      [][]byte{bytes.Repeat([]byte{rapid.ByteRange('k', 'l').Draw(t, name+" key")}, KeyMin)},
				Window:    rapid.Uint64Range(wire.MinWindow, wire.MaxWindow).Draw(t, name+" window"),
			}
			c.MinVersion = rapid.Uint16Range(1, 4).Draw(t, name+" min")
			c.MaxVersion = rapid.Uint16Range(c.MinVersion, 4).Draw(t, name+" max")
			return c
		}
		cd, ca := draw("dialler"), draw("acceptor")
		expect := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "expect")
		newest := rapid.Uint64Range(0, 3).Draw(t, "newest")
		d, a := newDialler(t, cd, expect, 1), newAcceptor(t, ca, 2)
		d.newest, a.newest = newest, newest
		run(t, d, a, nil)
		fit := cd.Mesh == ca.Mesh && cd.RID != ca.RID && (expect == "" || expect == ca.RID) &&
			bytes.Equal(cd.Keys[0], ca.Keys[0]) && min(cd.MaxVersion, ca.MaxVersion) >= max(cd.MinVersion, ca.MinVersion)
		if want := fit && cd.Lifecycle >= newest; want != (a.admitted != nil) {
			t.Fatalf("acceptor admitted %+v, want %v", a.admitted, want)
		}
		if want := fit && cd.Lifecycle >= newest && ca.Lifecycle >= newest; want != (d.admitted != nil) {
			t.Fatalf("dialler admitted %+v, want %v", d.admitted, want)
		}
		if d.admitted != nil && (d.admitted.Version != a.admitted.Version || d.admitted.Version != min(cd.MaxVersion, ca.MaxVersion) ||
			d.admitted.Window != ca.Window || a.admitted.Window != cd.Window) {
			t.Fatalf("dialler has %+v, acceptor %+v", d.admitted, a.admitted)
		}
		if d.admitted == nil && (d.closed == nil || a.closed == nil && a.admitted == nil) {
			t.Fatalf("not over: dialler %v, acceptor %v", d.State(), a.State())
		}
	})
}

func TestConfigIsCheckedAndCompleted(t *testing.T) {
	ok := testConfig("node-a")
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	if ok.MinVersion != wire.Version || ok.MaxVersion != wire.Version || ok.Window != DefaultWindow || ok.Timeout != DefaultTimeout {
		t.Errorf("defaults %+v", ok)
	}
	f := func(what string, change func(*Config)) {
		t.Helper()
		c := testConfig("node-a")
		change(&c)
		if err := c.Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f("no mesh", func(c *Config) { c.Mesh = "" })
	f("RID with a space", func(c *Config) { c.RID = "a b" })
	f("no lifecycle", func(c *Config) { c.Lifecycle = 0 })
	f("lifecycle of 64 bits", func(c *Config) { c.Lifecycle = 1 << 63 })
	f("unknown role", func(c *Config) { c.Role = 5 })
	f("no key", func(c *Config) { c.Keys = nil })
	f("too many keys", func(c *Config) { c.Keys = make([][]byte, KeysMax+1) })
	f("empty key", func(c *Config) { c.Keys = [][]byte{{}} })
	f("short second key", func(c *Config) { c.Keys = append(c.Keys, make([]byte, KeyMin-1)) })
	f("versions turned round", func(c *Config) { c.MinVersion, c.MaxVersion = 3, 2 })
	f("window that stops the largest record", func(c *Config) { c.Window = wire.MinWindow - 1 })
	f("window over the largest", func(c *Config) { c.Window = wire.MaxWindow + 1 })
	f("negative timeout", func(c *Config) { c.Timeout = -time.Second })
}
