package chunker

import "slices"

// payload is a run of bytes in pieces.
type payload struct {
	segments [][]byte // none is empty
	ends     []int    // where each segment ends in the payload
}

func newPayload(segments [][]byte) payload {
	p := payload{segments: make([][]byte, 0, len(segments)), ends: make([]int, 0, len(segments))}
	end := 0
	for _, s := range segments {
		if len(s) > 0 {
			end += len(s)
			p.segments, p.ends = append(p.segments, s), append(p.ends, end)
		}
	}
	return p
}

func (p *payload) size() int {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[len(p.ends)-1]
}

// appendViews appends views of the bytes from one offset to another.
func (p *payload) appendViews(dst [][]byte, from, to int) [][]byte {
	i, _ := slices.BinarySearch(p.ends, from+1) // the first segment that ends behind from
	for ; from < to; i++ {
		s := p.segments[i]
		start := p.ends[i] - len(s)
		end := min(to, p.ends[i])
		dst = append(dst, s[from-start:end-start:end-start])
		from = end
	}
	return dst
}
