package clock

// Ticks returns a count of the processor that grows by 1 to 5 for each nanosecond, if it
// is Steady. It takes less time than Now, see BenchmarkTicks. It tells nothing but that
// less than Near ticks have gone by since an earlier call: then the present is still what
// Now said at that call. A process that was paused, or a count that has jumped, shows as
// more.
func Ticks() uint64

// Steady reports whether Ticks goes at one rate in all states of the processor.
var Steady = steady()

func steady() bool
