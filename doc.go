// Package zlnode is an engine for stateful, latency-critical servers: game
// shards, live rooms, order books.
//
// An application registers types of Actors, Spots and Sessions in an App and starts a
// Node with it. Clients connect to session ports over TCP, TLS or WebSockets and speak
// the STREAM protocol (package client is one for Go); nodes speak to each other over one ordered link per pair. An Actor
// lives on exactly one node at a time, which the Location Store (Redis) decides
// by compare-and-set. A message to an Actor needs only its id, from anywhere in
// the mesh.
//
//	app := zlnode.NewApp()
//	counter := zlnode.DefineActor(app, "counter", newCounter, zlnode.DisableRelocation)
//	zlnode.OnRequest(counter, "add", func(c *zlnode.ActorCall, a *Counter, n int) (int, error) {
//		a.total += n
//		return a.total, nil
//	})
//	node, err := zlnode.Start(ctx, cfg, app)
//	…
//	_, err = node.GetOrCreateActor(ctx, zlnode.CreateActor{ID: "hits", Type: "counter"})
//	total, err := zlnode.Request[int](ctx, node.Actor("hits"), "add", 1)
//
// # Turns
//
// An Actor's handlers run one at a time, in the order in which its messages were
// accepted; so do a Spot's and a Session's. A handler may block: only its own object waits
// for it, and in a SpotWide Spot all that share its gate. Handlers run on worker
// goroutines, never on an event loop.
//
// A SpotWide Spot, its members, their timers and callbacks have one turn at a time, so
// they share the Spot's state without locks; each keeps a queue of its own. A handler
// there that waits for a reply, or for work by Do, can let the others go on meanwhile:
// it waits with Turn.Yielding. Timers (OnTimer, Turn.StartTimer) are turns like messages.
// Package zlnodetest runs an application's objects in tests, with a clock for the timers
// that the test moves.
//
// An Actor is in one Spot at a time: first in the Entry Spot of its node, then in the User
// Spots that it joins. A handler registers a Join (ActorCall.JoinSpot, JoinCall.Defer), the
// Spot decides (JoinAdmitter), and the Actor is told before its next message
// (JoinCompleter).
//
// Handlers that belong to no object, of messages to a node (Node.Peer, OnNodeRequest) or to a
// channel that some nodes serve (Node.Channel, DefineChannel, Config.Channels), run several at
// once, as many as HandlerOptions says. A message to a topic (Node.Topic, Publish) goes to all
// who subscribe to it: Spots by SpotCall.Subscribe and OnTopic, the code of nodes by Subscribe.
//
// The call value that a handler gets is its context.Context: it carries the
// message's deadline and ends with the turn. It must not be kept, and it belongs
// to the handler's goroutine.
//
// # Ending a node
//
// Node.Relocate hands all that lives at a node to others while clients stay connected; each
// type's RelocationPolicy says what of its values goes along. Node.Cordon keeps new objects
// away, Node.RunUntilSignal ends a process in order, and Config.Admin opens a port for
// operators (docs/OPERATIONS.md). Node.Shutdown alone moves nothing: what is there ends.
//
// # Errors
//
// Every operation that fails returns an *Error with a Kind. Test for a kind with
// errors.Is(err, zlnode.Unavailable).
//
// # Guarantees
//
//   - For one id at most one factory runs, wherever creations race, and at most
//     one node executes the Actor.
//   - Messages of one sender to one Actor run in the order in which they were
//     accepted, each at most once.
//   - A request has exactly one end: reply, error, deadline, cancellation or
//     shutdown.
//
// Not promised: that an Actor survives the death of its process, any order
// between different senders, progress while the Store is away for longer than
// the owner lease.
package zlnode
