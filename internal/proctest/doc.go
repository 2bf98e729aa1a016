// Package proctest runs a cluster of real processes under load, with Actors that hop from
// node to node, and hurts it: a process is killed or paused at a step of a move, the Store is
// stopped, a link is cut. Nodes are also drained, updated to a newer program and ended by
// signals, with all that they have under load, and hurt in that. In the end the cluster is
// healed, the Store's books are audited, and what all processes have witnessed is checked (see
// internal/witness).
//
// The processes are this package's test binary, run again: object servers, a gateway with
// clients' Sessions, and the Store unless that is a redis-server. The senders, and the roads
// that links go by, are in the test's own process, which nobody hurts. Built with the tag
// failpoints, each node ends or stops at the failpoints that the test arms (see
// internal/failpoint).
package proctest
