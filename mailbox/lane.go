package mailbox

import "sync/atomic"

// laneRun is how many lifecycle messages may run in a row while others wait: enough
// for the steps of one change of an object, few enough for its players not to notice.
const laneRun = 8

// lane is a mailbox's second queue, for what concerns the object's own life. It goes
// first, but after laneRun turns in a row the next one is another message's, if one
// waits.
//
// Producers put a node here and then a marker into the inbox, so readiness stays a
// matter of the inbox alone: what is in the lane has its marker still to come, or has
// been seen by the claim's holder, who looks here before each turn and before it rests.
type lane[T any] struct {
	head atomic.Pointer[Slot[T]] // the newest, each linked to the one before it

	// The claim's holder owns these.
	list *Slot[T] // taken from head, oldest first
	run  int      // turns of the lane in a row
}

// PushLifecycle appends v to the mailbox's second lane, which goes before all that
// Push and PushControl append, except that after 8 such turns in a row another
// message has one turn. Messages of the lane stay in their own order. It is outside
// the budget: the framework has a fixed number of them in use per object.
func (m *Mailbox[T]) PushLifecycle(v T) {
	l := m.lane.Load()
	if l == nil {
		m.lane.CompareAndSwap(nil, new(lane[T]))
		l = m.lane.Load()
	}
	n := m.nodes.get()
	n.V, n.cost = v, costControl
	for {
		n.next = l.head.Load()
		if l.head.CompareAndSwap(n.next, n) {
			break
		}
	}
	m.mark()
}

// waits reports whether something is in the lane. It and order are for the claim's holder.
func (l *lane[T]) waits() bool { return l != nil && (l.list != nil || l.head.Load() != nil) }

// order puts the next message of the lane in front of the list, unless it is another
// message's turn and one waits: that is then the first of the list. Markers before it go
// to used.
func (m *Mailbox[T]) order(l *lane[T], used *spent[T]) {
	if l.run == laneRun {
		l.run = 0
		if m.list == nil {
			m.list = oldestFirst(m.inbox.takeAll())
		}
		for m.list != nil && m.list.cost == costMarker {
			n := m.list
			m.list, n.next = n.next, nil
			used.add(n, m.nodes)
		}
		if m.list != nil {
			return
		}
	}
	if l.list == nil {
		l.list = oldestFirst(l.head.Swap(nil))
	}
	l.run++
	n := l.list
	l.list = n.next
	n.next = m.list
	m.list = n
}
