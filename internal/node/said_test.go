package node

import "testing"

// A panic that clients bring about at will must hide none of another place in the code.
func TestAPanicIsOfThePlaceWhereItBegan(t *testing.T) {
	var none map[string]int
	helper := func() { panic("in a helper") }
	seen := map[uintptr]string{}
	for name, f := range map[string]func(){
		"a panic":            func() { panic("one") },
		"another":            func() { panic("two") },
		"one of the runtime": func() { none["x"] = 1 },
		"another of it":      func() { _ = []int{}[len(none)] },
		"in a helper":        func() { helper() },
		"of a defer": func() {
			defer func() { panic("three") }()
			panic("two")
		},
	} {
		var sites [2]uintptr
		for i := range sites {
			func() {
				defer func() {
					if recover() != nil {
						sites[i] = panicSite()
					}
				}()
				f()
			}()
		}
		if sites[0] == 0 || sites[0] != sites[1] {
			t.Errorf("%s began at %#x, and again at %#x", name, sites[0], sites[1])
		}
		if other, known := seen[sites[0]]; known {
			t.Errorf("%s is at the place of %s", name, other)
		}
		seen[sites[0]] = name
	}
}
