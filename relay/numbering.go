package relay

import (
	"hash/crc32"
	"iter"
)

// Seq numbers what one attempt relays, from 1 without a gap.
type Seq uint64

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Out numbers what a source relays and keeps it until it is acknowledged. T is what the
// shell keeps of a record. The zero value is empty. Not safe for concurrent use.
type Out[T any] struct {
	kept  []T // the records behind acked; those before head are given back
	head  int
	acked Seq

	cut  bool
	last Seq    // before the cutover
	crc  uint32 // CRC-32C of the messages up to the cutover
}

// Sent is something to send again: a record, or the cutover behind record Seq.
type Sent[T any] struct {
	Seq     Seq
	Item    T
	Cutover bool
	CRC     uint32 // of the cutover
}

// Add takes the next record, whose message has the bytes given, and returns its number.
func (o *Out[T]) Add(item T, message []byte) Seq {
	if !o.cut {
		o.crc = crc32.Update(o.crc, castagnoli, message)
	}
	if o.head > len(o.kept)/2 { // each record is moved once, or less
		n := copy(o.kept, o.kept[o.head:])
		clear(o.kept[n:])
		o.kept, o.head = o.kept[:n], 0
	}
	o.kept = append(o.kept, item)
	return o.acked + Seq(o.Kept())
}

// Cutover fixes the boundary behind the last record. It returns that one's number and the
// CRC-32C of the messages up to it. A repeat returns the same.
func (o *Out[T]) Cutover() (last Seq, crc uint32) {
	if !o.cut {
		o.cut, o.last = true, o.acked+Seq(o.Kept())
	}
	return o.last, o.crc
}

// Acked takes that all up to seq have come, and hands what was kept of them to release. It
// reports false, and changes nothing, for a number that was never given.
func (o *Out[T]) Acked(seq Seq, release func(T)) bool {
	if seq > o.acked+Seq(o.Kept()) {
		return false
	}
	for ; o.acked < seq; o.acked++ {
		item := &o.kept[o.head]
		release(*item)
		clear(o.kept[o.head : o.head+1])
		o.head++
	}
	return true
}

// Again yields what a receiver that has all up to after is to be sent again, in order. What
// is acknowledged is not kept, and not sent again. A receiver that has more than what was
// before the cutover has the cutover.
func (o *Out[T]) Again(after Seq) iter.Seq[Sent[T]] {
	return func(yield func(Sent[T]) bool) {
		cutover := func(seq Seq) bool {
			return !o.cut || seq != o.last || yield(Sent[T]{Seq: seq, Cutover: true, CRC: o.crc})
		}
		seq := max(after, o.acked)
		if !cutover(seq) {
			return
		}
		for end := o.acked + Seq(o.Kept()); seq < end; {
			item := o.kept[o.head+int(seq-o.acked)]
			seq++
			if !yield(Sent[T]{Seq: seq, Item: item}) || !cutover(seq) {
				return
			}
		}
	}
}

// Kept returns how many records are not acknowledged.
func (o *Out[T]) Kept() int { return len(o.kept) - o.head }

// In is the receiver of one attempt's records. Not safe for concurrent use.
type In struct {
	last Seq
	crc  uint32 // CRC-32C of the messages up to the cutover

	cut   bool
	cutAt Seq
}

// Arrival says what a record is to its receiver.
type Arrival uint8

const (
	Fresh     Arrival = iota + 1 // the next one: it is taken
	Duplicate                    // it was taken before
	Gap                          // one before it is missing, or it is not what was sent: the link is closed
)

// Accept takes a record with its message.
func (i *In) Accept(seq Seq, message []byte) Arrival {
	switch {
	case seq <= i.last:
		return Duplicate
	case seq != i.last+1:
		return Gap
	}
	i.last = seq
	if !i.cut {
		i.crc = crc32.Update(i.crc, castagnoli, message)
	}
	return Fresh
}

// Cutover takes the boundary, which comes on the link behind the records before it.
func (i *In) Cutover(last Seq, crc uint32) Arrival {
	switch {
	case crc != i.crc || i.cut && last != i.cutAt || !i.cut && last != i.last:
		return Gap
	case i.cut:
		return Duplicate
	}
	i.cut, i.cutAt = true, last
	return Fresh
}

// Last returns the number up to which all have come, for the acknowledgement.
func (i *In) Last() Seq { return i.last }
