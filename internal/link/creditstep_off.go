//go:build !invariants

package link

// step marks the place before an access that other goroutines see. It is empty
// and costs nothing but in builds with the tag invariants.
func step() {}
