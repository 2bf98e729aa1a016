//go:build invariants

package link

import "sync/atomic"

// step marks the place before an access that other goroutines see; tests put
// other goroutines in there.
func step() {
	if f := stepHook.Load(); f != nil {
		(*f)()
	}
}

var stepHook atomic.Pointer[func()]
