package zlnode

// Instance returns the address of an Instance Spot with the intent to bring it into being:
// if there is none with that id, the first message creates one of the stable type, at a
// node that hosts it, and is the first that the Spot handles. Others that come meanwhile
// wait behind it. With stableType "" only a Spot that exists gets the messages.
//
// Send waits for a Spot that is not open yet, for the create timeout at most; once it has
// returned without an error the Spot's queue has the packet. It and Request fail, besides
// what they say, with TypeMismatch if the id is of another type or kind, with
// CapacityExceeded if no node has room for the Spot, and with whatever made the factory or
// OnInitialize fail: then the Spot is gone, the packet was not handled, and the next one
// tries again. Unavailable is a Spot whose node is dead; nothing takes it over.
//
// A packet that is on its way while the Spot ends is handled by it or by the next one. What
// comes first for a Spot must be a little smaller than others: 1 MiB with all that goes
// with it.
func (n *Node) Instance(id, stableType string) Addr {
	return Addr{node: n.inner, to: n.inner.InstanceTarget(id, stableType), as: JSON}
}

// InMesh returns the same address, with which an Instance Spot that is not there yet is created
// in that mesh. A node that uses Actors of several meshes needs it for that: without it the
// message is refused with InvalidOperation, and with NotFound if the node uses none of that
// mesh. What is there already is found in any mesh, so other addresses need no InMesh.
func (a Addr) InMesh(mesh string) Addr {
	a.to = a.to.InMesh(mesh)
	return a
}
