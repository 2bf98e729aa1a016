package node

import "github.com/zlnode/zlnode/store"

// This file is about the table of the objects that are at this node, by id.

// admitCell puts a cell in the object table, unless the incarnation or a later
// one is there. An earlier one is over: the Store has issued a new one.
func (n *Node) admitCell(cell *objectCell) (admitted bool) {
	var earlier *objectCell
	n.actors.Update(cell.ref.ID, func(now *objectCell, present bool) (*objectCell, bool) {
		admitted = !present || now.ref.ObjectGen < cell.ref.ObjectGen
		if !admitted {
			return now, true
		}
		earlier = now
		return cell, true
	})
	if admitted && cell.typ.Kind != store.Actor {
		n.spots.Add(1)
	}
	if earlier != nil {
		n.leftTable(earlier)
		earlier.refuseAll(errGone)
	}
	return admitted
}

// replace gives c's place in the object table to its heir, unless c has lost it.
func (n *Node) replace(c, heir *objectCell) (done bool) {
	n.actors.Update(c.ref.ID, func(now *objectCell, present bool) (*objectCell, bool) {
		if done = present && now == c; done {
			return heir, true
		}
		return now, present
	})
	c.gone.Store(true)
	return done
}

// drop takes a cell out of the table and refuses what waits in it.
func (n *Node) drop(cell *objectCell, err *Error) {
	n.leaveTable(cell)
	cell.refuseAll(err)
}

// leaveTable takes a cell out of the table, if it is there.
func (n *Node) leaveTable(cell *objectCell) {
	var was bool
	n.actors.Update(cell.ref.ID, func(now *objectCell, present bool) (*objectCell, bool) {
		was = present && now == cell
		return now, present && !was
	})
	if was {
		n.leftTable(cell)
	}
}

// leftTable is told of each cell that has left the object table.
func (n *Node) leftTable(cell *objectCell) {
	if cell.typ.Kind != store.Actor {
		n.spots.Add(-1)
	}
}
