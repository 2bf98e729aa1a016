package node

import (
	"sync"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/topic"
	"github.com/zlnode/zlnode/internal/wire"
)

// topics are the subscribers of this node in a mesh, the links whose other end has some, and what is
// to be told by each link. A message is looked up in here and elsewhere and takes no lock;
// see publish.go.
//
// Invariant: of each link in news, what its other end knows, with what is under way to it
// and what its News has to tell, is here. For a topic that comes or goes changes here and
// in all News in one step under mu, and a link enters news in such a step, with all topics
// that are then. So it does not matter whether a subscription or a link is there first. A
// link that is lost takes with it what its other end knew, which a new one is told anew.
type topics struct {
	here      *topic.Index[*subscriber]
	elsewhere *topic.Index[*linkConn]

	mu     sync.Mutex
	news   map[*linkConn]*topic.News // of the links that are open
	behind bool                      // some have news that their out queue had no room for
}

// interestLimits are those of what one link's other end may be interested in.
var interestLimits = topic.Limits{Topics: topicsMax, Bytes: topicBytesMax}

func newTopics() topics {
	return topics{
		here:      topic.NewIndex[*subscriber](topic.Limits{Topics: topicsMax, Bytes: topicBytesMax, Members: subscribersMax}),
		elsewhere: topic.NewIndex[*linkConn](topic.Limits{}), // each link is bounded by its Heard
		news:      map[*linkConn]*topic.News{},
	}
}

// add makes s a subscriber to its topic.
func (t *topics) add(s *subscriber) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, err := t.here.Add(s.topic, s)
	if first {
		t.changed(s.topic, (*topic.News).Come)
	}
	return err
}

// remove undoes add. It does nothing if that was done.
func (t *topics) remove(s *subscriber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, _ := t.here.Remove(s.topic, s); last {
		t.changed(s.topic, (*topic.News).Gone)
	}
}

// changed has all other ends told; mu is held.
func (t *topics) changed(name string, how func(*topic.News, string)) {
	for l, news := range t.news {
		how(news, name)
		t.tell(l, news)
	}
}

// opened has the link's other end told of all topics, and then of what changes.
func (t *topics) opened(l *linkConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := &topic.News{}
	t.here.All(news.Come) // under mu none comes or goes
	t.news[l] = news
	t.tell(l, news)
}

// lost forgets the link, and what its other end was interested in. On its loop.
func (t *topics) lost(l *linkConn) {
	t.mu.Lock()
	delete(t.news, l)
	t.mu.Unlock()
	l.interest.Clear(func(name string) { t.elsewhere.Remove(name, l) })
}

// tell sends what is new, as long as the out queue has room; mu is held.
func (t *topics) tell(l *linkConn, news *topic.News) {
	for news.Any() {
		if l.conn.Pending() > interestMark {
			t.behind = true
			return
		}
		names, withdraw := news.Next(wire.MaxInterest)
		r := wire.Interest{Withdraw: withdraw}
		for _, name := range names {
			r.Topics = wire.AppendTopic(r.Topics, name)
		}
		l.sendControl(&r)
	}
}

// sweep tells what had no room before.
func (t *topics) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.behind {
		return
	}
	t.behind = false
	for l, news := range t.news {
		t.tell(l, news)
	}
}

// interested notes what the other end has subscribers to, or no more. One that repeats itself,
// withdraws what it has not said, or has more topics than a node may have, breaks the
// protocol.
func (l *linkConn) interested(r *wire.Interest) error {
	for name := range r.All() {
		if r.Withdraw {
			if err := l.interest.Gone(name); err != nil {
				return interestFault(err)
			}
			l.mesh.topics.elsewhere.Remove(string(name), l)
			continue
		}
		kept, err := l.interest.Come(name)
		if err != nil {
			return interestFault(err)
		}
		if _, err := l.mesh.topics.elsewhere.Add(kept, l); err != nil {
			return interestFault(err)
		}
	}
	return nil
}

func interestFault(err error) error {
	return &engine.CloseError{Reason: engine.CloseReason{Code: engine.ProtocolError, Text: "interest record breaks its rules", Err: err}}
}
