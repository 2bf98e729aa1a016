package topic

import "errors"

// News is what the other end of one link does not know yet of the topics that have
// subscribers here: changes that undo each other before they are told are never told. The
// zero value is for an end that knows of none. Not safe for concurrent use.
//
// Withdrawals are told first. So the other end never has more topics than are, or were, at
// one time: with as many as there may be, one that goes makes room for the one that comes.
//
// It is bounded by what may be: come is a part of the topics that are now, gone of those
// that the other end knows.
type News struct{ come, gone map[string]struct{} }

// Come and Gone note that a topic has its first subscriber, or has lost its last. They
// alternate for each topic, beginning with Come.
func (n *News) Come(topic string) { n.change(&n.come, n.gone, topic) }

// Gone is described at Come.
func (n *News) Gone(topic string) { n.change(&n.gone, n.come, topic) }

// change adds to one set, or takes back what is in the other.
func (n *News) change(to *map[string]struct{}, undone map[string]struct{}, topic string) {
	if _, untold := undone[topic]; untold {
		delete(undone, topic)
		return
	}
	if *to == nil {
		*to = map[string]struct{}{}
	}
	(*to)[topic] = struct{}{}
}

// Any reports whether there is something to tell.
func (n *News) Any() bool { return len(n.gone)+len(n.come) > 0 }

// Next takes some changes to be told in one record, in which they have at most that many
// bytes; one at least.
func (n *News) Next(bytes int) (topics []string, withdraw bool) {
	from := n.gone
	if withdraw = len(from) > 0; !withdraw {
		from = n.come
	}
	for topic := range from {
		if bytes -= cost(topic); bytes < 0 && len(topics) > 0 {
			break
		}
		topics = append(topics, topic)
		delete(from, topic)
	}
	return topics, withdraw
}

var (
	// ErrTwice, ErrUnknown and ErrMany: the other end breaks the protocol; the link closes.
	ErrTwice   = errors.New("topic: the peer is interested in it already")
	ErrUnknown = errors.New("topic: the peer was not interested in it")
	ErrMany    = errors.New("topic: the peer is interested in more than it may be")
)

// Heard is the topics in which the other end of one link is interested, as far as it has
// said. Not safe for concurrent use.
type Heard struct {
	limits Limits
	topics map[string]struct{}
	bytes  int
}

// NewHeard returns one that takes no more than the limits.
func NewHeard(l Limits) Heard { return Heard{limits: l} }

// Come notes a topic, and returns it as a string to keep. ErrTwice, ErrMany.
func (h *Heard) Come(topic []byte) (string, error) {
	if _, known := h.topics[string(topic)]; known {
		return "", ErrTwice
	}
	s := string(topic)
	if full(len(h.topics)+1, h.limits.Topics) || full(h.bytes+cost(s), h.limits.Bytes) {
		return "", ErrMany
	}
	if h.topics == nil {
		h.topics = map[string]struct{}{}
	}
	h.topics[s] = struct{}{}
	h.bytes += cost(s)
	return s, nil
}

// Gone forgets a topic. ErrUnknown.
func (h *Heard) Gone(topic []byte) error {
	if _, known := h.topics[string(topic)]; !known {
		return ErrUnknown
	}
	delete(h.topics, string(topic))
	h.bytes -= len(topic) + 1
	return nil
}

// Clear forgets all topics, and calls f for each.
func (h *Heard) Clear(f func(topic string)) {
	for topic := range h.topics {
		f(topic)
	}
	h.topics, h.bytes = nil, 0
}
