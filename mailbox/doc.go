// Package mailbox is the one concurrent primitive of the engine: execution gates
// with lock-free queues, and the workers that run them.
//
// # The idea
//
// A Mailbox takes messages from any goroutine and gives them to its Consumer, one
// at a time and in order. It has no goroutine of its own. A mailbox that gets its
// first message enters the ready set of its Pool; a worker that takes it out of
// there holds the exclusive Claim, runs turns for a time budget, and then either
// lets the mailbox go idle or puts it back at the end. Readiness is a state of
// the mailbox and not a signal, so it cannot be lost together with a wake-up.
//
// Who consumes may change: by Claim.Become from inside a turn, or by Seal from
// outside. An object that moves away is sealed by the mover, which thereby becomes
// the mailbox's consumer: what is queued then is the work to save, what comes
// later is the hold, and after the move the same consumer forwards. Producers
// notice nothing and are never stopped. An object that ends becomes a consumer
// that refuses; a mailbox has no Close.
//
// # Lanes and groups
//
// A mailbox has two lanes: what PushLifecycle appends goes first, but after 8 such
// turns in a row another message has one, if one waits.
//
// A Group is one gate for several mailboxes, such as a room and its members: one turn
// of all of them runs at a time, and each keeps its own queue. A turn that waits by
// Claim.Yield lets the others of its group run meanwhile.
//
// # Blocking
//
// A consumer that waits stops its own mailbox only. If it says so, by
// Claim.Blocking, its worker's place is lent to another worker at once. If it
// does not, a monitor lends the place after 2 ms, if mailboxes wait. Workers that
// are more than there are places end when their claim has.
//
// # Bounds
//
//	messages of a mailbox   Limits; Push answers ErrFull and takes nothing
//	those of a pool         Config.Bytes beside 2 KiB for each mailbox; as above
//	control messages        the number that the framework has in use per object
//	lifecycle messages      the same; at most 8 turns of them before another's
//	a member of a group     16 turns in a row while others of the group wait
//	turns in a Yield        half of Config.MaxWorkers; beyond, Yield refuses
//	ready set               one entry per mailbox, part of the mailbox
//	time of a claim         Config.TimeBudget, checked between turns
//	workers                 Config.MaxWorkers; beyond, ready mailboxes wait
//
// # Goroutines
//
//	goroutine  count                      owns                     may block on      must never
//	worker     up to Config.MaxWorkers    the claim of a mailbox   application code  wait for another mailbox's turn
//	                                                                                 without Claim.Blocking
//	monitor    1 per Pool                 its notes on the places  a timer           run consumers
//
// # What the caller must do
//
//   - Use a Claim only inside the call that got it, on that goroutine.
//   - Give back, in Consume, what a message refers to, such as buffers; after
//     ErrFull too, since the message was not taken.
//   - End each message that was kept (Claim.Keep) by Unread or Release; until then it counts.
//   - Copy a message that is kept after Consume, and leave nothing in its place that
//     must not stay referenced.
//   - Bound the control messages.
//   - Close the Pool last, when the mailboxes are empty: what is queued then stays
//     in them.
//
// # What it costs
//
// A push and its turn allocate nothing in the steady state: queue nodes are
// pooled in blocks of 16 KiB or less, in which they are used in the order in which they
// lie. An idle mailbox is 192 bytes and no more. A worker that finds nothing looks about a
// microsecond longer and then parks; an idle pool uses no processor time. For figures run
// the benchmarks: what costs is cache lines that pass between cores.
package mailbox
