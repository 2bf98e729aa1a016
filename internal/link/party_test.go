package link

import (
	"bytes"
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/wire"
)

// core is what Dialler and Acceptor have in common for a shell.
type core interface {
	Step(clock.Mono, Event) error
	Effects([]Effect) []Effect
	NextDeadline() (clock.Mono, bool)
	State() State
}

// party is one half of a handshake with a minimal shell: what it sends waits in
// out, everything that it ever sent stays in sent.
type party struct {
	core
	cfg      *Config
	out      [][]byte
	sent     [][]byte
	newest   uint64 // lifecycle that judge knows of
	verified int
	admitted *Peer
	closed   *Close
}

const testKey = "a mesh key of more than 16 bytes"

func testConfig(rid string) Config {
	return Config{Mesh: "eu", RID: rid, Lifecycle: 5, Role: wire.RoleServer, Keys: [][]byte{[]byte(testKey)}}
}

func newDialler(t rapid.TB, cfg Config, expect string, nonce byte) *party {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return &party{core: NewDialler(&cfg, expect, [32]byte{31: nonce}), cfg: &cfg}
}

func newAcceptor(t rapid.TB, cfg Config, nonce byte) *party {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return &party{core: NewAcceptor(&cfg, [32]byte{31: nonce}), cfg: &cfg}
}

// step gives one event and returns the effects, which it also notes.
func (p *party) step(t rapid.TB, now clock.Mono, ev Event) []Effect {
	t.Helper()
	if err := p.Step(now, ev); err != nil {
		t.Fatalf("%s: %v", p.cfg.RID, err)
	}
	effects := p.Effects(nil)
	for i, e := range effects {
		switch e.Kind {
		case EffectSend:
			p.out = append(p.out, e.Record)
			p.sent = append(p.sent, e.Record)
		case EffectVerified:
			p.verified++
		case EffectAdmitted:
			p.admitted = &effects[i].Peer
		case EffectClose:
			p.closed = &effects[i].Close
		}
	}
	return effects
}

func (p *party) open(t rapid.TB) { t.Helper(); p.step(t, 0, Event{Kind: EventOpened}) }

// give hands a record over in a buffer that is written over afterwards, as a
// connection's is.
func (p *party) give(t rapid.TB, record []byte) {
	t.Helper()
	in := bytes.Clone(record)
	p.step(t, 0, Event{Kind: EventReceived, Record: in})
	for i := range in {
		in[i] = 0xff
	}
}

// judge answers a verification, as a shell that takes everybody does.
func (p *party) judge(t rapid.TB) {
	t.Helper()
	if p.State() == Judging {
		p.step(t, 0, Event{Kind: EventJudged, Newest: p.newest})
	}
}

// next takes the oldest record that p sent and nobody got yet.
func (p *party) next() []byte {
	if len(p.out) == 0 {
		return nil
	}
	r := p.out[0]
	p.out = p.out[1:]
	return r
}

// run opens both and passes records until nobody has anything to say. change,
// if not nil, sees every record on its way and may return another one.
func run(t rapid.TB, d, a *party, change func(from *party, record []byte) []byte) {
	t.Helper()
	d.open(t)
	a.open(t)
	pass := func(from, to *party) bool {
		r := from.next()
		if r == nil || to.State() == Admitted {
			return false
		}
		if change != nil {
			r = change(from, r)
		}
		to.give(t, r)
		to.judge(t)
		return true
	}
	for pass(d, a) || pass(a, d) {
	}
}

// describe prints an effect in full.
func describe(e Effect) string {
	peer := fmt.Sprintf("rid=%s lifecycle=%d role=%d version=%d window=%d", e.Peer.RID, e.Peer.Lifecycle, e.Peer.Role, e.Peer.Version, e.Peer.Window)
	switch e.Kind {
	case EffectSend:
		return "send " + describeRecord(e.Record)
	case EffectVerified:
		return "verified " + peer
	case EffectAdmitted:
		return "admitted " + peer
	case EffectGreeted:
		return "greeted " + peer
	case EffectClose:
		cause := []string{"", "refused", "refusedByPeer", "timedOut"}[e.Close.Cause]
		return fmt.Sprintf("close %s reason=%v detail=%q", cause, e.Close.Reason, e.Close.Detail)
	}
	return "unknown effect"
}

func describeRecord(record []byte) string {
	r, err := wire.Decode(record)
	if err != nil {
		return err.Error()
	}
	switch r := r.(type) {
	case *wire.Hello:
		return fmt.Sprintf("hello versions=%d-%d mesh=%s rid=%s lifecycle=%d role=%d nonce=..%x expect=%s", r.MinVersion, r.MaxVersion, r.Mesh, r.RID, r.Lifecycle, r.Role, r.Nonce[31:], r.ExpectRID)
	case *wire.Admit:
		return fmt.Sprintf("admit mac=%x.. window=%d version=%d", r.MAC[:4], r.Window, r.Version)
	case *wire.Reject:
		return fmt.Sprintf("reject %v text=%q", r.Reason, r.Text)
	default:
		return strings.TrimPrefix(fmt.Sprintf("%T", r), "*wire.")
	}
}
