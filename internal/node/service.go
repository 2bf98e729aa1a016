package node

import (
	"runtime"
	"sync"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
)

// ServiceType is what the application does with messages to a channel, or to the node itself.
type ServiceType struct {
	Channel string // "": the node itself
	Options ServiceOptions
	packets map[string]*servicePacket
	filters []Filter
}

// ServiceOptions bound what a service does at once and has waiting. 0 is the default.
type ServiceOptions struct {
	Concurrency   int // handlers at once; default GOMAXPROCS
	QueueMessages int
	QueueBytes    int64
}

// servicePacket is what a service does with the packets of a name.
type servicePacket struct {
	name    string
	send    NodeSendHandler    // nil: it takes none
	request NodeRequestHandler // nil: it takes none
}

// NodeSendHandler and NodeRequestHandler run on a worker, several at once. The payload is
// valid during the call; so must the reply's be, which is copied when the call has ended.
type (
	NodeSendHandler    func(c *NodeCall, payload []byte) error
	NodeRequestHandler func(c *NodeCall, payload []byte) (Reply, error)
)

// Filter runs around the handlers of a service; next runs what is inside of it, once.
type Filter func(c *NodeCall, next func() error) error

func newServiceType(channel string) *ServiceType {
	return &ServiceType{Channel: channel, packets: map[string]*servicePacket{}}
}

// what names the service in texts.
func (t *ServiceType) what() string {
	if t.Channel == "" {
		return "the node"
	}
	return "channel " + t.Channel
}

// AddChannel registers what the application does with messages to a channel.
func (a *App) AddChannel(name string, o ServiceOptions) *ServiceType {
	t := newServiceType(name)
	if !wire.ValidID(name) {
		a.Fail("channel %q: a channel name has 1 to %d bytes of UTF-8", name, idBytesMax)
	}
	if a.Channels[name] != nil {
		a.Fail("channel %q is defined twice", name)
	}
	a.SetServiceOptions(t, o)
	a.Channels[name] = t
	return t
}

// SetServiceOptions sets the options of a service, which must be in their bounds.
func (a *App) SetServiceOptions(t *ServiceType, o ServiceOptions) {
	if o.Concurrency < 0 || o.Concurrency > serviceConcurrencyMax {
		a.Fail("Concurrency %d of %s is not in 1 to %d, nor 0 for the default", o.Concurrency, t.what(), serviceConcurrencyMax)
	}
	if o.QueueMessages < 0 || o.QueueMessages > objectQueueMessagesMax {
		a.Fail("QueueMessages %d of %s is not in 1 to %d, nor 0 for the default", o.QueueMessages, t.what(), objectQueueMessagesMax)
	}
	if o.QueueBytes != 0 && (o.QueueBytes < objectQueueBytesMin || o.QueueBytes > objectQueueBytesMax) {
		a.Fail("QueueBytes %d of %s is not in %d to %d, nor 0 for the default", o.QueueBytes, t.what(), objectQueueBytesMin, int64(objectQueueBytesMax))
	}
	t.Options = o
}

func (t *ServiceType) packet(name string) *servicePacket {
	p := t.packets[name]
	if p == nil {
		p = &servicePacket{name: name}
		t.packets[name] = p
	}
	return p
}

// OnNodeSend registers the handler of a one-way packet of t, a service of a's.
func (a *App) OnNodeSend(t *ServiceType, name string, h NodeSendHandler) {
	p := t.packet(name)
	a.CheckName("send", t.what(), name, p.send != nil)
	p.send = h
}

// OnNodeRequest registers the handler of a request to t, a service of a's.
func (a *App) OnNodeRequest(t *ServiceType, name string, h NodeRequestHandler) {
	p := t.packet(name)
	a.CheckName("request", t.what(), name, p.request != nil)
	p.request = h
}

// AddFilter puts f inside of the filters that t has already.
func (t *ServiceType) AddFilter(f Filter) { t.filters = append(t.filters, f) }

