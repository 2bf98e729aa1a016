package balance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

// The vectors were worked out by hand.
//
//	candidates   name=weight …; those of before go on with what they have gained
//	next         n times: the names that are chosen
//	instead      the names in the order in which they are tried, the chosen one first;
//	             of all or of so many
//	gained       name=what it has gained …
func TestVectors(t *testing.T) {
	datadriven.Walk(t, "testdata/vectors", func(t *testing.T, path string) {
		c := New(nil, nil)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out []string
			switch d.Cmd {
			case "candidates":
				var all []Candidate
				for _, f := range strings.Fields(d.Input) {
					name, weight, _ := strings.Cut(f, "=")
					n, err := strconv.Atoi(weight)
					if err != nil {
						t.Fatalf("%s: %v", d.Pos, err)
					}
					all = append(all, Candidate{name, n})
				}
				c = New(all, c)
				return ""
			case "next":
				times := 1
				d.MaybeScanArgs(t, "times", &times)
				for range times {
					out = append(out, c.name(c.Next()))
				}
			case "instead":
				tried, tries := make([]bool, c.Len()), c.Len()
				d.MaybeScanArgs(t, "tries", &tries)
				for i := c.Next(); i >= 0; i = c.Instead(i, func(i int) bool { return tried[i] }) {
					tried[i] = true
					if out = append(out, c.name(i)); len(out) == tries {
						break
					}
				}
			case "gained":
				for i, of := range c.of {
					out = append(out, fmt.Sprint(of.Name, "=", c.gained[i]))
				}
			default:
				t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
			}
			return strings.Join(out, " ") + "\n"
		})
	})
}

func (c *Chooser) name(i int) string {
	if i < 0 {
		return "none"
	}
	return c.of[i].Name
}

func genCandidates(t *rapid.T) (all []Candidate) {
	for i, w := range rapid.SliceOfN(rapid.IntRange(1, 50), 1, 8).Draw(t, "weights") {
		all = append(all, Candidate{string(rune('a' + i)), w})
	}
	return all
}

// In each run of as many choices as the weights sum up to, each candidate is chosen exactly as
// often as its weight says; and at no time is it more than one choice, or a little more with
// many candidates, away from its share.
func TestChoicesAreProportionalAndSmooth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := genCandidates(t)
		c := New(all, nil)
		sum := int(c.sum)
		chosen := make([]int, len(all))
		for n := 1; n <= 3*sum; n++ {
			chosen[c.Next()]++
			for i, of := range all {
				off := float64(chosen[i]) - float64(n)*float64(of.Weight)/float64(sum)
				if off >= float64(len(all)) || off <= -float64(len(all)) {
					t.Fatalf("after %d choices %s was chosen %d times, %v off its share", n, of.Name, chosen[i], off)
				}
				if n%sum == 0 && chosen[i] != n/sum*of.Weight {
					t.Fatalf("after %d rounds %s of weight %d was chosen %d times", n/sum, of.Name, of.Weight, chosen[i])
				}
			}
		}
	})
}

// reference is the definition, by names and without care.
type reference map[string]int64

func (r reference) next(all []Candidate) string {
	sum, best := int64(0), ""
	now := reference{}
	for _, c := range all {
		now[c.Name] = r[c.Name] + int64(c.Weight)
		sum += int64(c.Weight)
	}
	for name, g := range now {
		if best == "" || g > now[best] || g == now[best] && name < best {
			best = name
		}
	}
	clear(r)
	for name, g := range now {
		r[name] = g
	}
	if best != "" {
		r[best] -= sum
	}
	return best
}

func TestChoicesAreThoseOfTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, c := reference{}, New(nil, nil)
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			all := rapid.Permutation(genCandidates(t)).Draw(t, "order")
			all = all[:rapid.IntRange(1, len(all)).Draw(t, "left")]
			c = New(all, c)
			for range rapid.IntRange(1, 30).Draw(t, "choices") {
				if got, want := c.name(c.Next()), r.next(all); got != want {
					t.Fatalf("chosen %s, want %s", got, want)
				}
			}
		}
	})
}

// Sums stay as they are, each is tried once, and if all are in vain nothing has happened.
func TestInsteadTriesEachOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := genCandidates(t)
		c := New(all, nil)
		for range rapid.IntRange(1, 20).Draw(t, "choices") {
			tried := map[int]bool{}
			most := rapid.IntRange(1, len(all)+1).Draw(t, "tries")
			before := slices.Clone(c.gained)
			for i := c.Next(); i >= 0 && len(tried) < most; i = c.Instead(i, func(i int) bool { return tried[i] }) {
				if tried[i] {
					t.Fatalf("%s is tried twice", all[i].Name)
				}
				tried[i] = true
			}
			if most > len(all) && !slices.Equal(c.gained, before) {
				t.Fatalf("gained %v, and before %v", c.gained, before)
			}
			if len(tried) != min(most, len(all)) {
				t.Fatalf("%d of %d were tried", len(tried), len(all))
			}
			sum := int64(0)
			for _, g := range c.gained {
				sum += g
			}
			if sum != 0 {
				t.Fatalf("gained %v", c.gained)
			}
		}
	})
}

// One that cannot be used for long is not owed what it has missed, and the others have their
// shares of it.
func TestWhoCannotBeUsedGainsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := append(genCandidates(t), Candidate{"z", 1})
		c := New(all, nil)
		full := rapid.IntRange(0, len(all)-1).Draw(t, "full")
		sum := int(c.sum) - all[full].Weight
		chosen := make([]int, len(all))
		for n := 1; n <= 20*sum; n++ {
			i := c.Next()
			if i == full {
				i = c.Instead(i, func(i int) bool { return i == full })
			}
			chosen[i]++
			if c.gained[full] >= 2*c.sum {
				t.Fatalf("after %d choices it is owed %d of %d", n, c.gained[full], c.sum)
			}
			for i, of := range all {
				if i == full {
					continue
				}
				off := float64(chosen[i]) - float64(n)*float64(of.Weight)/float64(sum)
				if most := float64(2 * len(all)); off >= most || off <= -most {
					t.Fatalf("after %d choices %s was chosen %d times, %v off its share", n, of.Name, chosen[i], off)
				}
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, n := range []int{3, 100} {
		b.Run(fmt.Sprint("candidates=", n), func(b *testing.B) {
			var all []Candidate
			for i := range n {
				all = append(all, Candidate{fmt.Sprint("node-", i), 1 + i%5})
			}
			c := New(all, nil)
			b.ReportAllocs()
			for b.Loop() {
				c.Next()
			}
		})
	}
}
