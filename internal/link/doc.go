// Package link holds the decisions about one connection between two nodes, as
// values without I/O:
//
//   - Dialler and Acceptor: the two halves of the handshake (hello, admit).
//   - Liveness: probes, acknowledgements and the moment when a peer is silent.
//   - CreditSender and CreditReceiver: the credits that keep a slow receiver
//     from filling its own memory; CreditGate and CreditReturn are the same for
//     several goroutines.
//   - Prefer and ShouldDial: which of two links of one pair stays, and who dials.
//
// The handshake halves and Liveness are driven alike: the shell gives every
// event to Step, executes what Effects returns in order, and calls Step with a
// tick when NextDeadline is reached. Frames that were received before a deadline
// go to Step before its tick. A core is owned by one goroutine, the link's event
// loop; nothing here is safe for concurrent use but CreditGate and CreditReturn.
//
// # Handshake
//
//	dialler D                          acceptor A
//	hello(nonce D, expects A)    ──►   mesh, version, RID fit?
//	mesh, version, RID fit?      ◄──   hello(nonce A, expects D)
//	admit(MAC 'D', window D)     ──►   MAC right? shell judges: lifecycle, slot
//	MAC right? shell judges      ◄──   admit(MAC 'A', window A)      A is open
//	D is open
//
// with
//
//	MAC = HMAC-SHA256(mesh key, "zlnode-link-1" ‖ role 'D' or 'A' ‖
//	      hello record of D ‖ hello record of A ‖ window u64 ‖ version u16)
//
// where window and version are those of the admit record that carries the MAC.
// Each half computes the MAC over the hello that it sent itself and the hello
// that it received, so a change of one byte on the way (mesh, RID, lifecycle,
// version range, nonce) makes both MACs wrong: no downgrade, no identity swap.
// The nonce of the verifier is in every MAC, so nothing recorded is of use later,
// and the role is, so a MAC cannot be sent back to the node that made it.
//
// A node that holds the mesh key may claim any RID: the key separates the mesh
// from the world, not its nodes from each other. And the MAC proves who opened
// the connection, not who writes on it later: where somebody could insert
// himself into the connection, links need TLS as well.
//
// Before a node is convinced it sends nothing but its own hello, admit and a
// reject with a bare reason, allocates no more than a hello needs, and changes
// nothing but its counters.
package link
