// Package engine is the reactor of a node: listeners for clients and links to
// other nodes, on the same event loops. It knows bytes, frames, deadlines and
// budgets; what they mean is the Handler's. It runs on Linux.
//
// # Use
//
// A Protocol says how long a frame is and who handles it. Listen opens a port for
// it, Dial a connection; New opens nothing.
//
//	e, err := engine.New(engine.Config{})
//	l, err := e.Listen(engine.Listen{Addr: "127.0.0.1:0", Protocol: p})
//	c, err := e.Dial(ctx, "10.0.0.7:7000", p)
//	…
//	err = e.Close(ctx)
//
// The Handler's part: never block in its calls; call Conn.Admit when the peer has
// said who it is; take owner.Ref() of a frame that is to outlive OnFrame. Anybody's
// part: a Buf given to Send is the engine's; ErrFull is an answer, not a failure,
// and what to do about it is decided above.
//
// Large payloads that are somewhere already, or belong somewhere, go by Conn.SendParts
// and Protocol.Placer. A stream of them sends its next part when done of the last one
// is called: so one part at most lies in the queue, and no other message waits for
// more than that one.
//
// # Transports
//
// A listener carries frames on TCP, on TLS, or as the messages of WebSockets on either
// (Listen.Transport). The Handler sees no difference but Conn.Transport and Conn.TLS; OnOpen
// comes when all handshakes are over, within HelloTimeout of the accept, and OnClose only
// after it.
//
// A WebSocket is a layer between the read and the frames (ws.go), and a header before each
// message in the out queue (wsout.go). TLS is a layer below both (tls.go): the handshake
// runs in a goroutine, as does the reading of a trusted proxy's header (prepare.go), and
// then the loop drives crypto/tls without one.
//
// # Who touches what
//
//	goroutine            count  owns                                    may block on
//	event loop (gnet)    Loops  its connections, their decoder, wheel   epoll_wait
//	accept               1 per listener   the listening socket          accept, its loop's next turn
//	preparation          MaxHandshakes  a socket that no loop has yet   its peer, up to HelloTimeout
//	writable             1      its epoll instance                      epoll_wait
//	tick                 1      nothing                                 a ticker
//	anybody              –      nothing: Send, SendAlone, SendParts, SendControl, Close,
//	                            Abort, Post, Pending, ID, RemoteAddr    nothing
//
// Between them are three lock-free structures: a connection's out queue
// (outqueue.go), its posts (post.go) and the loop's list of connections with work
// (sched.go). The two mutexes, of a listener's networks and of the writable
// watcher, are leaves and are held for a few map operations. A third, of TLSFiles, is
// taken in handshakes only.
//
// # The way of bytes
//
// In: a loop reads up to 64 KiB of a connection, finds the whole frames in place
// and copies them once, into one pooled slab that they share. A frame that is not
// whole is copied into a slab of its own, which grows with the bytes that came and
// not with the length that was claimed. So a byte is copied once between the
// kernel and the Handler, and a few times more at most if its frame is larger
// than a read. Of a WebSocket's messages in one read those behind the first are moved
// together before that, and TLS copies a byte twice more. A frame for which Placer has a
// place is copied there at most once: what comes behind a read that filled the block is
// read straight into the place, up to 1 MiB per turn.
//
// Out: messages up to 960 bytes are copied into chunks that hold many, larger ones
// are queued by reference, those of parts always. The first message for an idle
// connection puts it into the loop's list, the first connection in an empty list wakes
// the loop, and one gathered write carries what has come together, in which ranges up
// to 512 bytes are copied into one block. A connection writes 260 KiB per
// turn at most and a turn serves 128 connections at most; the rest waits for the
// next round of epoll, behind the other sockets. Of SendAlone the sender itself writes what
// finds the queue empty and the connection idle (direct.go): that spares two system calls
// and a wait for another thread, where nothing would have been gathered.
//
// # Why not gnet's own
//
// gnet is used for its loops alone, as a client without listeners that sockets are
// enrolled in. Of what it offers this is left out, each for a reason that a test
// of this package keeps:
//   - AsyncWrite, Wake, Execute: they allocate, and go to a queue that a loop runs
//     until it is empty, so a connection that is written to fast starves the
//     others, and Close can be overtaken. Instead a byte on a socket pair, which
//     is an event like any other (wake_linux.go).
//   - The out buffer: it has no bound. Instead the fd is written to directly, and
//     a watcher tells when it takes bytes again (writable_linux.go).
//   - The in buffer: what is left unread is copied into it, without bound. So
//     every read is taken whole.
//   - The acceptor: it ends the reactor when descriptors run out, knows no limits
//     and cannot tell the port of ":0" (listen.go).
//
// Two traits stay. A peer that shuts down its sending side ends the connection,
// as far as gnet is concerned: answers that are not written by then are dropped.
// And a connection's loop is chosen when it opens and never changed.
//
// # What was measured
//
// The out queue was Vyukov's intrusive queue with pooled entries at first. Of the
// time of a Send more than half went into moving an entry's cache lines between
// the cores of producer and loop. A stack of entries that are pooled by the dozen
// took half of the time, and a stack of chunks that hold many messages a third; it
// also leaves the loop nothing to do per message (BenchmarkSend, BenchmarkQueue).
// An echo through the engine takes 0.9 to 1.15 times that of bare gnet with the
// same framing, one over a worker goroutine 0.95 to 1.15 times that of
// gnet.AsyncWrite (BenchmarkEcho, BenchmarkWorkerEcho); an idle connection takes
// about 980 bytes of heap, gnet's part included, one of a WebSocket 1,090, one of TLS 8,500
// (BenchmarkIdleConn); BenchmarkTransportEcho compares the transports.
package engine
