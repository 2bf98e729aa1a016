package link

import (
	"cmp"
	"errors"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/wire"
)

// EventKind says what happened to a handshake.
type EventKind uint8

// The events.
const (
	EventOpened   EventKind = iota + 1 // the connection is open: Refuse
	EventReceived                      // a record came: Record
	EventJudged                        // the answer to EffectVerified: Newest, Refuse
	EventTick                          // the deadline may be reached
)

// Event is one input of a Dialler or an Acceptor.
type Event struct {
	Kind EventKind
	// Record is one whole record with its prefix, no larger than wire.PreAdmitMax,
	// which the shell decides by the prefix. It is read during Step only.
	Record []byte
	// Newest is the newest lifecycle of the peer's RID that this node ever
	// admitted, on links that are gone too; 0: none. An older one is refused.
	Newest uint64
	// Refuse is why the shell will not have this peer; 0: it will. In EventJudged the
	// shell applies Prefer, its own state and its knowledge of descriptors, and keeps
	// the slot for the link from this moment. In EventOpened it has nothing but the
	// peer's certificate to judge by: a peer that is refused then is told no word
	// besides.
	Refuse wire.RejectReason
	// Detail is what this node's log is told of Refuse; "": the reason says it all.
	Detail string
}

// EffectKind says what the shell has to do.
type EffectKind uint8

// The effects.
const (
	EffectSend     EffectKind = iota + 1 // write Record
	EffectVerified                       // the peer holds the key; decide, then Step(EventJudged)
	EffectAdmitted                       // the link is open to and from Peer
	EffectClose                          // flush what was sent, then close the connection
	EffectGreeted                        // of a manual peer: it says that it is Peer, which is not proved; the shell may close the connection instead of going on
)

// Effect is one thing that the shell has to do, in the order of Effects. After
// EffectAdmitted or EffectClose there is no other.
type Effect struct {
	Kind   EffectKind
	Record []byte // fresh bytes, which belong to the shell
	Peer   Peer   // of EffectVerified, EffectAdmitted and EffectGreeted
	Close  Close  // of EffectClose
}

// Peer is what the handshake proved about the other node.
type Peer struct {
	RID       string
	Lifecycle uint64
	Role      wire.Role
	Version   uint16 // protocol version of the link
	Window    uint64 // credits that the peer granted to this node
}

// Cause says which side ended a handshake.
type Cause uint8

// The causes.
const (
	Refused       Cause = iota + 1 // this node refused the peer, for Close.Reason
	RefusedByPeer                  // the peer refused this node, for Close.Reason
	TimedOut                       // the handshake was not over in time
)

// Close says why a handshake ended without a link.
type Close struct {
	Cause  Cause
	Reason wire.RejectReason
	Detail string // for this node's log: what was wrong, or the peer's text
}

// State is the state of a handshake. The legal ways are
//
//	New → WaitHello → WaitAdmit → Judging → Admitted
//
// and from each but Admitted to Closed.
type State uint8

// The states.
const (
	New       State = iota // the connection is not open yet
	WaitHello              // for the peer's hello
	WaitAdmit              // for the peer's admit
	Judging                // the MAC was right; for the shell's decision
	Admitted               // the link is open; the handshake is over
	Closed                 // refused or timed out
)

var stateNames = [...]string{"new", "waitHello", "waitAdmit", "judging", "admitted", "closed"}

// String returns the state's name, for logs.
func (s State) String() string { return stateNames[s] }

// ErrMisuse is returned by Step for an event that the shell must not give in
// this state. The core does not change.
var ErrMisuse = errors.New("link: event not allowed in this state of the handshake")

// half is what both halves of the handshake have in common.
type half struct {
	cfg    *Config
	own    byte // 'D' or 'A'
	expect string
	nonce  [32]byte

	state     State
	deadline  clock.Mono
	ownHello  []byte // whole records, which the MACs cover
	peerHello []byte
	peer      Peer
	effects   []Effect
}

// State returns the current state.
func (h *half) State() State { return h.state }

// Effects appends what is to be done to dst and forgets it.
func (h *half) Effects(dst []Effect) []Effect {
	dst = append(dst, h.effects...)
	clear(h.effects)
	h.effects = h.effects[:0]
	return dst
}

// NextDeadline returns when Step wants an EventTick; ok is false if never.
func (h *half) NextDeadline() (at clock.Mono, ok bool) {
	switch h.state {
	case WaitHello, WaitAdmit, Judging:
		return h.deadline, true
	case New, Admitted, Closed:
	}
	return 0, false
}

// step does what is the same in both halves and reports whether it was all.
func (h *half) step(now clock.Mono, ev Event) (done bool, err error) {
	if h.state == Closed {
		return true, nil // late events of a connection that is being closed
	}
	switch ev.Kind {
	case EventOpened:
		if h.state != New {
			return true, ErrMisuse
		}
		h.deadline = now.Add(h.cfg.Timeout)
		if ev.Refuse != 0 {
			h.refuse(ev.Refuse, ev.Detail)
			return true, nil
		}
	case EventTick:
		if at, ok := h.NextDeadline(); ok && now.Reached(at) {
			h.close(Close{Cause: TimedOut, Detail: "no answer while in state " + h.state.String()})
		}
		return true, nil
	case EventReceived:
		if h.state == New || h.state == Admitted {
			return true, ErrMisuse
		}
	case EventJudged:
		if h.state != Judging {
			return true, ErrMisuse
		}
		switch {
		case h.peer.Lifecycle < ev.Newest:
			h.refuse(wire.RejectStaleLifecycle, "a newer process of that RID was admitted before")
			return true, nil
		case ev.Refuse != 0:
			h.refuse(ev.Refuse, cmp.Or(ev.Detail, "this node does not take the peer now"))
			return true, nil
		}
	default:
		return true, ErrMisuse
	}
	return false, nil
}

