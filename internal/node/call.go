package node

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/internal/sparse"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// ObjectContext is what an Actor or a Spot knows of itself, for as long as it lives. Its
// methods are safe for concurrent use.
type ObjectContext struct {
	cell *objectCell
	// Outer is the public package's view of this value.
	Outer any
}

// Ref returns the Actor's identity and place.
func (a *ObjectContext) Ref() ActorRef { return a.cell.ref }

// Type returns the Actor's stable type.
func (a *ObjectContext) Type() string { return a.cell.typ.Name }

// SpotID returns the id of the Spot that the Actor is in.
func (a *ObjectContext) SpotID() string {
	if spot := a.cell.spot.Load(); spot != nil {
		return spot.ref.ID
	}
	return a.cell.node.entryID
}

// Node returns the node that the Actor lives on.
func (a *ObjectContext) Node() *Node { return a.cell.node }

// Call is one message in its Actor's turn. It is a context.Context that ends
// with the turn, and is used again afterwards: nobody may keep it.
type Call struct {
	turnContext
	message   *message
	home      *any          // where it is kept between turns: see mailbox.Claim.Local
	registers bool          // a handler, while it runs, that may register Joins
	turn      atomic.Uint64 // the number of turns that are over, to tell those of a Call that is used again apart
	// Outer is the public package's view of this value.
	Outer any
}

// Object returns the Actor or Spot whose turn it is.
func (c *Call) Object() *ObjectContext {
	mustBeInTurn(c.cell != nil)
	return &c.cell.context
}

// mustBeInTurn tells a programmer who kept a call what is wrong.
func mustBeInTurn(ok bool) {
	if !ok {
		panic("zlnode: a call was used after its turn; for a goroutine take Actor() or Spot() before, and use its ID and Node")
	}
}

// Name returns the packet's name; "" in timers and callbacks.
func (c *Call) Name() string {
	mustBeInTurn(c.message != nil)
	return c.message.packet.name
}

// Metadata returns the application's encoded metadata, a view that is valid during the turn.
func (c *Call) Metadata() []byte {
	mustBeInTurn(c.message != nil)
	return applicationMetadata(c.message)
}

// Codec returns the number of the payload's codec.
func (c *Call) Codec() uint8 {
	mustBeInTurn(c.message != nil)
	return c.message.codec
}

// FromSession reports whether the message came from the client of the bound Session.
func (c *Call) FromSession() bool {
	mustBeInTurn(c.message != nil)
	return c.message.fromSession()
}

// Bound reports whether a Session is bound to the Actor.
func (c *Call) Bound() bool {
	mustBeInTurn(c.cell != nil)
	return c.cell.binding.stands() && !c.cell.gone.Load()
}

// begin makes the Call of a turn.
func (a *objectCell) begin(claim *mailbox.Claim[message], m *message, deadline clock.Mono) *Call {
	home := claim.Local()
	c, _ := (*home).(*Call)
	if c == nil {
		c = new(Call)
	}
	*home = nil
	c.node, c.cell, c.gate, c.deadline = a.node, a, claim, deadline
	c.message, c.home = m, home
	a.ready.stands = false
	c.enter(m.metadata())
	return c
}

// over ends the turn's Call. Who kept it or a Registration for a Join finds it over.
func (c *Call) over() {
	home, a := c.home, c.cell
	c.registers = false
	c.joins.drop()
	if a.typ.Kind == store.InstanceSpot {
		a.used.Store(int64(clock.Now()))
	}
	if c.yielded && a.yields.Add(-1) == 0 {
		if f := a.calm.Swap(nil); f != nil {
			a.step(func(t *turn) { a.calmly(t, *f) })
		}
	}
	c.turn.Add(1)
	c.message, c.home = nil, nil // a later message takes its place
	if reusable := c.end(); reusable && c.joins == nil {
		c.node, c.cell, c.yielded, c.ready, c.flow, c.span, c.traced = nil, nil, false, false, flow.Context{}, nil, nil // the rest is so, or set by the next turn
		*home = c
	}
}

