package main

import "fmt"

// captureMax bounds each end of what one test printed and we keep, in bytes.
const captureMax = 256 << 10

// capture keeps the output of one test until its end shows whether anybody
// wants to read it. Of a test that prints without end it keeps the beginning,
// where a data race or the first failure is, and the end, where a panic is.
type capture struct {
	head, tail           []string
	headBytes, tailBytes int
	cut                  int // bytes between head and tail that were dropped
}

func (c *capture) add(s string) {
	if c.cut == 0 && c.tailBytes == 0 && c.headBytes+len(s) <= captureMax {
		c.head = append(c.head, s)
		c.headBytes += len(s)
		return
	}
	c.tail = append(c.tail, s)
	c.tailBytes += len(s)
	for c.tailBytes > captureMax && len(c.tail) > 1 {
		c.cut += len(c.tail[0])
		c.tailBytes -= len(c.tail[0])
		c.tail = c.tail[1:]
	}
}

// parts returns what was kept, in order, with a note where something is missing.
func (c *capture) parts() []string {
	if c == nil {
		return nil
	}
	out := append([]string(nil), c.head...)
	if c.cut > 0 {
		out = append(out, fmt.Sprintf("\n    … %d bytes of output left out …\n", c.cut))
	}
	return append(out, c.tail...)
}
