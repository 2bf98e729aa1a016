// Package host is the pure core of a node's life: of the state that it shows to others, and of
// the relocation that takes everything that lives on it to other nodes.
//
// A Host does nothing itself. Ask is a call of Relocate, Step takes what happened, Effects
// returns what is to be done, whose ends are later events, and NextDeadline when Step wants to
// be called at the latest. Several effects may be under way at once. A Host is not safe for
// concurrent use.
//
// # An operation
//
// One relocation runs at a time, shared by all who ask for the same:
//
//	look ⇄ lacking → announce → settle → take → move → conclude
//	                                                └→ trail
//
// Before it announces itself nothing has changed: it looks whether all that lives here may move,
// and waits for a target for each type. Then the node is Relocating, which the Store is told
// before anything else, as that lets nothing new come: what was under way ends, and the
// inventory that is taken then is complete. Units are moved in batches, a Spot before its
// members; each has a permit before it begins, so what is under way at once is bounded, and no more
// are under way than leave faster for that (flights). Behind the
// last cutover the node is Relocated. Whatever prevents that has the node Serving again: nothing
// new begins, what has begun comes to its own end, and the operation is over, Blocked.
//
// A PerActor Spot that has moved must not stay apart from its members: these follow also behind
// a failure and behind the deadline, until all have. Behind the deadline nobody waits for it: the
// operation trails.
//
// What holds in any order of events:
//
//   - A call ends once, and no later than its operation's deadline and the safe end of what has
//     begun.
//   - A unit is asked to move while it is not under way, and never again once it has left.
//   - Relocated says that every unit's cutover was submitted.
//   - Every permit is used for one unit or given back.
//   - The node that is not Relocated in the end is Serving, unless it is about to stop.
package host
