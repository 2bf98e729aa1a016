package topic

import (
	"errors"
	"slices"
	"sync"

	"github.com/zlnode/zlnode/internal/cmap"
)

var (
	// ErrTopics: the index has as many topics, or bytes of their names, as it may.
	ErrTopics = errors.New("topic: the node has subscribers to too many topics")
	// ErrMembers: the topic has as many members as it may.
	ErrMembers = errors.New("topic: it has too many subscribers at the node")
)

// Limits bound an Index. 0 is no bound.
type Limits struct {
	Topics  int // with a member
	Bytes   int // of their names, with a byte for each
	Members int // of one topic
}

// Index has the members of topics. Of is for every message: it takes no lock and allocates
// nothing. Changes are made one at a time. Safe for concurrent use; made by NewIndex.
//
// Invariant: what Of has returned never changes. A member is appended behind the end of all
// slices that were returned before, and one that goes has the others copied.
type Index[M comparable] struct {
	limits  Limits
	members *cmap.Map[[]M]

	mu     sync.Mutex // changes
	topics int
	bytes  int
}

// NewIndex returns an empty index.
func NewIndex[M comparable](l Limits) *Index[M] {
	return &Index[M]{limits: l, members: cmap.New[[]M]()}
}

// Of returns the members of a topic, in the order in which they came. They must not be
// changed.
func (x *Index[M]) Of(topic string) []M {
	all, _ := x.members.Load(topic)
	return all
}

// OfBytes is Of with a topic that may be a view of a buffer.
func (x *Index[M]) OfBytes(topic []byte) []M {
	all, _ := x.members.LoadBytes(topic)
	return all
}

// Len returns the number of topics that have a member.
func (x *Index[M]) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.topics
}

// All calls f for each topic that has a member. Topics that come or go meanwhile may be
// among them.
func (x *Index[M]) All(f func(topic string)) {
	x.members.Range(func(topic string, _ []M) bool {
		f(topic)
		return true
	})
}

// Add adds a member, which the topic does not have, and reports whether it is the first.
// It returns ErrTopics or ErrMembers, and adds nothing, if there is no room. The index keeps
// topic.
func (x *Index[M]) Add(topic string, m M) (first bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.Of(topic)
	first = len(now) == 0
	switch l := x.limits; {
	case first && (full(x.topics+1, l.Topics) || full(x.bytes+cost(topic), l.Bytes)):
		return false, ErrTopics
	case full(len(now)+1, l.Members):
		return false, ErrMembers
	}
	if first {
		x.topics++
		x.bytes += cost(topic)
	}
	x.members.Store(topic, append(now, m))
	return first, nil
}

// Remove removes a member. last reports whether it was the only one; was, whether it was
// there.
func (x *Index[M]) Remove(topic string, m M) (last, was bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.Of(topic)
	i := slices.Index(now, m)
	switch {
	case i < 0:
		return false, false
	case len(now) > 1:
		x.members.Store(topic, slices.Concat(now[:i], now[i+1:]))
		return false, true
	}
	x.members.Delete(topic)
	x.topics--
	x.bytes -= cost(topic)
	return true, true
}

func full(n, limit int) bool { return limit != 0 && n > limit }

// cost is what a topic counts in a bound of bytes.
func cost(topic string) int { return len(topic) + 1 }
