package node

import (
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/mailbox"
)

// runner runs handlers of a service, one at a time. Its mailbox gives it workers and lends
// their places while a handler waits; what is in there says only that it shall look into the
// service's queue.
type runner struct {
	service *service
	box     *mailbox.Mailbox[struct{}]

	// Owned by the claim.
	now  served    // that is handled
	call *NodeCall // that no turn has; nil: make one
}

// Begin implements mailbox.Consumer.
func (r *runner) Begin(*mailbox.Claim[struct{}]) {}

// Consume implements mailbox.Consumer: one message is one turn.
func (r *runner) Consume(claim *mailbox.Claim[struct{}], _ *struct{}) {
	began := r.service.begin(&r.now)
	defer r.rest(began) // also if the handler ends its goroutine
	if !began {
		return
	}
	if claim.Now().Reached(r.now.deadline) {
		r.now.sender.refuse(r.service.node, errNoReply)
		r.now.done()
		return
	}
	r.run(claim)
}

// rest is idle if nothing waits. Else the next message is the next turn, before which
// others may have theirs.
func (r *runner) rest(ended bool) {
	s := r.service
	s.mu.Lock()
	if ended {
		s.running--
	}
	more := s.waiting.len > 0
	if !more {
		s.idle = append(s.idle, r)
	}
	s.mu.Unlock()
	if more {
		r.box.PushControl(struct{}{})
	}
}

// NodeCall is one message in its handler. It is a context.Context that ends with it, and is
// used again afterwards: nobody may keep it.
type NodeCall struct {
	turnContext
	served  *served
	service *service
	step    int   // of the filters and the handler, in this order: which one is next
	reply   Reply // of a request that was handled
	handled bool
	next    func() error // c.proceed, made once
	// Outer is the public package's view of this value.
	Outer any
}

func (c *NodeCall) inTurn() *served {
	mustBeInTurn(c.served != nil)
	return c.served
}

// Name returns the packet's name.
func (c *NodeCall) Name() string { return c.inTurn().packet.name }

// Metadata returns the application's encoded metadata, a view that is valid during the turn.
func (c *NodeCall) Metadata() []byte { return applicationMetadata(&c.inTurn().message) }

// Codec returns the number of the payload's codec.
func (c *NodeCall) Codec() uint8 { return c.inTurn().codec }

// Asks reports whether the message is a request.
func (c *NodeCall) Asks() bool { return c.inTurn().asks() }

// Channel returns the channel's name; "": the message is to the node itself.
func (c *NodeCall) Channel() string {
	c.inTurn()
	return c.service.typ.Channel
}

// From returns the RID of the node that sent the message, which has proved it.
func (c *NodeCall) From() string {
	if l := c.inTurn().link; l != nil {
		return l.peer.RID
	}
	return c.node.cfg.RID
}

// Mesh returns the name of the mesh by which the message came, "" if by a connection of the
// channel's own; of one of this node's own it is that of its objects.
func (c *NodeCall) Mesh() string {
	if l := c.inTurn().link; l != nil {
		return l.mesh.meshName()
	}
	return c.node.home.cfg.Name
}

// Node returns the node that handles the message.
func (c *NodeCall) Node() *Node {
	c.inTurn()
	return c.node
}

// begin makes the call of a turn.
func (r *runner) begin(claim *mailbox.Claim[struct{}]) *NodeCall {
	c := r.call
	if c == nil {
		c = new(NodeCall)
		c.next = c.proceed
	}
	r.call = nil
	c.node, c.gate, c.deadline, c.accepted = r.service.node, claim, r.now.deadline, true
	c.served, c.service, c.flow = &r.now, r.service, messageFlow(&r.now.message)
	return c
}

// over ends the call.
func (r *runner) over(c *NodeCall) {
	c.served, c.step, c.handled, c.reply = nil, 0, false, Reply{}
	if c.end() {
		c.node, c.flow, c.span, c.traced = nil, flow.Context{}, nil, nil
		r.call = c
	}
}

// run is the turn of a message.
func (r *runner) run(claim *mailbox.Claim[struct{}]) {
	c, ended := r.begin(claim), false
	if c.node.cfg.Tracer != nil {
		c.traceMessage()
	}
	defer func() {
		if ended {
			return
		}
		err := errTurnEnded // the handler ended its goroutine
		if v := recover(); v != nil {
			err = c.node.panicked("service", r.service.typ.what(), 1, &c.flow, v)
		}
		r.ran(c, err)
	}()
	var failure *Error
	switch err := c.proceed(); {
	case err != nil:
		failure = asError(err)
	case !r.now.asks():
	case !c.handled:
		failure = fail(errkind.InternalFailure, "", "", "a filter has neither let the request through nor returned an error")
	case len(c.reply.Payload) > payloadBytesMax:
		failure = fail(errkind.CapacityExceeded, "reply", "", "a reply of %d bytes is over the limit of %d", len(c.reply.Payload), payloadBytesMax).ofDefect()
	}
	ended = true
	r.ran(c, failure)
}

// proceed runs the next filter, or the handler.
func (c *NodeCall) proceed() error {
	s := c.inTurn()
	step, filters := c.step, c.service.typ.filters
	c.step++
	switch {
	case step < len(filters):
		return filters[step](c, c.next)
	case step > len(filters):
		return fail(errkind.InvalidOperation, "", "", "a filter has called next twice")
	case !s.asks():
		err := s.packet.send(c, s.body())
		c.handled = err == nil
		return err
	}
	reply, err := s.packet.request(c, s.body())
	if err != nil {
		return err
	}
	c.reply, c.handled = reply, true
	return nil
}

// ran ends the turn, and the message towards its sender.
func (r *runner) ran(c *NodeCall, err *Error) {
	n, m := r.service.node, &r.now
	failSpan(c.span, err)
	switch {
	case err == nil && m.asks():
		m.sender.reply(n, c.reply.Codec, c.reply.Payload)
	case err == nil:
	case m.asks():
		if err.tellsOfDefect() {
			n.counters.failedRequests.Add(1)
			r.service.sayFailed(m.packet.name, err, "a request to a channel or node failed by its handler, or by who asked")
		}
		m.fail(n, err)
	default:
		n.counters.failedSends.Add(1)
		r.service.sayFailed(m.packet.name, err, "a send handler of a channel or node failed")
	}
	r.over(c)
	m.done()
}