// receive parses a record that is allowed now: want, or a reject, which it deals
// with itself. ok is false if the handshake is over.
func (h *half) receive(record []byte, want wire.Command) (body []byte, ok bool) {
	cmd, _, body, err := wire.Header(record)
	switch {
	case err != nil:
		h.refuse(wire.RejectProtocolError, err.Error())
	case cmd == wire.CmdReject:
		r, err := wire.DecodeReject(body)
		if err != nil {
			h.refuse(wire.RejectProtocolError, err.Error())
		} else {
			h.close(Close{Cause: RefusedByPeer, Reason: r.Reason, Detail: string(r.Text)})
		}
	case cmd != want:
		h.refuse(wire.RejectProtocolError, cmd.String()+" record in state "+h.state.String())
	default:
		return body, true
	}
	return nil, false
}

// hello takes the peer's hello and checks what needs no key. expect is the RID
// that the peer must have, expectMe whether its hello must name this node.
func (h *half) hello(record []byte, expectMe bool) bool {
	body, ok := h.receive(record, wire.CmdHello)
	if !ok {
		return false
	}
	p, err := wire.DecodeHello(body)
	if err != nil {
		h.refuse(wire.RejectProtocolError, err.Error())
		return false
	}
	version := min(p.MaxVersion, h.cfg.MaxVersion)
	switch {
	case string(p.Mesh) != h.cfg.Mesh, !h.cfg.Role.Meets(p.Role):
		h.refuse(wire.RejectBadMesh, "peer is of another mesh")
	case string(p.RID) == h.cfg.RID && !h.ownChannel(&p):
		h.refuse(wire.RejectSelfDial, "peer has this node's RID")
	case h.expect != "" && string(p.RID) != h.expect:
		h.refuse(wire.RejectWrongPeer, "peer is not the node that was dialled")
	case (expectMe || len(p.ExpectRID) > 0) && string(p.ExpectRID) != h.cfg.RID:
		h.refuse(wire.RejectWrongPeer, "peer looks for another node")
	case version < max(p.MinVersion, h.cfg.MinVersion):
		h.refuse(wire.RejectBadVersion, "no protocol version in common")
	default:
		h.peerHello = append([]byte(nil), record...)
		h.peer = Peer{RID: string(p.RID), Lifecycle: p.Lifecycle, Role: p.Role, Version: version}
		return true
	}
	return false
}

// ownChannel reports whether a peer that has this node's RID may be this very process: it is
// the server of a channel and one of its clients.
func (h *half) ownChannel(p *wire.Hello) bool {
	return p.Role > wire.RoleServer && p.Lifecycle == h.cfg.Lifecycle
}

// sendHello sends this node's hello.
func (h *half) sendHello(expect string) {
	hello := wire.Hello{
		MinVersion: h.cfg.MinVersion,
		MaxVersion: h.cfg.MaxVersion,
		Mesh:       []byte(h.cfg.Mesh),
		RID:        []byte(h.cfg.RID),
		Lifecycle:  h.cfg.Lifecycle,
		Role:       h.cfg.Role,
		Nonce:      h.nonce,
		ExpectRID:  []byte(expect),
	}
	h.ownHello = hello.AppendTo(nil)
	h.effects = append(h.effects, Effect{Kind: EffectSend, Record: append([]byte(nil), h.ownHello...)})
}

// sendAdmit proves this node to the peer.
func (h *half) sendAdmit() {
	a := wire.Admit{Window: h.cfg.Window, Version: h.peer.Version}
	a.MAC = h.mac(h.cfg.Keys[0], h.own, a.Window, a.Version)
	h.effects = append(h.effects, Effect{Kind: EffectSend, Record: a.AppendTo(nil)})
}

// admit takes the peer's admit and verifies it; if it is right, the shell is
// asked for its decision.
func (h *half) admit(record []byte) {
	body, ok := h.receive(record, wire.CmdAdmit)
	if !ok {
		return
	}
	a, err := wire.DecodeAdmit(body)
	switch {
	case err != nil:
		h.refuse(wire.RejectProtocolError, err.Error())
	case !h.verify(&a):
		h.refuse(wire.RejectBadKey, "MAC does not verify: another mesh key, or hellos changed on the way")
	case a.Version != h.peer.Version:
		h.refuse(wire.RejectBadVersion, "peer chose another version")
	default:
		h.state = Judging
		h.peer.Window = a.Window
		h.effects = append(h.effects, Effect{Kind: EffectVerified, Peer: h.peer})
	}
}

func (h *half) admitted() {
	h.state = Admitted
	h.effects = append(h.effects, Effect{Kind: EffectAdmitted, Peer: h.peer})
}

// refuse tells the peer the reason and nothing else, and ends the handshake.
func (h *half) refuse(reason wire.RejectReason, detail string) {
	r := wire.Reject{Reason: reason}
	h.effects = append(h.effects, Effect{Kind: EffectSend, Record: r.AppendTo(nil)})
	h.close(Close{Cause: Refused, Reason: reason, Detail: detail})
}

func (h *half) close(c Close) {
	h.state = Closed
	h.effects = append(h.effects, Effect{Kind: EffectClose, Close: c})
}
