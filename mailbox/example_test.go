package mailbox_test

import (
	"context"
	"fmt"

	"github.com/zlnode/zlnode/mailbox"
)

// account is an object that one turn at a time changes, so it has no lock.
type account struct {
	balance int
	closed  chan struct{}
}

func (a *account) Begin(*mailbox.Claim[int]) { fmt.Println("open") }

func (a *account) Consume(c *mailbox.Claim[int], amount *int) {
	if *amount == 0 {
		fmt.Println("balance", a.balance)
		c.Become(refusing{})
		close(a.closed)
		return
	}
	a.balance += *amount
}

// refusing is the consumer of an object that has ended.
type refusing struct{}

func (refusing) Begin(*mailbox.Claim[int])         {}
func (refusing) Consume(*mailbox.Claim[int], *int) {}

func Example() {
	pool := mailbox.NewPool(mailbox.Config{})
	a := &account{closed: make(chan struct{})}
	m := mailbox.New(pool, a, mailbox.Limits{})
	for _, amount := range []int{100, -30, 0} {
		if err := m.Push(amount, 8); err != nil {
			fmt.Println(err)
		}
	}
	<-a.closed
	if err := pool.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// open
	// balance 70
}

// hold is the consumer that a move puts in place of the object: it keeps what
// comes until it knows where to send it.
type hold struct {
	began chan struct{}
	kept  chan string
}

func (h *hold) Begin(*mailbox.Claim[string])                { close(h.began) }
func (h *hold) Consume(_ *mailbox.Claim[string], v *string) { h.kept <- *v }

type printer struct{}

func (printer) Begin(*mailbox.Claim[string])                {}
func (printer) Consume(_ *mailbox.Claim[string], v *string) { fmt.Println("handled", *v) }

func ExampleMailbox_Seal() {
	pool := mailbox.NewPool(mailbox.Config{})
	m := mailbox.New(pool, printer{}, mailbox.Limits{})
	h := &hold{began: make(chan struct{}), kept: make(chan string, 1)}
	m.Seal(h)
	<-h.began // no turn of the printer runs any more
	_ = m.Push("after the seal", 14)
	fmt.Println("held", <-h.kept)
	if err := pool.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: held after the seal
}
