package engine

import "time"

// Defaults of Protocol and Listen, and the engine's own bounds, each with its
// reason. Sizes are bytes.
const (
	// DefaultHelloTimeout bounds how long a stranger holds a connection.
	DefaultHelloTimeout = 2 * time.Second
	// DefaultFrameTimeout runs from a frame's first byte; bytes do not renew it,
	// so that a peer cannot hold a slab by dripping.
	DefaultFrameTimeout = 5 * time.Second
	// DefaultCloseGrace is the time that Close gives the peer to take what is
	// queued and to end its side.
	DefaultCloseGrace = time.Second
	// DefaultStallTimeout is the time without one byte taken by the peer while
	// bytes wait for it.
	DefaultStallTimeout = 10 * time.Second
	// DefaultOutMax is the budget of a connection's out queue.
	DefaultOutMax = 1 << 20
	// ControlReserve is what SendControl may queue beyond OutMax.
	ControlReserve = 256 << 10
	// MessageCost is counted for each queued message besides its bytes, so that
	// a budget in bytes also bounds the memory that tiny messages take.
	MessageCost = 32

	// PlaceMin is the largest frame for which Placer is not asked: a second copy of
	// it costs less than asking.
	PlaceMin = 4 << 10

	// DefaultMaxConns bounds a listener that names no limit.
	DefaultMaxConns = 65_536
	// DefaultMaxUnadmitted bounds connections that have not said hello.
	DefaultMaxUnadmitted = 4_096
	// DefaultMaxHandshakes bounds TLS handshakes under way: each has a goroutine, and one
	// takes about a millisecond of a processor.
	DefaultMaxHandshakes = 1_024
	// DefaultNetworkBits4 and DefaultNetworkBits6 are one IPv4 address, and what whoever has
	// one IPv6 address has at least.
	DefaultNetworkBits4 = 32
	DefaultNetworkBits6 = 64

	// networksMax bounds the networks that are remembered for their rate alone. Those with
	// connections are known besides; their number is bounded by that of the connections.
	networksMax = 65_536
	// networksLook is how many networks are looked at to find one to forget.
	networksLook = 16
	// requestMax bounds the head of the HTTP request that begins a WebSocket.
	requestMax = 8 << 10
	// proxyHeaderMax bounds the header of the PROXY protocol: 16 bytes, the two largest
	// addresses, and 304 for what else a proxy says; proxyLineMax that of version 1.
	proxyHeaderMax = 536
	proxyLineMax   = 107
	// secureBatch is the bytes that are encrypted for one write. They are in memory twice
	// until they are written.
	secureBatch = 64 << 10
	// secureOutMax bounds what waits for a peer besides messages: answers to its key updates.
	secureOutMax = 256 << 10
	// tlsFilesLook is how often the files of TLSFiles are looked at, at most.
	tlsFilesLook = time.Second

	// maxLoops is gnet's bound.
	maxLoops = 256
	// readBytes is the size of a loop's read block: what one connection may
	// bring in one turn.
	readBytes = 64 << 10
	// batchFrames is how many frames of a read share one slab at most.
	batchFrames = 256
	// partialStart is the first slab of a frame that arrives in parts, unless
	// the frame is smaller.
	partialStart = 4 << 10
	// prefixMax bounds the prefix that FrameSize may ask for; Place gets as much.
	prefixMax = 64
	// placeReadMin is the room from which a read into a placed frame is worth a
	// system call of its own.
	placeReadMin = 8 << 10
	// placeReadBytes is what one connection may bring in one turn into placed
	// frames, besides the loop's read block: under load it is this to that how much
	// of them is read straight to where it belongs.
	placeReadBytes = 1 << 20
	// aheadBytes is what is read besides of what follows a placed frame.
	aheadBytes = 1 << 10

	// flushBytes is what one connection may write in one turn of its loop: a part of
	// 256 KiB with its head and what is queued before it.
	flushBytes = 260 << 10
	// turnConns is how many connections one turn serves; the rest waits for the
	// next epoll round, so that readers get their turn in between.
	turnConns = 128
	// iovMax is the kernel's limit of one writev (IOV_MAX).
	iovMax = 1024
	// copyMax is the largest message that is copied into a loop's scratch block
	// instead of taking an iovec of its own.
	copyMax = 512
	// postsMax bounds the functions that wait in Post of one connection.
	postsMax = 1024
	// lingerBytes is what is read and thrown away from a peer that goes on
	// sending after Close.
	lingerBytes = 256 << 10

	// tick is the resolution of every deadline: a timer fires at most one tick
	// late, never early.
	tick = 25 * time.Millisecond

	// acceptBackoffMin and acceptBackoffMax bound the pause after a failed
	// accept (EMFILE and its like).
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = time.Second
)
