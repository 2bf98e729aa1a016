package mailbox

import "sync/atomic"

// A cost is a message's share of a budget: a count of one in the upper 24 bits,
// its bytes in the lower 40. Sums may wrap around, but the difference of two sums
// is exact as long as what it stands for fits the two fields.
const (
	costBits  = 40
	costBytes = 1<<costBits - 1
	costOne   = 1 << costBits
	costCount = 1<<(64-costBits) - 1

	costControl uint64 = 0         // a message outside the budget
	costMarker  uint64 = 1<<64 - 1 // no message, it only makes the mailbox ready
)

func costOf(bytes int) uint64 {
	if bytes < 0 {
		panic("mailbox: Push of a message of negative size")
	}
	return costOne + min(uint64(bytes)+messageOverhead, costBytes)
}

// budget bounds what is admitted and not finished. What is in use is the
// difference of two sums that only grow: the costs admitted, which producers add
// to, and the costs finished, which the claim's holder adds to after each turn.
// They are on two cache lines, so that neither side's writes disturb the other:
// producers compare with seen, an older value of finished, and read finished
// itself only when seen leaves no room. One counter for both is simpler, but took
// a fifth longer in BenchmarkPushConsume, since each turn takes its cache line
// away from the producers.
//
// The budget is exact: reserve succeeds if and only if at one moment of the call
// the cost fitted beside all that was in use at that moment; unless the quota refuses a
// grant, which is exact but for what shrink says.
//
//   - admitted-seen is at least what is in use, field by field, since seen is
//     behind finished, and never above the limits, since only a reservation that
//     fits adds to it. So it fits its fields. For this seen must not go back: it
//     changes by compare-and-swap only.
//   - A success: the swap of admitted shows that nothing was admitted since it was
//     read, so what is in use at the swap is at most what was compared.
//   - A refusal: finished was read while admitted did not change, so their
//     difference was what was in use at that read.
//
// A word that has wrapped around to the same value between the read and the swap
// would be taken as unchanged; that takes 2^24 messages in those nanoseconds.
type budget struct {
	admitted atomic.Uint64
	seen     atomic.Uint64
	max      uint64        // the limits, as a cost
	open     atomic.Uint64 // the bytes for which there are grants: see quota
}

func (b *budget) init(l Limits) {
	if l.Messages <= 0 {
		l.Messages = defaultMessages
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	b.open.Store(floor)
	b.max = uint64(min(l.Messages, costCount))<<costBits | uint64(min(l.Bytes, costBytes))
}

// fits reports whether cost has room beside used.
func (b *budget) fits(used, cost uint64) bool {
	return used>>costBits < b.max>>costBits &&
		used&costBytes+cost&costBytes <= b.max&costBytes
}

// granted reports whether there are grants for cost beside used.
func (b *budget) granted(used, cost uint64) bool {
	return used&costBytes+cost&costBytes <= b.open.Load()
}

// reserve takes cost from the budget if it has room. Safe for concurrent use.
func (b *budget) reserve(cost uint64, finished *atomic.Uint64, q *quota) bool {
	for {
		// admitted before seen: if admitted is unchanged at the swap, all that is in
		// seen was admitted before, and the difference is no less than 0.
		admitted := b.admitted.Load()
		seen := b.seen.Load()
		if !b.fits(admitted-seen, cost) || !b.granted(admitted-seen, cost) {
			now := finished.Load()
			if b.admitted.Load() != admitted {
				continue
			}
			if !b.fits(admitted-now, cost) || !b.grow((admitted-now)&costBytes+cost&costBytes, q) {
				return false
			}
			b.seen.CompareAndSwap(seen, now)
		}
		if b.admitted.CompareAndSwap(admitted, admitted+cost) {
			return true
		}
	}
}

// messages returns the number of messages in use.
func (b *budget) messages(finished *atomic.Uint64) int {
	done := finished.Load() // first, so that the difference is no less than 0
	return int((b.admitted.Load() - done) >> costBits)
}
