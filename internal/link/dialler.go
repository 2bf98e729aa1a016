package link

import "github.com/zlnode/zlnode/internal/clock"

// Dialler is the half of the handshake that opened the connection. See the
// package comment. Owned by one goroutine.
type Dialler struct{ half }

// NewDialler returns the half for a connection to the node expect; an empty
// expect is a manual peer, whose RID is taken as it comes. cfg must be validated.
// nonce must be fresh from a cryptographic source.
func NewDialler(cfg *Config, expect string, nonce [32]byte) *Dialler {
	return &Dialler{half{cfg: cfg, own: roleDialler, expect: expect, nonce: nonce}}
}

// Step takes one event. It returns ErrMisuse, and changes nothing, for an event
// that the shell must not give now. The peer is open once it sent its admit, so
// more records may follow that one at once: they wait for the shell's decision.
func (d *Dialler) Step(now clock.Mono, ev Event) error {
	if ev.Kind == EventReceived && d.state == Judging {
		return ErrMisuse
	}
	if done, err := d.step(now, ev); done {
		return err
	}
	switch ev.Kind {
	case EventOpened:
		d.sendHello(d.expect)
		d.state = WaitHello
	case EventReceived:
		if d.state == WaitAdmit {
			d.admit(ev.Record)
		} else if d.hello(ev.Record, true) {
			if d.expect == "" {
				d.effects = append(d.effects, Effect{Kind: EffectGreeted, Peer: d.peer})
			}
			d.sendAdmit()
			d.state = WaitAdmit
		}
	case EventJudged:
		d.admitted()
	case EventTick: // done by step
	}
	return nil
}
