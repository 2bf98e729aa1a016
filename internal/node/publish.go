package node

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
)

const opPublish = "publish"

// Published is what became of a message to a topic.
type Published struct {
	Nodes  int // other nodes with subscribers whose link has taken it
	Local  int // subscribers at this node whose queue has taken it
	Missed int // nodes and subscribers of this node that had no room for it
}

// TopicTarget is a topic in a mesh; "" is that of this node's objects.
type TopicTarget struct{ Name, Mesh string }

// topicMesh returns the mesh of a topic.
func (n *Node) topicMesh(to TopicTarget) (*mesh, *Error) {
	if to.Mesh == "" {
		return n.home, nil
	}
	if m := n.meshNamed(to.Mesh); m != nil {
		return m, nil
	}
	return nil, &Error{Kind: errkind.NotFound, Text: "this node is not in mesh " + to.Mesh}
}

// Publish sends a message to all subscribers of a topic: to this node's, and by one record
// to each linked node that has some. It waits for nobody: who has no room misses it.
func (n *Node) Publish(ctx context.Context, to TopicTarget, o *Outgoing) (Published, error) {
	name := to.Name
	m, err := n.topicMesh(to)
	if err == nil {
		err = fenced(ctx)
	}
	if err == nil {
		err = checkTopic(opPublish, name)
	}
	if err == nil {
		err = checkContent(opPublish, name, o.Name, o.Metadata, o.Payload)
	}
	if err == nil && n.stopping.Load() {
		err = errStopping
	}
	if err != nil {
		return Published{}, err.of(opPublish, name)
	}
	if n.belongs(ctx) {
		with := *o
		meta, b, span := n.leave(ctx, trace.SpanKindProducer, opPublish, name, o.Name, o.Metadata)
		defer endSpan(span, nil)
		defer b.Free()
		with.Metadata, o = meta, &with
	}
	var p Published
	links, subscribers := m.topics.elsewhere.Of(name), m.topics.here.Of(name)
	if len(links) == 0 {
		p.Local, p.Missed = n.spread(subscribers, o, nil)
		return p, nil
	}
	record := encodePublish(name, o)
	defer record.Free()
	p.Nodes, p.Missed = n.toNodes(links, record)
	if len(subscribers) > 0 {
		shared, content := *o, record.Bytes()
		end := len(content) - len(o.Payload)
		shared.Metadata, shared.Payload = content[end-len(o.Metadata):end:end], content[end:]
		local, missed := n.spread(subscribers, &shared, record)
		p.Local, p.Missed = local, p.Missed+missed
	}
	return p, nil
}

func encodePublish(name string, o *Outgoing) *buf.Buf {
	p := wire.Publish{Topic: []byte(name), Name: []byte(o.Name), Codec: o.Codec, Metadata: o.Metadata, Payload: o.Payload}
	b := buf.Get(p.Size())
	p.AppendTo(b.Bytes()[:0])
	return b
}

// toNodes gives the record, which all share, to each link that is in use and has credit.
func (n *Node) toNodes(links []*linkConn, record *buf.Buf) (took, missed int) {
	for _, l := range links {
		if !l.inUse() { // a new one has taken its place, or its node is gone
			continue
		}
		switch taken, err := l.sendNow(record.Ref()); {
		case !taken:
			record.Free()
			missed++
		case err != nil: // the link has freed it
			missed++
		default:
			took++
		}
	}
	n.counters.publishesSent.Add(uint64(took))
	n.counters.publishesMissed.Add(uint64(missed))
	return took, missed
}

// inUse reports whether the link is the one by which messages go to its peer. So of two
// links to one node, of which one is about to be replaced, only one gets a message.
func (l *linkConn) inUse() bool { return l.mesh.linkOf(l.process()) == l }

// publish gives a message of the peer's to this node's subscribers. Its credit goes back at
// once: what is queued of it is bounded by their queues, and a subscriber that is slow must
// not stop what else goes over the link.
func (l *linkConn) publish(p *wire.Publish, paid uint32) {
	o := Outgoing{Name: buf.View(p.Name), Codec: p.Codec, Metadata: p.Metadata, Payload: p.Payload}
	l.node.spread(l.mesh.topics.here.OfBytes(p.Topic), &o, nil)
	l.consumed(int(paid))
}

// spread puts a message into the queues of subscribers, which share its content if it is
// too long to be part of their places. content has it, or is nil: then it is copied, once.
func (n *Node) spread(to []*subscriber, o *Outgoing, content *buf.Buf) (took, missed int) {
	if len(to) == 0 {
		return 0, 0
	}
	if content == nil && len(o.Metadata)+len(o.Payload) > inlineBytes {
		content = buf.Get(len(o.Metadata) + len(o.Payload))
		defer content.Free()
		copied, all := *o, content.Bytes()
		end := copy(all, o.Metadata)
		copy(all[end:], o.Payload)
		copied.Metadata, copied.Payload = all[:end:end], all[end:]
		o = &copied
	}
	a := arrival{owner: content}
	stopping, mayAct := n.stopping.Load(), n.mayAct(n.lately())
	for _, s := range to {
		p, wanted := s.packet(o.Name)
		switch {
		case !wanted:
		case p != nil && !stopping && (mayAct || s.cell == nil) && s.take(p, o, &a):
			took++
		default:
			missed++
		}
	}
	if missed > 0 {
		n.counters.copiesMissed.Add(uint64(missed))
		if left, ok := n.said.copiesMissed.Take(clock.Now()); ok && !stopping {
			n.log.Warn().Str("topic", clip(to[0].topic)).Str("packet", clip(o.Name)).Int("subscribers", missed).Int64("left_out", left).
				Msg("subscribers missed a message: their queue was full, their type has no handler for the packet, or the node may not act")
		}
	}
	return took, missed
}

// packet returns what the subscriber does with packets of the name; nil if it has no
// handler. Not wanted are those for which a reader has not asked.
func (s *subscriber) packet(name string) (p *packetType, wanted bool) {
	if s.packets == nil {
		return &packetType{name: strings.Clone(name), topic: s.topic}, true
	}
	p = s.packets[name]
	return p, p != nil || s.cell != nil
}

// queue is where its messages wait.
func (s *subscriber) queue() *mailbox.Mailbox[message] {
	if s.cell != nil {
		return s.cell.box
	}
	return s.reader.box
}

// take puts the message into the subscriber's queue, if it has room.
func (s *subscriber) take(p *packetType, o *Outgoing, a *arrival) bool {
	box := s.queue()
	place, err := box.Reserve(len(o.Name) + len(o.Metadata) + len(o.Payload))
	if err != nil {
		return false
	}
	place.V.fill(p, sender{kind: msgTopic, corr: s.number}, o, clock.Never, a)
	if s.cell != nil {
		s.cell.saw(MessageAccepted, &place.V, nil)
	}
	box.Enqueue(place)
	return true
}