// services are those of a node. They do not change after the start.
type services struct {
	own      *service // of messages to the node itself
	channels map[string]*service
}

func (n *Node) openServices() {
	n.services = services{own: n.newService(n.app.Node), channels: map[string]*service{}}
	for _, c := range n.cfg.Channels {
		s := n.newService(n.app.Channels[c.Name])
		if s.mesh = n.home; c.Mesh != "" {
			s.mesh = n.meshNamed(c.Mesh)
		}
		n.services.channels[c.Name] = s
	}
	for _, m := range n.sides {
		if m.side == serverSide {
			s := n.newService(n.app.Channels[m.named()])
			s.mesh, n.services.channels[m.named()] = m, s
		}
	}
}

// of returns the service of a channel that this node serves, or the node's own, or nil.
func (s *services) of(channel []byte) *service {
	if len(channel) == 0 {
		return s.own
	}
	return s.channels[string(channel)]
}

func (s *services) each(f func(*service)) {
	if s.own == nil {
		return // the node did not come as far
	}
	f(s.own)
	for _, c := range s.channels {
		f(c)
	}
}

// busy returns how many messages wait or have a handler.
func (s *services) busy() (n int64) {
	s.each(func(c *service) {
		c.mu.Lock()
		n += int64(c.waiting.len + c.running)
		c.mu.Unlock()
	})
	return n
}

// service is a channel's part at this node, or the node's own: a queue of what has come, and
// the runners of its handlers. Messages start in the order in which they came.
//
// Invariant: while a message waits, each runner has a message, or is on its way to the queue
// and looks again before it is idle. For it is idle under the lock only, with nothing that
// waits, and what comes then wakes one.
type service struct {
	mesh *mesh // in which it is served; nil: in all, it is the node's own
	node *Node
	typ  *ServiceType
	opt  ServiceOptions // all are set

	mu      sync.Mutex
	waiting serviceQueue
	bytes   int64     // what waits costs
	granted int64     // of the pool's budget, for that
	idle    []*runner // the last that came is the first that goes
	running int       // messages that have a handler
	closed  bool
}

func (n *Node) newService(t *ServiceType) *service {
	o := t.Options
	if o.Concurrency == 0 {
		o.Concurrency = runtime.GOMAXPROCS(0)
	}
	if o.QueueMessages == 0 {
		o.QueueMessages = serviceQueueMessages
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = serviceQueueBytes
	}
	s := &service{node: n, typ: t, opt: o}
	for range o.Concurrency {
		r := &runner{service: s}
		r.box = mailbox.New[struct{}](n.pool, r, mailbox.Limits{})
		s.idle = append(s.idle, r)
	}
	return s
}

// nodeMessage admits a message of a link. owner keeps what o says valid.
func (l *linkConn) nodeMessage(m *wire.NodeMessage, owner *buf.Buf, paid uint32) {
	s := sender{kind: msgSend, link: l, paid: paid, corr: m.Correlation}
	if m.Correlation != 0 {
		s.kind = msgRequest
	}
	to := l.node.services.of(m.Channel)
	var err *Error
	switch {
	case to == nil || to.mesh != nil && to.mesh != l.mesh:
		err = fail(errkind.NotFound, "", "", "node %s does not serve the channel", l.node.cfg.RID)
	case to.mesh == nil && l.node.stopping.Load(), to.mesh != nil && l.node.servesNoMore():
		err = errStoppingThere // of a channel who asks has been told by its weight
	default:
		o := Outgoing{Name: buf.View(m.Name), Codec: m.Codec, Metadata: m.Metadata, Payload: m.Payload}
		err = to.push(s, &o, deadlineAfter(m.DeadlineMS), &arrival{owner: owner})
	}
	if err != nil {
		s.refuse(l.node, err)
		s.giveBack()
	}
}

