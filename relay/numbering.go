package relay

import "iter"

// Seq numbers what one attempt relays, from 1 without a gap.
type Seq uint64

// Out numbers what a source relays and keeps it until it is acknowledged. T is what the
// shell keeps of a record.
type Out[T any] struct{}

// Sent is something to send again: a record, or the cutover behind record Seq.
type Sent[T any] struct {
	Seq     Seq
	Item    T
	Cutover bool
	CRC     uint32 // of the cutover
}

// Add takes the next record, whose message has the bytes given, and returns its number.
func (o *Out[T]) Add(item T, message []byte) Seq { return 0 }

// Cutover fixes the boundary behind the last record. It returns that one's number and the
// CRC-32C of the messages up to it. A repeat returns the same.
func (o *Out[T]) Cutover() (last Seq, crc uint32) { return 0, 0 }

// Acked takes that all up to seq have come, and hands what was kept of them to release. It
// reports false, and changes nothing, for a number that was never given.
func (o *Out[T]) Acked(seq Seq, release func(T)) bool { return false }

// Again yields what a receiver that has all up to seq is to be sent again, in order.
func (o *Out[T]) Again(after Seq) iter.Seq[Sent[T]] { return nil }

// Kept returns how many records are not acknowledged.
func (o *Out[T]) Kept() int { return 0 }

// In is the receiver of one attempt's records.
type In struct{}

// Arrival says what a record is to its receiver.
type Arrival uint8

const (
	Fresh     Arrival = iota + 1 // the next one: it is taken
	Duplicate                    // it was taken before
	Gap                          // one before it is missing, or it is not what was sent: the link is closed
)

// Accept takes a record with its message.
func (i *In) Accept(seq Seq, message []byte) Arrival { return 0 }

// Cutover takes the boundary.
func (i *In) Cutover(last Seq, crc uint32) Arrival { return 0 }

// Last returns the number up to which all have come, for the acknowledgement.
func (i *In) Last() Seq { return 0 }
