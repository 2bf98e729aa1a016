package sim

import "math/rand/v2"

// Tape is the only source of chance in a run: bytes that are read once, in order. What
// was read of a tape from NewTape is all that Replay needs.
type Tape struct {
	bytes []byte
	read  int
	more  *rand.PCG // what comes behind the bytes; nil: zeros
}

// NewTape returns the endless tape of a seed.
func NewTape(seed uint64) *Tape { return &Tape{more: rand.NewPCG(seed, seed)} }

// Replay returns a tape that begins with b and goes on with zeros.
func Replay(b []byte) *Tape { return &Tape{bytes: b[:len(b):len(b)]} }

// Read returns what was read so far.
func (t *Tape) Read() []byte { return t.bytes[:t.read] }

func (t *Tape) next() int {
	if t.read == len(t.bytes) {
		var b byte
		if t.more != nil {
			b = byte(t.more.Uint64())
		}
		t.bytes = append(t.bytes, b)
	}
	t.read++
	return int(t.bytes[t.read-1])
}

// choose returns one of the first n numbers. A smaller byte never gives a larger one.
func (t *Tape) choose(n int) int {
	switch {
	case n <= 1:
		return 0
	case n <= 256:
		return t.next() * n >> 8
	default:
		return (t.next()<<8 + t.next()) * n >> 16
	}
}

// chance reports true in weight of 256 cases. It reads nothing if that is never.
func (t *Tape) chance(weight int) bool { return weight > 0 && t.next() >= 256-weight }
