package link

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/wire"
)

// The handshake scripts. Every command prints the full reaction.
//
//	dialler <name> rid= [expect=] [mesh=] [lifecycle=] [keys=(a,b)] [versions=(1,3)] [nonce=]
//	acceptor <name> rid= [mesh=] [lifecycle=] [keys=] [versions=] [nonce=]
//	open <name> [refuse=n [detail=]] the connection is open
//	pass <from> <to> [flip=n]        the oldest record on its way arrives, with bit 0 of byte n changed
//	replay <to> of=<name> record=n   the n-th record that of ever sent arrives again
//	give <to>                        the record in the input (hex) arrives
//	judge <name> [newest=n] [refuse=n [detail=]]
//	tick <name>
//
// All take at=<duration>; the time stands still otherwise.
func TestHandshakeScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/handshake", func(t *testing.T, path string) {
		s := script{parties: map[string]*party{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(t, d)
		})
	})
}

type script struct {
	now     clock.Mono
	parties map[string]*party
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	scanAt(t, d, &s.now)
	name := d.CmdArgs[0].Key
	ev := Event{Kind: EventReceived}
	switch d.Cmd {
	case "dialler", "acceptor":
		s.create(t, d, name)
		return ""
	case "open":
		ev.Kind = EventOpened
		scanRefuse(t, d, &ev)
	case "tick":
		ev.Kind = EventTick
	case "judge":
		ev.Kind = EventJudged
		d.MaybeScanArgs(t, "newest", &ev.Newest)
		scanRefuse(t, d, &ev)
	case "pass":
		from := s.parties[name]
		name = d.CmdArgs[1].Key
		if ev.Record = bytes.Clone(from.next()); ev.Record == nil {
			return "nothing on its way"
		}
		var flip int
		if d.MaybeScanArgs(t, "flip", &flip) {
			ev.Record[flip] ^= 1
		}
	case "replay":
		var of string
		var n int
		d.ScanArgs(t, "of", &of)
		d.ScanArgs(t, "record", &n)
		ev.Record = s.parties[of].sent[n]
	case "give":
		b, err := hex.DecodeString(strings.Join(strings.Fields(d.Input), ""))
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		ev.Record = b
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	return s.react(t, s.parties[name], ev)
}

func scanRefuse(t *testing.T, d *datadriven.TestData, ev *Event) {
	var refuse uint64
	d.MaybeScanArgs(t, "refuse", &refuse)
	d.MaybeScanArgs(t, "detail", &ev.Detail)
	ev.Refuse = wire.RejectReason(refuse)
}

func (s *script) react(t *testing.T, p *party, ev Event) string {
	var out strings.Builder
	if err := p.Step(s.now, ev); err != nil {
		fmt.Fprintln(&out, err)
	} else {
		for _, e := range p.Effects(nil) {
			if e.Kind == EffectSend {
				p.out = append(p.out, e.Record)
				p.sent = append(p.sent, e.Record)
			}
			fmt.Fprintln(&out, describe(e))
		}
	}
	fmt.Fprintf(&out, "state %v", p.State())
	if at, ok := p.NextDeadline(); ok {
		fmt.Fprintf(&out, ", deadline %v", time.Duration(at))
	}
	return out.String() + "\n"
}

func (s *script) create(t *testing.T, d *datadriven.TestData, name string) {
	cfg := testConfig("")
	var expect string
	var nonce uint64
	var keys []string
	d.ScanArgs(t, "rid", &cfg.RID)
	d.MaybeScanArgs(t, "mesh", &cfg.Mesh)
	d.MaybeScanArgs(t, "lifecycle", &cfg.Lifecycle)
	role := uint64(cfg.Role)
	d.MaybeScanArgs(t, "role", &role)
	cfg.Role = wire.Role(role)
	d.MaybeScanArgs(t, "nonce", &nonce)
	d.MaybeScanArgs(t, "expect", &expect)
	if arg, ok := d.Arg("keys"); ok {
		keys = arg.Vals
		cfg.Keys = nil
		for _, k := range keys {
			cfg.Keys = append(cfg.Keys, []byte(strings.Repeat(k, KeyMin)))
		}
	}
	if d.HasArg("versions") {
		var lo, hi uint64
		d.ScanArgs(t, "versions", &lo, &hi)
		cfg.MinVersion, cfg.MaxVersion = uint16(lo), uint16(hi)
	}
	if d.Cmd == "dialler" {
		s.parties[name] = newDialler(t, cfg, expect, byte(nonce))
	} else {
		s.parties[name] = newAcceptor(t, cfg, byte(nonce))
	}
}

// The liveness scripts.
//
//	start [every=] [silent=]    a link is admitted
//	tick | acked id= | probed id=
//
// All take at=<duration>.
func TestLivenessScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/liveness", func(t *testing.T, path string) {
		var l *Liveness
		var now clock.Mono
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			scanAt(t, d, &now)
			ev := LiveEvent{}
			d.MaybeScanArgs(t, "id", &ev.ID)
			switch d.Cmd {
			case "start":
				cfg := LivenessConfig{ProbeEvery: scanDuration(t, d, "every"), SilentAfter: scanDuration(t, d, "silent")}
				if err := cfg.Validate(); err != nil {
					return err.Error()
				}
				l = NewLiveness(cfg, now)
			case "tick":
				ev.Kind = LiveTick
			case "acked":
				ev.Kind = LiveAcked
			case "probed":
				ev.Kind = LiveProbed
			default:
				t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
			}
			if ev.Kind != 0 {
				l.Step(now, ev)
			}
			var out strings.Builder
			for _, e := range l.Effects(nil) {
				switch e.Kind {
				case LiveSendProbe:
					fmt.Fprintf(&out, "send probe %d\n", e.ID)
				case LiveSendAck:
					fmt.Fprintf(&out, "send ack %d\n", e.ID)
				case LivePeerSilent:
					fmt.Fprintln(&out, "peer silent")
				}
			}
			if at, ok := l.NextDeadline(); ok {
				fmt.Fprintf(&out, "next %v\n", time.Duration(at))
			} else {
				fmt.Fprintln(&out, "over")
			}
			return out.String()
		})
	})
}

func scanAt(t *testing.T, d *datadriven.TestData, now *clock.Mono) {
	if d.HasArg("at") {
		*now = clock.Mono(scanDuration(t, d, "at"))
	}
}

func scanDuration(t *testing.T, d *datadriven.TestData, key string) (v time.Duration) {
	var text string
	if d.MaybeScanArgs(t, key, &text) {
		var err error
		if v, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
	}
	return v
}
