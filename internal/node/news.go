package node

import "sync"

// news tells who waits of a change: of the links of any mesh, or of the node list.
type news struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newNews() *news { return &news{changed: make(chan struct{})} }

// watch returns a channel that is closed at the next change.
func (n *news) watch() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// tell wakes who watches.
func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.changed)
	n.changed = make(chan struct{})
}
