package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Cover counts what was reached: marks, and faults by what the machine that they hit was
// doing.
type Cover struct {
	marks map[string]int
	hits  map[string]map[string]int // by what a machine did, then fault
}

// NewCover returns an empty one.
func NewCover() *Cover { return &Cover{map[string]int{}, map[string]map[string]int{}} }

// Mark counts something that happened.
func (c *Cover) Mark(what string) { c.marks[what]++ }

// Hit counts a fault that came while a machine was doing something.
func (c *Cover) Hit(doing, fault string) {
	if c.hits[doing] == nil {
		c.hits[doing] = map[string]int{}
	}
	c.hits[doing][fault]++
}

// Add adds what another has counted.
func (c *Cover) Add(o *Cover) {
	for what, n := range o.marks {
		c.marks[what] += n
	}
	for doing, faults := range o.hits {
		for fault, n := range faults {
			c.Hit(doing, fault)
			c.hits[doing][fault] += n - 1
		}
	}
}

// Missing returns those of the marks that were never counted, and those of the hits,
// which are named "doing × fault".
func (c *Cover) Missing(wanted []string) (missing []string) {
	for _, what := range wanted {
		doing, fault, isHit := strings.Cut(what, " × ")
		if isHit && c.hits[doing][fault] == 0 || !isHit && c.marks[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

// String returns the marks and the table of hits.
func (c *Cover) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c.marks)) {
		fmt.Fprintf(&b, "%9d  %s\n", c.marks[what], what)
	}
	columns := map[string]bool{}
	for _, faults := range c.hits {
		for fault := range faults {
			columns[fault] = true
		}
	}
	faults := slices.Sorted(maps.Keys(columns))
	fmt.Fprintf(&b, "\n%-24s", "while a machine was in")
	for _, fault := range faults {
		fmt.Fprintf(&b, "%*s", len(fault)+2, fault)
	}
	for _, doing := range slices.Sorted(maps.Keys(c.hits)) {
		fmt.Fprintf(&b, "\n%-24s", doing)
		for _, fault := range faults {
			fmt.Fprintf(&b, "%*d", len(fault)+2, c.hits[doing][fault])
		}
	}
	return b.String()
}
