// Package admin is the door for operators of one node: HTTP with JSON on a loopback address,
// behind a token. It knows nodes by the interface Node, and is their server and its client.
//
// Who has the token may end the node, so nothing else of a request is looked at before it: not
// its path, not its body. Who has it not is told nothing but that. A page in a browser of this
// machine has no token; that its requests carry another Host (DNS rebinding) or an Origin ends
// them sooner. All that a request may take is bounded: connections, requests at once, head,
// body, and the time of each part.
package admin
