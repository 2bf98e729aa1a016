//go:build race

package mailbox

// raceEnabled: sync.Pool forgets at random under the race detector, so nothing
// about allocations can be asserted.
const raceEnabled = true
