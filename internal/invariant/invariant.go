// Package invariant states laws that only a bug can break.
//
// Checks that are cheap and guard safety call Check and stay on in every build.
// Expensive ones stand behind `if invariant.Enabled`, which the build tag
// `invariants` sets; tests and CI run with it.
package invariant

import "fmt"

// Check panics with the formatted message if ok is false.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
