// Package session is the STREAM protocol between a server and its clients: the
// frame codec, the metadata block, compressed payloads, the control frames, and
// the rules by which a server judges what a client sends and how long it may be
// silent; between servers, the Route of a client's packets to an Actor that moves; and the
// Outbox of what waits for a client that takes less than it is sent.
//
// The package is pure. It starts no goroutine, takes no lock, reads no clock and
// opens no socket: frames go in as bytes, time goes in as an argument, and what
// is to be done comes out as data. The shell around it owns the connection.
//
// # Frames
//
// A frame is a 6-byte prefix, a header and a payload, all integers big-endian:
//
//	u16 header length, u32 payload length
//	0xF2, u8 kind, u8 codec, u8 flags
//	[u64 request sequence]      flag 0x01, never 0
//	u8 length, name
//	[u16 length, metadata]      flag 0x02
//	[u8 length, correlation id] flag 0x08
//	[36-byte flow id, u8 origin] flag 0x10
//	payload                     flag 0x04: compressed
//
// A server reads FrameSize from the first bytes of a frame, so that a frame over
// its cap is refused before memory is taken, then calls Decode on the whole
// frame and CheckInbound on the packet. Decode is total: it never panics,
// allocates nothing and accepts exactly what Append can write (metadata over
// MetadataMax aside: it is accepted but not sent).
//
// # Ownership
//
// The slices of a decoded Packet are views into the frame and live as long as
// its memory does. Append copies everything it is given.
package session
