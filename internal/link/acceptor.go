package link

import (
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/wire"
)

// Acceptor is the half of the handshake that was dialled. See the package
// comment. Owned by one goroutine.
type Acceptor struct{ half }

// NewAcceptor returns the half for a connection from anybody. cfg must be
// validated. nonce must be fresh from a cryptographic source: it is what makes
// recorded handshakes worthless.
func NewAcceptor(cfg *Config, nonce [32]byte) *Acceptor {
	return &Acceptor{half{cfg: cfg, own: roleAcceptor, nonce: nonce}}
}

// Step takes one event. It returns ErrMisuse, and changes nothing, for an event
// that the shell must not give now.
func (a *Acceptor) Step(now clock.Mono, ev Event) error {
	if done, err := a.step(now, ev); done {
		return err
	}
	switch ev.Kind {
	case EventOpened:
		a.state = WaitHello
	case EventReceived:
		a.received(ev.Record)
	case EventJudged:
		a.sendAdmit()
		a.admitted()
	case EventTick: // done by step
	}
	return nil
}

func (a *Acceptor) received(record []byte) {
	switch a.state {
	case WaitHello:
		if a.hello(record, false) {
			a.sendHello(a.peer.RID)
			a.state = WaitAdmit
		}
	case WaitAdmit:
		a.admit(record)
	case Judging:
		a.receive(record, wire.CmdReject) // nothing else may come before our admit went out
	case New, Admitted, Closed: // not reached, see step
	}
}
