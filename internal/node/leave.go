package node

import "github.com/zlnode/zlnode/store"

// Leave says that the program is about to end the node, which is not Ready any more.
func (n *Node) Leave(why string) {
	n.leaving.Store(true)
	n.log.Info().Str("why", why).Msg("the node is about to end, and is not ready any more")
}

// Ready reports whether the node wants new work.
func (n *Node) Ready() bool { return !n.leaving.Load() && n.State() == store.Serving }

// Hosts reports whether objects live here.
func (n *Node) Hosts() bool { return n.store != nil && n.hosts() }
