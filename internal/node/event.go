package node

// Event is something that happened to an object, or to a message for one.
type Event struct {
	Is      EventKind
	Ref     ActorRef // zero for a message that was refused
	Type    string
	What    string // the packet's name or the callback's
	Payload []byte // of a message; valid during the call
	Err     error
}

// EventKind says what happened.
type EventKind uint8

// The kinds.
const (
	TurnBegan       EventKind = iota + 1 // of a message, or a callback
	TurnEnded                            // and nothing was answered yet
	MessageAccepted                      // the object's queue takes it
	MessageRefused                       // after it was accepted: it will not run
	GateOpened                           // messages have turns from here on
	GateClosed                           // they do not
	BoundaryCrossed                      // a move's source will never run the object again
)

// saw tells the test that watches, if one does, of a message.
func (a *objectCell) saw(is EventKind, m *message, err *Error) {
	if a.node.cfg.Observe != nil {
		a.observed(is, m.packet.name, m.body(), err)
	}
}

// sawCallback is saw for what is about no message.
func (a *objectCell) sawCallback(is EventKind, what string, err *Error) {
	if a.node.cfg.Observe != nil {
		a.observed(is, what, nil, err)
	}
}

func (a *objectCell) observed(is EventKind, what string, payload []byte, err *Error) {
	e := Event{Is: is, Ref: a.ref, Type: a.typ.Name, What: what, Payload: payload}
	if err != nil {
		e.Err = err
	}
	a.node.cfg.Observe(&e)
}

// sawRefused is saw for a message that was refused after it was accepted.
func (n *Node) sawRefused(m *message, err *Error) {
	if n.cfg.Observe != nil {
		n.cfg.Observe(&Event{Is: MessageRefused, What: m.packet.name, Payload: m.body(), Err: err})
	}
}
