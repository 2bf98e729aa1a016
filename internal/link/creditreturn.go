package link

import "sync/atomic"

// CreditReturn is CreditReceiver for many consumers: Received is called by the
// link's loop alone, Consumed by anybody. Safe for concurrent use.
//
// held counts the bytes received and not yet given back, due the part of them
// that is consumed. due ≤ held, and held ≤ window as long as the peer keeps to
// its credit: credit leaves held before the caller can send it, so the peer can
// never use it before it is counted.
//
// No credit is lost: every byte enters due once and leaves it by a Swap that
// returns it to exactly one caller, and whoever raises due to an eighth of the
// window swaps. Two that do so at once share the sum between them; one of them
// may get 0.
type CreditReturn struct {
	window int64
	step   int64
	held   atomic.Int64
	due    atomic.Int64
}

// NewCreditReturn returns a receiver that granted window bytes.
func NewCreditReturn(window int) *CreditReturn {
	return &CreditReturn{window: int64(window), step: int64(window) / 8}
}

// Received notes a credited record of n bytes. It returns ErrCreditExceeded if
// the peer had no credit for it. Loop only.
func (r *CreditReturn) Received(n int) error {
	if r.held.Add(int64(n)) > r.window {
		return ErrCreditExceeded
	}
	return nil
}

// Consumed notes that n received bytes do not occupy this node any more. It
// returns how many bytes to give back in a Credit record now; 0: send none.
func (r *CreditReturn) Consumed(n int) (grant int) {
	step()
	if r.due.Add(int64(n)) < r.step {
		return 0
	}
	step()
	g := r.due.Swap(0)
	step()
	r.held.Add(-g)
	return int(g)
}

// Held returns the bytes received and not yet given back.
func (r *CreditReturn) Held() int { return int(r.held.Load()) }

// Open returns about how many of the bytes received are not consumed yet.
func (r *CreditReturn) Open() int { return int(r.held.Load() - r.due.Load()) }
