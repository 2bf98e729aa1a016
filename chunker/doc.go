// Package chunker carries the bytes of a move from the memory of a source to that of a
// target: a manifest, chunks with checksums, the window in which they are sent, and
// compression where it pays.
//
// The package is pure. It starts no goroutine, takes no lock, reads no clock and opens no
// socket: the shell around it owns the links, writes the records and says what came back
// and when.
//
// # The idea
//
// A source has its payload in pieces, such as the framework's part and the state that
// an adapter captured. NewOutgoing takes them as they are and says by a Manifest what will
// come. The Pacer of a link says which chunk of which move is next; AppendChunk gives its
// bytes as views of the pieces, to be written behind a record's fields in one gathered
// write. The target's Incoming puts each chunk in its place and tells how many it has;
// that makes room for the next ones, and how long it took says for how many. When the
// last has come and all checksums agree, Payload gives the bytes in one run.
//
//	source                                       target
//	out := NewOutgoing(pieces, limit, None)
//	out.Manifest()            ── manifest ──▶    in, err := NewIncoming(m, limits)
//	pacer.Add(move, out)
//	move, i, ok := pacer.Next(now)
//	out.AppendChunk(dst, i)   ── chunk i ───▶    in.Add(i, crc, bytes)
//	pacer.Written()
//	pacer.Acked(now, out, n)  ◀── progress ──    n := in.Received()
//
// The source's pieces are the only original. When a link is lost, all that was under way
// on it is (Pacer.Lost); over the next one the target tells how many chunks it has, and
// the source goes on from there (Outgoing.Resume). What then comes twice is ignored.
//
// # Checksums
//
// Each chunk has a CRC-32C, and so has the whole, which both sides combine from those of
// the chunks: each byte is summed once on each side. The checksums are of the bytes that
// travel; what is compressed is watched over by its codec's own checksums of what it
// inflates to.
//
// # Bounds
//
//	a chunk                 the target's limit, by default ChunkBytes (to an Entry Spot
//	                        EntryChunkBytes); from ChunkMin to ChunkMax
//	a payload               Limits.Bytes, of what it inflates to; no bound by default
//	in flight on a link     what its road and target take, and two chunks at least;
//	                        NewPacer, SetLimit; or one chunk
//	in flight of a node     Budget; or one chunk per link
//	in a link's queue       one chunk of all moves
//	memory of an Incoming   64 times what has come, or 4 MiB; never over the manifest's
//	                        Total, and Raw beside it while it inflates
//	to inflate              that, and a window of 8 MiB at most
//	to compress             seven eighths of the payload, and about 2 MiB
//
// A move that waits for room waits with its next chunk, and never fails for it. One
// that has not begun may look at Pacer.Full first.
//
// # Who owns the bytes
//
//	NewOutgoing(segments)   the caller's, and unchanged until the move is over
//	AppendChunk             views of the segments, to be read only
//	Incoming.Add(p)         p is copied, and the caller's again at once
//	Incoming.Claim          the place is the caller's to write until Commit
//	Incoming.Payload        the Incoming's until Free, which gives the memory back
//
// # What the caller must do
//
//   - Use a Pacer, its Budget and the Outgoings in it under one lock; an Incoming has one
//     owner. AppendChunk and Manifest need no lock.
//   - Ask Next after whatever makes room, and send what it gives in that order.
//   - Take an Outgoing away (Remove) when its move ends for another reason than that all
//     chunks are acknowledged.
//   - Treat an error of Add or Payload as the end of this payload: the data is lost for
//     this attempt, and what the source has is still whole.
//
// # What it costs
//
// The source reads each byte once for its checksum, before the manifest; the target sums
// it once and copies it once, from where the link has it to its place, or not at all if
// the link reads it into a place that was claimed. A chunk allocates nothing on the
// source's side, and on the target's only where its memory grows: what has come is
// then moved, a sixtieth of the payload in all at most. Payloads of 4 MiB and less are put
// together in pooled memory.
package chunker