// run is the object's turn for one application message.
func (a *objectCell) run(claim *mailbox.Claim[message], m *message) {
	a.saw(TurnBegan, m, nil)
	c, ended := a.begin(claim, m, m.deadline), false
	c.registers = a.typ.Kind != store.InstanceSpot
	if a.node.cfg.Tracer != nil {
		c.traceMessage()
	}
	defer func() {
		if ended {
			return
		}
		if v := recover(); v != nil {
			a.ran(c, m, Reply{}, a.node.panicked("actor", a.ref.ID, 1, &c.flow, v))
			return
		}
		failSpan(c.span, errTurnEnded)
		a.saw(TurnEnded, m, errTurnEnded) // the handler ended its goroutine
		c.over()
		a.answer(m, Reply{}, errTurnEnded)
		m.done()
	}()
	r, err := a.handle(c, m)
	ended = true
	a.ran(c, m, r, err)
}

// handle runs the packet's handler.
func (a *objectCell) handle(c *Call, m *message) (r Reply, _ *Error) {
	var err error
	p := m.packet
	if p.send == nil && p.request == nil { // it may have come before the Actor's type was known
		if known := a.typ.packets[p.name]; known != nil {
			p = known
		}
	}
	switch {
	case m.asks() && p.request != nil:
		r, err = p.request(c, a.instance, m.body())
	case m.asks():
		return r, fail(errkind.NotFound, "request", a.ref.ID, "type %q has no request handler %q", a.typ.Name, p.name).ofDefect()
	case p.send != nil:
		err = p.send(c, a.instance, m.body())
	default:
		return r, fail(errkind.NotFound, "send", a.ref.ID, "type %q has no send handler %q", a.typ.Name, p.name)
	}
	if err != nil {
		return r, asError(err)
	}
	return r, nil
}

// ran ends the turn. It has ended normally if there is no error and a reply can be
// encoded. A deadline that passed or a caller that went away is none of the handler's
// failures, unless it returned that as one (JN-04).
func (a *objectCell) ran(c *Call, m *message, r Reply, err *Error) {
	if err == nil && len(r.Payload) > payloadBytesMax && m.asks() {
		err = fail(errkind.CapacityExceeded, "reply", "", "a reply of %d bytes is over the limit of %d", len(r.Payload), payloadBytesMax).ofDefect()
	}
	failSpan(c.span, err)
	a.saw(TurnEnded, m, err)
	var joins []*PendingJoin
	if err == nil {
		joins = c.joins.raise()
	}
	a.answer(m, r, err)
	activate(joins)
	ready := c.ready && err == nil
	c.over()
	if ready {
		a.saysReady()
	}
	m.done()
}

// noMessage is what a callback's Call shows. Nobody writes it.
var noMessage = controlMessage(nil)

// callback runs f, application code that no message asks for, in the object's turn. A
// failure is logged and counted.
func (a *objectCell) callback(claim *mailbox.Claim[message], what string, deadline clock.Mono, f func(c *Call) error) *Error {
	return a.callbackAgain(claim, what, deadline, nil, nil, f)
}

// tries counts those of a callback that runs until it succeeds. Of its failures the 1st, 2nd,
// 4th, 8th and so on are logged, with their number.
type tries int

// next counts another one. A nil value is of a callback that runs once.
func (t *tries) next() tries {
	if t == nil {
		return 1
	}
	*t++
	return *t
}

func (t tries) logged() bool { return t&(t-1) == 0 }

