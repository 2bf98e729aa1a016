//go:build !amd64

package clock

// Ticks returns a count that grows by 1 for each nanosecond. It tells nothing but that
// less than Near ticks have gone by since an earlier call: then the present is still what
// Now said at that call.
func Ticks() uint64 { return uint64(Now()) }

// Steady reports whether Ticks goes at one rate in all states of the processor.
const Steady = true
