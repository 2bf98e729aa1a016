// Package client is the Go connector for STREAM servers: one connection to a
// node, one-way messages, requests with replies, pushes from the server.
//
//	c, err := client.Dial(ctx, client.Options{
//		Addr:   "127.0.0.1:9400",
//		OnPush: func(m *client.Message) { fmt.Println(m.Name, string(m.Payload)) },
//	})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	reply, err := c.Request(ctx, "echo", []byte("hello"))
//
// Options.Addr chooses the transport: host:port or tcp:// is TCP, tls:// is TLS, ws:// and
// wss:// are WebSocket, one binary message for each frame.
//
// # Goroutines
//
// A Client has two goroutines per connection: a reader, which runs every
// callback, and a writer, which sends in one write what has gathered since the
// last one. Callbacks (OnPush, OnState, OnFrame, ReconnectIf, the function given to
// RequestFunc) therefore come one at a time, in the order of arrival. They must not block:
// while one runs nothing is read, no request times out and no heartbeat is sent.
// In particular a callback must not call Request, which waits for a reply that
// only the reader can deliver, nor Send when the out queue may be full; it uses
// RequestFunc or hands the work to another goroutine. All methods of Client are
// safe for concurrent use, also from callbacks.
//
// # What ends a request
//
// Every request ends exactly once, with the first of: the reply, an error of the
// server (*RemoteError), the timeout, the caller's context, the loss of the
// connection (ErrDisconnected), Close (ErrClosed). A reply that comes later is
// dropped and counted. After a timeout, a cancellation or a loss the server may
// still carry the request out.
//
// # Reconnecting
//
// With Options.Reconnect the client dials again, with back-off and jitter, when
// the connection is lost, at another of Options.Addrs if there are several (or at the same
// one first: ReconnectSame). It does not when that cannot help (ShouldReconnect): a server
// that closed with a ProtocolError does so again. Options.ReconnectIf and ReconnectAttempts
// set other rules.
//
// Nothing of the old connection goes over to the new one: requests under way end
// with ErrDisconnected, what was queued and not written is lost, and the server
// knows nothing of who was logged in. An application whose sessions can be resumed has a
// token of the old one and tells it, with LastPush, when it logs in. OnState tells the application when to log in
// anew, which must come first if the server wants its clients to authenticate. As a
// callback it does so by RequestFunc, or has another goroutine do it:
//
//	OnState: func(s client.State, _ error) {
//		if s == client.StateConnected {
//			go logIn()
//		}
//	},
//
// Pushes of the old connection are delivered before its OnState(StateDisconnected),
// those of the new one after OnState(StateConnected).
//
// # Bounds
//
// Received frames are bounded by MaxFrame, requests under way by MaxPending
// (CapacityExceeded at once), bytes that wait to be written by OutQueueBytes
// (senders wait up to SendTimeout, then DeadlineExceeded).
package client