// push admits a message; the error says that it was not taken. See message.fill.
func (s *service) push(from sender, o *Outgoing, deadline clock.Mono, a *arrival) *Error {
	p := s.typ.packets[o.Name]
	switch asks := from.kind == msgRequest; {
	case p == nil, asks && p.request == nil, !asks && p.send == nil:
		return s.unknown(from.kind, o.Name)
	}
	cost := int64(messageCost + len(o.Metadata) + len(o.Payload))
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		if from.link != nil {
			return errStoppingThere
		}
		return errStopping
	case !s.hasRoom(cost):
		s.mu.Unlock()
		return s.full(from.link != nil)
	}
	m := s.waiting.push()
	m.packet, m.cost = p, cost
	m.fill(nil, from, o, deadline, a)
	s.bytes += cost
	var wake *runner
	if last := len(s.idle) - 1; last >= 0 {
		wake, s.idle = s.idle[last], s.idle[:last]
	}
	s.mu.Unlock()
	if wake != nil {
		wake.box.PushControl(struct{}{})
	}
	return nil
}

// hasRoom takes room for a message in the budgets, if it is there. The caller holds mu.
func (s *service) hasRoom(cost int64) bool {
	if s.waiting.len >= s.opt.QueueMessages || s.bytes+cost > s.opt.QueueBytes {
		return false
	}
	need := s.bytes + cost - s.granted
	if need <= 0 {
		return true
	}
	if more := max(need, serviceGrant); s.node.pool.Take(more) {
		s.granted += more
		return true
	}
	if !s.node.pool.Take(need) {
		return false
	}
	s.granted += need
	return true
}

// begin takes what has waited longest, for a runner, which ends it by rest.
func (s *service) begin(into *served) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.take(into) {
		return false
	}
	s.running++
	return true
}

// take takes what has waited longest. The caller holds mu.
func (s *service) take(into *served) bool {
	if s.waiting.len == 0 {
		return false
	}
	s.waiting.pop(into)
	s.bytes -= into.cost
	if s.waiting.len == 0 && s.granted > 0 {
		s.node.pool.Give(s.granted)
		s.granted = 0
	}
	return true
}

// close takes nothing more, and refuses what still waits.
func (s *service) close() {
	s.mu.Lock()
	s.closed = true
	left := make([]served, s.waiting.len)
	for i := range left {
		s.take(&left[i])
	}
	s.mu.Unlock()
	for i := range left {
		err := errStopping
		if left[i].sender.link != nil { // for who asks, a node that is not ready (FO-06)
			err = errStoppedThere
		}
		left[i].sender.refuse(s.node, err)
		left[i].done()
	}
}

func (s *service) unknown(kind messageKind, name string) *Error {
	what := "send"
	if kind == msgRequest {
		what = "request"
		s.node.counters.failedRequests.Add(1)
	}
	err := fail(errkind.NotFound, "", "", "%s has no %s handler %q at node %s", s.typ.what(), what, name, s.node.cfg.RID).ofDefect()
	s.sayFailed(name, err, "a message to a channel or node has no handler")
	return err
}

// sayFailed logs that a message was not handled as it should, once a second.
func (s *service) sayFailed(packet string, err *Error, what string) {
	if left, ok := s.node.said.serviceFailed.Take(clock.Now()); ok {
		s.node.log.Warn().Str("channel", clip(s.typ.Channel)).Str("packet", clip(packet)).Str("error", clip(err.Error())).
			Int64("left_out", left).Msg(what)
	}
}

// full says that the queue is, once a second to the log.
func (s *service) full(there bool) *Error {
	if left, ok := s.node.said.serviceFull.Take(clock.Now()); ok {
		s.node.log.Warn().Str("channel", clip(s.typ.Channel)).Int64("left_out", left).Msg("the queue of a channel, or of the node's messages, is full; what comes is refused")
	}
	if there {
		return errServiceFullThere
	}
	return errServiceFull
}
