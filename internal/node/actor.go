package node

import (
	"strings"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// objectCell is one Actor or Spot on its owner. Its mailbox's consumer
// decides what happens to messages: the cell itself while the object lives, a hold while
// it is created or destroyed, a refusal afterwards. So no message needs a lock or
// a look at a state to be treated rightly.
type objectCell struct {
	node     *Node
	typ      *ObjectType
	box      *mailbox.Mailbox[message]
	instance any          // owned by the claim
	gone     atomic.Bool  // it was ended, and takes nothing any more
	yields   atomic.Int32 // turns that have had a Yield and are not over
	fate     spotFate     // of a User or Instance Spot
	stored   bool         // it has a row in the Store; never changes
	dawn     bool         // it stands for an Instance Spot that is not yet; never changes
	moved    bool         // it is a Spot that came from another node; never changes
	ref      ActorRef
	context  ObjectContext

	// Who has taken the row owns these, but for reads of version and epoch; see rowLocks.
	version atomic.Uint64 // of the row
	epoch   atomic.Uint64 // of the Store, in which the row was last written; 0: it is not Ready yet
	rowSpot *objectCell   // the User Spot that an Actor's row names; nil: the Entry Spot

	// group is the gate that the object shares with others; nil: it has its own. The
	// claim's holder writes it.
	group atomic.Pointer[mailbox.Group]

	// spot is the User Spot of which an Actor is a member; nil: the Entry Spot. The claim's
	// holder writes it.
	spot atomic.Pointer[objectCell]

	// pressure is the latest word of what waits for the bound client; nil: none waits for the
	// Actor's turn.
	pressure atomic.Pointer[pressure]

	// away is the latest word that the bound client is away; nil: none waits for the Actor's
	// turn.
	away atomic.Pointer[bindingKey]

	// news is what a Spot has yet to be told of clients; nil: it is an Actor.
	news *spotNews

	// calm is to be run when yields is 0. Under the gate.
	calm atomic.Pointer[func(*turn)]

	// ready is of a SpotWide Spot.
	ready readiness

	// members is of a User Spot.
	members roster

	// Of Instance Spots.
	entrance *entrance    // of its queue; nil in tests of handlers
	used     atomic.Int64 // clock.Mono; when it was opened, or its last turn ended

	// tenure says whether the object is this node's to change: see there.
	tenure atomic.Uint32
	// parted: the object has moved, and is not followed for much longer. What is sent at this node
	// takes the present route.
	parted atomic.Bool

	// joining is the Actor's Join that is registered or runs; nil: none.
	joining atomic.Pointer[PendingJoin]

	// stuck is why an Actor does not go on; nil: it does.
	stuck atomic.Pointer[stuck]

	// Owned by the claim.
	current mailbox.Consumer[message]
	binding binding // of the Session that is bound; zero if none
	timers  *objectTimers
	sealing bool                   // its node moves it: its Session is asked to hold its packets, or does, and no other is bound
	closing bool                   // a Spot's OnClosing has begun
	topics  map[string]*subscriber // that a Spot subscribes to; never of an Actor
	began   uint64                 // subscriptions of the Spot
}

// What the object's row says of this node. The object's moves write it.
const (
	owned    uint32 = iota
	arriving        // it may become this node's
	leaving         // it is another's, or about to be; what comes for it is relayed
)

// newCell makes a cell whose messages go to held until it is released. The version is that
// of its row; 0: the Store knows nothing of it.
func (n *Node) newCell(t *ObjectType, ref ActorRef, version store.Version, held *hold) *objectCell {
	ref.Mesh, ref.RID = n.home.cfg.Name, n.cfg.RID // the same strings for all objects
	c := &objectCell{node: n, typ: t, ref: ref, stored: version != 0}
	c.version.Store(uint64(version))
	c.context.cell, held.cell = c, c
	if t.Kind != store.Actor {
		c.news = &spotNews{}
	}
	limits := n.queueLimits()
	if g := n.gateOf(t); g != nil {
		c.group.Store(g)
		c.box = mailbox.NewIn[message](g, held, limits)
	} else {
		c.box = mailbox.New[message](n.pool, held, limits)
	}
	c.current = held
	return c
}

// queueLimits are those of one object.
func (n *Node) queueLimits() mailbox.Limits {
	return mailbox.Limits{Messages: n.cfg.ObjectQueueMessages, Bytes: n.cfg.ObjectQueueBytes}
}

// become makes next the consumer of what follows. Only the claim's holder may
// call it.
func (c *objectCell) become(claim *mailbox.Claim[message], next mailbox.Consumer[message]) {
	c.current = next
	claim.Become(next)
}

// arrive admits a message that came over a connection.
func (c *objectCell) arrive(s sender, o *Outgoing, deadline clock.Mono, a *arrival) *Error {
	switch {
	case a.toSpot == (c.typ.Kind == store.Actor):
		return errKind("message", c.ref.ID, c.typ.Kind)
	case a.objGen != 0 && a.objGen != c.ref.ObjectGen:
		return fail(errkind.InvalidOperation, "message", c.ref.ID, "it is for incarnation %d, the object is %d", a.objGen, c.ref.ObjectGen)
	}
	return c.push(s, o, deadline, a)
}

// push admits a message; the error says that it was not taken. See message.fill.
func (c *objectCell) push(s sender, o *Outgoing, deadline clock.Mono, a *arrival) *Error {
	p := c.typ.packets[o.Name]
	if p == nil { // the object says so in its turn
		if err := checkName("message", c.ref.ID, o.Name); err != nil {
			return err
		}
		p = &packetType{name: strings.Clone(o.Name)}
	}
	place, err := c.box.Reserve(len(o.Name) + len(o.Metadata) + len(o.Payload))
	if err != nil {
		return errQueueFull
	}
	place.V.fill(p, s, o, deadline, a)
	c.saw(MessageAccepted, &place.V, nil)
	c.box.Enqueue(place)
	return nil
}

// Begin implements mailbox.Consumer.
func (c *objectCell) Begin(*mailbox.Claim[message]) {}

// Consume implements mailbox.Consumer: one message is one turn.
func (c *objectCell) Consume(claim *mailbox.Claim[message], m *message) {
	if j := c.joining.Load(); j != nil && c.raise(claim, j) {
		c.current.Consume(claim, m)
		return
	}
	if m.isControl() {
		m.control(&turn{node: c.node, cell: c, claim: claim})
		m.done()
		return
	}
	if err := c.mayRun(claim.Now(), m); err != nil {
		m.refuse(c.node, err)
		return
	}
	if m.kind == msgOffer {
		m.accept(c.node)
	}
	c.run(claim, m)
}

// mayRun checks what can have changed since the message was admitted: the
// node's right to act, the message's deadline, the Session's binding, the Spot's
// subscription.
func (c *objectCell) mayRun(now clock.Mono, m *message) *Error {
	switch {
	case !c.node.mayAct(now):
		return errNotOwner
	case now.Reached(m.deadline):
		return errNoReply
	case m.fromSession() && m.session != c.binding.key:
		return errBindingStale
	case m.kind == msgTopic && !c.subscribed(m):
		return errUnsubscribed
	}
	return nil
}

// turn is what framework work in an Actor's turn gets. If refused is set the
// Actor is gone and only the refusal may be passed on.
type turn struct {
	node    *Node
	cell    *objectCell
	claim   *mailbox.Claim[message]
	refused *Error
}

// control runs f in the Actor's turn, in order with its messages. It counts in
// the queue's budget, so that peers cannot fill memory with requests; the error
// says that f will not run.
func (c *objectCell) control(f func(*turn)) *Error {
	if c.box.Push(controlMessage(f), 0) != nil {
		return errQueueFull
	}
	return nil
}

// ended runs f in the Actor's turn, outside the budget: for the end of what was
// admitted before, of which there is one for each.
func (c *objectCell) ended(f func(*turn)) {
	c.box.PushControl(controlMessage(f))
}

func controlMessage(f func(*turn)) message {
	return message{sender: sender{kind: msgControl}, packet: noPacket, control: f, deadline: clock.Never}
}

// relayPacket is of the control message that brings a relayed one: see incoming. newsPacket is of
// one in which a Spot is told what is next of its spotNews.
var noPacket, stepPacket, relayPacket, newsPacket = new(packetType), new(packetType), new(packetType), new(packetType)

// step is ended for a step of a Spot's beginning or end, which runs while all else is held.
func (c *objectCell) step(f func(*turn)) {
	m := controlMessage(f)
	m.packet = stepPacket
	c.box.PushControl(m)
}

// hold keeps messages in order until the Actor's fate is known. What it keeps goes on to
// count in the mailbox's budget, so nothing that was accepted has to be refused for want
// of room.
type hold struct {
	held    []heldMessage
	counted int         // of those, what counts in the mailbox
	cell    *objectCell // whose steps run; nil: they wait too
}

type heldMessage struct {
	message
	kept   mailbox.Kept
	copied bool // the original is at another node
}

// Begin implements mailbox.Consumer.
func (h *hold) Begin(*mailbox.Claim[message]) {}

// Consume implements mailbox.Consumer.
func (h *hold) Consume(claim *mailbox.Claim[message], m *message) {
	if m.packet == stepPacket && h.cell != nil {
		m.control(&turn{node: h.cell.node, cell: h.cell, claim: claim})
		m.done()
		return
	}
	kept := claim.Keep()
	if kept.Counts() {
		h.counted++
	}
	h.held = append(h.held, heldMessage{message: m.take(), kept: kept})
}

// unread puts what is held in front of what is queued.
func (h *hold) unread(claim *mailbox.Claim[message]) {
	unread(claim, h.held)
	h.held, h.counted = nil, 0
}

func unread(claim *mailbox.Claim[message], held []heldMessage) {
	for i := len(held) - 1; i >= 0; i-- {
		claim.Unread(&held[i].message, held[i].kept)
	}
}

// accept tells the senders of offers that an open Spot has them.
func (h *hold) accept(n *Node) {
	now := clock.Now()
	for i := range h.held {
		if m := &h.held[i].message; m.kind == msgOffer && !now.Reached(m.deadline) {
			m.accept(n)
		}
	}
}

// release puts what was held back in front of the queue, with next as its consumer.
type release struct {
	cell *objectCell
	from *hold
	next mailbox.Consumer[message]
}

// Begin implements mailbox.Consumer.
func (r *release) Begin(claim *mailbox.Claim[message]) {
	if r.cell.gone.Load() { // it was ended while this was on its way
		(&ending{cell: r.cell, err: errGone}).Begin(claim)
		return
	}
	if r.next == mailbox.Consumer[message](r.cell) {
		r.cell.sawCallback(GateOpened, "", nil)
	}
	r.cell.become(claim, r.next)
	r.from.unread(claim)
}

// Consume implements mailbox.Consumer.
func (r *release) Consume(*mailbox.Claim[message], *message) {
	invariant.Check(false, "a release got a message; its Begin gives the mailbox on")
}

// refusal answers every message of an Actor that is gone.
type refusal struct {
	node *Node
	err  *Error
}

// Begin implements mailbox.Consumer.
func (r *refusal) Begin(*mailbox.Claim[message]) {}

// Consume implements mailbox.Consumer.
func (r *refusal) Consume(_ *mailbox.Claim[message], m *message) { m.refuse(r.node, r.err) }

// refuseAll makes err the answer to everything that waits for the cell and to
// everything that still comes.
func (c *objectCell) refuseAll(err *Error) {
	if c.dawn && err == errGone {
		err = errNotHere // its place is another object's, of which the senders read
	}
	c.gone.Store(true)
	c.box.Seal(&ending{cell: c, err: err})
}

// ending has what the present consumer holds refused, then everything later.
type ending struct {
	cell *objectCell
	err  *Error
}

// Begin implements mailbox.Consumer.
func (e *ending) Begin(claim *mailbox.Claim[message]) {
	before := e.cell.current
	e.cell.sawCallback(GateClosed, "", nil)
	e.cell.become(claim, &refusal{node: e.cell.node, err: e.err})
	if h, ok := before.(keeper); ok {
		h.unread(claim)
	}
	if f := e.cell.calm.Swap(nil); f != nil {
		(*f)(&turn{node: e.cell.node, refused: e.err})
	}
	e.cell.vacate()
}

// vacate ends what is of the object at this node. Under its claim.
func (c *objectCell) vacate() {
	c.gone.Store(true)
	c.fenceTimers()
	c.unsubscribe()
	if before := c.binding; before.key.gen != 0 {
		c.bind(binding{})
		if c.tenure.Load() == owned && before.stands() { // else it is at another node, with its binding
			c.node.tellEnded(before, &c.ref)
		}
	}
	if spot := c.spot.Swap(nil); spot != nil {
		spot.memberLeft()
	}
	c.instance = nil
}

// Consume implements mailbox.Consumer.
func (e *ending) Consume(*mailbox.Claim[message], *message) {
	invariant.Check(false, "an ending got a message; its Begin gives the mailbox on")
}
