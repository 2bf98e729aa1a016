package sim

import (
	"bytes"
	"slices"
)

// Shrink returns the smallest tape that it finds, in at most so many runs, on which a run
// of the kind breaks the same invariant.
func Shrink(k Kind, tape []byte, id string, runs int) []byte {
	fails := func(t []byte) bool {
		if runs == 0 {
			return false
		}
		runs--
		v := Run(k, Replay(t), 0).Violation
		return v != nil && v.ID == id
	}
	best := trim(tape)
	for before := -1; runs > 0 && before != sum(best); {
		before = sum(best)
		for size := len(best) / 2; size > 0; size /= 2 {
			best = without(best, size, fails)
			best = zeroed(best, size, fails)
		}
		for i := 0; i < len(best); i++ {
			for _, less := range [...]byte{best[i] / 2, best[i] - 1} {
				if try := slices.Clone(best); best[i] > 0 {
					if try[i] = less; fails(try) {
						best = try
					}
				}
			}
		}
		best = trim(best)
	}
	return best
}

// without leaves out spans of the size.
func without(tape []byte, size int, fails func([]byte) bool) []byte {
	for at := 0; at+size <= len(tape); {
		if try := slices.Concat(tape[:at], tape[at+size:]); fails(try) {
			tape = try
		} else {
			at += size
		}
	}
	return tape
}

// zeroed clears spans of the size.
func zeroed(tape []byte, size int, fails func([]byte) bool) []byte {
	for at := 0; at+size <= len(tape); at += size {
		if sum(tape[at:at+size]) == 0 {
			continue
		}
		try := slices.Clone(tape)
		if clear(try[at : at+size]); fails(try) {
			tape = try
		}
	}
	return tape
}

// trim leaves out the zeros at the end, which a tape has without end.
func trim(tape []byte) []byte { return bytes.TrimRight(tape, "\x00") }

// sum grows with each byte and with the length.
func sum(tape []byte) int {
	n := 0
	for _, b := range tape {
		n += int(b)
	}
	if n == 0 {
		return 0
	}
	return n<<16 + len(tape)
}
