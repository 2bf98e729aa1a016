// Package balance is the choice of one of several servers by smooth weighted round robin.
//
// Each choice gives every candidate its weight; who has gained most is chosen (of equals
// the first in unsigned byte order of the names), and pays the sum of all weights. So what
// all have gained together is 0 after each choice, each candidate is chosen in the share
// that its weight has, and its turns lie as far apart as they can.
package balance

import "math"

// Candidate is one that may be chosen. Its weight is more than 0; who shall not be chosen
// is no candidate.
type Candidate struct {
	Name   string
	Weight int
}

// Chooser chooses among candidates that do not change: for others make a new one. It is not
// safe for concurrent use.
//
// Invariant: gained sums up to 0, but for what those had that are candidates no more.
type Chooser struct {
	of      []Candidate
	weights []int64
	gained  []int64
	sum     int64 // of the weights
}

// New returns a Chooser of those candidates, of different names, which must not change
// afterwards. Those that were candidates before go on with what they have gained; what
// others had is dropped. before may be nil.
func New(candidates []Candidate, before *Chooser) *Chooser {
	c := &Chooser{of: candidates, weights: make([]int64, len(candidates)), gained: make([]int64, len(candidates))}
	had := map[string]int64{}
	if before != nil {
		for i := range before.of {
			had[before.of[i].Name] = before.gained[i]
		}
	}
	for i := range candidates {
		c.gained[i] = had[candidates[i].Name]
		c.weights[i] = int64(candidates[i].Weight)
		c.sum += c.weights[i]
	}
	return c
}

// Len returns the number of candidates.
func (c *Chooser) Len() int { return len(c.of) }

// Next chooses a candidate and returns its index, or -1 if there is none.
func (c *Chooser) Next() int {
	best, most := -1, int64(math.MinInt64)
	for i := range c.gained {
		g := c.gained[i] + c.weights[i]
		c.gained[i] = g
		if g > most || g == most && c.of[i].Name < c.of[best].Name {
			best, most = i, g
		}
	}
	if best >= 0 {
		c.gained[best] -= c.sum
	}
	return best
}

// Instead chooses another one in place of the candidate that was chosen and could not be
// used, of those that are not tried yet; tried holds for chosen too. It returns -1 if there
// is none. The choice is then as if those that were tried had been no candidates in it: they
// gain nothing by it, so that one that cannot be used for long is not owed all that it has
// missed. If nobody could be used, all is as before the choice.
func (c *Chooser) Instead(chosen int, tried func(i int) bool) int {
	best, most, rest := -1, int64(math.MinInt64), int64(0) // rest is the sum of those not tried
	for i, g := range c.gained {
		if tried(i) {
			continue
		}
		rest += c.weights[i]
		if g > most || g == most && c.of[i].Name < c.of[best].Name {
			best, most = i, g
		}
	}
	// chosen has paid rest and its own weight. It gets rest back: the weight it had gained.
	c.gained[chosen] += rest
	if best >= 0 {
		c.gained[best] -= rest
	}
	return best
}