// callbackAgain is callback for one that has been tried before, or that belongs to a flow, of which
// the turn is then.
func (a *objectCell) callbackAgain(
	claim *mailbox.Claim[message], what string, deadline clock.Mono, of *flow.Context, before *tries, f func(c *Call) error,
) *Error {
	a.sawCallback(TurnBegan, what, nil)
	try := before.next()
	c, ready := a.begin(claim, &noMessage, deadline), false
	defer func() { // also if it ends its goroutine
		if c.over(); ready {
			a.saysReady()
		}
	}()
	if of != nil {
		if c.flow = *of; a.node.cfg.Tracer != nil {
			c.traceCallback(what)
		}
	}
	err := guardTry(a.node, "object", a.ref.ID, try, of, func() error { return f(c) })
	failSpan(c.span, err)
	a.failedTry(what, try, err)
	a.sawCallback(TurnEnded, what, err)
	if err == nil {
		activate(c.joins.raise())
		ready = c.ready
	}
	return err
}

// failed logs and counts what application code did not do, if err is not nil.
func (a *objectCell) failed(what string, err *Error) { a.failedTry(what, 1, err) }

func (a *objectCell) failedTry(what string, try tries, err *Error) {
	if err == nil {
		return
	}
	a.node.counters.failedCallbacks.Add(1)
	if !try.logged() {
		return
	}
	line := a.node.log.Warn().Str("object", clip(a.ref.ID)).Str("callback", clip(what))
	if try > 1 {
		line.Int("tries", int(try))
	}
	line.Str("error", clip(err.Error())).Msg("a callback failed")
}

// make makes the object's value. A failure is logged, as who asked for the object may be
// told no more than its kind.
func (a *objectCell) make() *Error {
	err := guard(a.node, "object", a.ref.ID, func() (e error) {
		a.instance, e = a.typ.Factory(&a.context)
		return e
	})
	a.failed("factory", err)
	return err
}

// answer ends the message towards its sender.
func (a *objectCell) answer(m *message, r Reply, err *Error) {
	switch {
	case !m.asks():
		if err != nil {
			a.node.counters.failedSends.Add(1)
			a.sayFailed(m, err, &a.node.said.actorSendFailed, "a send handler failed")
		}
	case err != nil:
		if err.tellsOfDefect() {
			a.node.counters.failedRequests.Add(1)
			a.sayFailed(m, err, &a.node.said.actorRequestFailed, "a request failed by its handler, or by who asked")
		}
		m.fail(a.node, err)
	default:
		m.reply(a.node, r.Codec, r.Payload)
	}
}

// sayFailed logs that the handler of a message failed. Of those of clients a line is written
// once a second, and at level Debug if the client alone has caused it.
func (a *objectCell) sayFailed(m *message, err *Error, said *sparse.Line, what string) {
	line := a.node.log.Warn()
	switch {
	case !m.fromSession():
	case err.Kind == errkind.ProtocolError && err.isSenders():
		line = a.node.log.Debug()
	default:
		left, ok := said.Take(clock.Now())
		if !ok {
			return
		}
		line.Int64("left_out", left)
	}
	f := messageFlow(m)
	logFlow(line.Str("actor", clip(a.ref.ID)).Str("packet", clip(m.packet.name)), &f).Str("error", clip(err.Error())).Msg(what)
}

// guard runs application code of an object: its error gets a kind, its panic
// becomes an InternalFailure.
func guard(n *Node, what, id string, f func() error) *Error { return guardTry(n, what, id, 1, nil, f) }

// guardTry is guard for a try of more, or for what belongs to a flow, nil if it does not.
func guardTry(n *Node, what, id string, try tries, of *flow.Context, f func() error) (err *Error) {
	defer func() {
		if v := recover(); v != nil {
			err = n.panicked(what, id, try, of, v)
		}
	}()
	if e := f(); e != nil {
		return asError(e)
	}
	return nil
}

// panicked notes a panic of application code and returns what its caller is told. Called
// where it was recovered.
func (n *Node) panicked(what, id string, try tries, of *flow.Context, v any) *Error {
	n.counters.panics.Add(1)
	if left, ok := n.said.panicked(try); ok {
		logFlow(n.log.Error().Str(what, clip(id)), of).Str("panic", clip(fmt.Sprint(v))).Bytes("stack", debug.Stack()).Int64("left_out", left).
			Msg("application code panicked")
	}
	return fail(errkind.InternalFailure, "", id, "the handler panicked")
}
