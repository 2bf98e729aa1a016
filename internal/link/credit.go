package link

import "errors"

var (
	// ErrCreditOverflow: the peer returned more credit than it had been sent
	// bytes. The link closes as a protocol error.
	ErrCreditOverflow = errors.New("link: peer returned more credit than was used; close the link")
	// ErrCreditExceeded: the peer sent credited records without credit for them.
	// The link closes as a protocol error.
	ErrCreditExceeded = errors.New("link: peer sent more than its credit; close the link")
)

// Credits. The receiver of a link grants a window of bytes in its admit. The
// sender pays for each credited record with its whole size, before the record
// enters the out queue, and waits if it cannot. The receiver returns credit when
// records have been consumed, in pieces of an eighth of the window or more.
//
// So the receiver may hold back up to an eighth of the window, less one byte,
// for ever. A record passes in the end if its size is at most
// window − window/8, which wire.MinWindow guarantees for wire.MaxRecord.

// CreditSender is the sender's half for one owner.
type CreditSender struct{ window, left int }

// NewCreditSender returns a sender that was granted window bytes.
func NewCreditSender(window int) *CreditSender {
	return &CreditSender{window: window, left: window}
}

// Take pays for a record of n bytes, or reports false and takes nothing.
func (s *CreditSender) Take(n int) bool {
	if n > s.left {
		return false
	}
	s.left -= n
	return true
}

// Grant adds n bytes that the peer returned. It returns ErrCreditOverflow, and
// adds nothing, if that is more than was taken.
func (s *CreditSender) Grant(n uint64) error {
	if n > uint64(s.window-s.left) {
		return ErrCreditOverflow
	}
	s.left += int(n)
	return nil
}

// Left returns the bytes that can be taken.
func (s *CreditSender) Left() int { return s.left }

// CreditReceiver is the receiver's half for one owner.
type CreditReceiver struct{ window, held, due int }

// NewCreditReceiver returns a receiver that granted window bytes.
func NewCreditReceiver(window int) *CreditReceiver {
	return &CreditReceiver{window: window}
}

// Received notes a credited record of n bytes. It returns ErrCreditExceeded if
// the peer had no credit for it.
func (r *CreditReceiver) Received(n int) error {
	if n > r.window-r.held {
		return ErrCreditExceeded
	}
	r.held += n
	return nil
}

// Consumed notes that n received bytes do not occupy this node any more. It
// returns how many bytes to give back in a Credit record now; 0: send none.
func (r *CreditReceiver) Consumed(n int) (grant int) {
	r.due += n
	if r.due < r.window/8 {
		return 0
	}
	grant, r.due = r.due, 0
	r.held -= grant
	return grant
}
