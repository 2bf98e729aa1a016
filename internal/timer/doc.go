// Package timer runs the named timers of a node's objects: what timers an object has,
// and one scheduler for all of them.
//
// # The two halves
//
// A Set is the timers of one object. It is a value that gets the present time with
// each call and says which ticks are due; the object has none until its first timer.
// A Scheduler knows of each object only the one instant at which its Set has something
// to do, in an Entry. The object's shell ties them together:
//
//	Set.Register, Cancel   from the object's handlers
//	Set.Next               then tells when to look: Scheduler.Arm, or Disarm if never
//	Set.Due                when the Scheduler says so: what to queue to the mailbox
//	Set.Started            when a tick's turn comes: whether to call the handler
//	Set.Ended              when the handler has returned
//
// After each of them the Set may have something to do at another instant, also at
// once: so ask Next, and if it is not later than now, call Due without the Scheduler.
// The Scheduler's word is a hint: it may come when a Set has nothing due, since an
// Entry may be disarmed too late. Due decides.
//
// # What a timer does
//
// A timer has a name within its object. To register a name that is in use replaces
// its timer; each registration has a higher Generation than all before in its Set, and
// a tick of a generation that is not the present one is not run, though it be queued
// already. Cancel likewise stops every callback that has not started. A callback that
// runs is not stopped by either; the next one of that name waits until it has ended,
// whatever generation it is of.
//
// A timer is due Delay after its registration, and if it has a Period, again and again
// in its distance. But at most one tick of a name is queued or running. What becomes
// of the scheduled instants that pass meanwhile, or while the process stands still, is
// its Mode:
//
//	Coalesce    all that have passed become one callback
//	Skip        those that pass until the callback has ended are dropped: the next
//	            is the first scheduled instant after that
//	CatchUp     the last CatchUpMax of them get a callback each, one after the other
//	            without a pause; those before become part of the first of these
//	FixedDelay  there are none: the next is a Period after the callback has ended
//
// Instants of the first three are whole periods after the first: they never drift.
// Where several instants have passed before a tick could be queued, the tick of
// Coalesce and of Skip is the newest of them. Tick.Count tells how many instants have
// passed since the tick before, with the tick's own; so nothing is lost uncounted.
//
// # Moving, and the end
//
// Export writes down the registrations, with times left instead of instants, and what
// is queued and has not started; Import makes a Set of it for another process. Ticks in
// the mailbox must not travel beside that. The time between the two is not counted, as
// clocks of two processes cannot be compared. Fence ends a Set: whoever has lost the
// object calls it, and from then on nothing is due and no queued tick is valid.
//
// # Units and bounds
//
//	resolution of the Scheduler   1 ms; never early
//	name                          1 to NameBytesMax bytes of UTF-8
//	Delay                         0 (at once), or SpanMin to SpanMax: 1 ms to 10 years
//	Period                        0 (once), or the same
//	CatchUpMax                    1 to CatchUpLimit
//	timers of a Set               its limit, by default LimitDefault, at most LimitMax;
//	                              as many ticks of it are queued or running
//	an encoded State              1 + 8 + 2 bytes, and up to 308 for each timer
//
// # Goroutines
//
//	goroutine  count            owns               may block on           must never
//	driver     1 per Scheduler  the batch it fires  a shard's lock, time  run application code
//
// A Set has one user at a time: whoever holds the object's turn, or its lock. One
// goroutine and one timer of the operating system are enough for a whole Scheduler,
// since a callback only queues: a node then wakes up at most once per millisecond,
// however many processors it has, and not at all while nothing is due. Shards keep
// those apart that arm at the same time, and bound what the driver keeps locked.
//
// # What it costs
//
// To arm and to disarm take constant time and allocate nothing; neither does a timer
// that ticks. A Set searches its few timers from end to end.
package timer
