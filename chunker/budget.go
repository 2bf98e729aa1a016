package chunker

// Budget bounds what all links of a node have in flight together. The zero value bounds
// nothing. It is shared by Pacers, under the one lock under which all of them are used.
//
// Links share it evenly: while k of them have moves, each has at most a k-th in flight,
// or one chunk. So a link that waits for its share has a chunk under way itself, whose
// acknowledgement brings it to ask again: no link has to wake another one, and the budget
// may be exceeded by a chunk for each link.
type Budget struct {
	limit    int64 // 0: none
	inFlight int64
	links    int64 // those that have moves
}

// SetLimit sets the bytes; 0 = no bound. What is in flight stays.
func (b *Budget) SetLimit(bytes int64) { b.limit = bytes }

// InFlight returns how many bytes of all links are sent and not acknowledged.
func (b *Budget) InFlight() int64 { return b.inFlight }

// room reports whether a link that has own bytes in flight may send more.
func (b *Budget) room(own, more int64) bool {
	return b.limit <= 0 || b.inFlight+more <= b.limit && own+more <= b.limit/max(b.links, 1)
}
