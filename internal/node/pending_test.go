package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
)

func TestAReplyFindsItsOwnRequestOnce(t *testing.T) {
	table := newPendingTable()
	var got []byte
	corr, err := table.add(completeFunc(func(r result) { got = r.payload }), 0)
	if err != nil {
		t.Fatal(err)
	}
	if table.complete(corr+1, result{}) {
		t.Error("a reply to nobody was taken")
	}
	if !table.complete(corr, result{payload: []byte("a")}) || string(got) != "a" {
		t.Errorf("got %q", got)
	}
	if table.complete(corr, result{payload: []byte("b")}) || string(got) != "a" {
		t.Error("a second reply was taken")
	}
	if n := table.count.Load(); n != 0 {
		t.Errorf("%d are waiting", n)
	}
}

func TestALostPeerEndsAllThatWaitAndAllThatCome(t *testing.T) {
	table := newPendingTable()
	ended := 0
	for range 100 {
		if _, err := table.add(completeFunc(func(r result) {
			if errors.Is(r.err, errkind.Unavailable) {
				ended++
			}
		}), 0); err != nil {
			t.Fatal(err)
		}
	}
	table.fail(errLinkLost)
	if ended != 100 {
		t.Errorf("%d of 100 ended", ended)
	}
	if _, err := table.add(completeFunc(func(result) { t.Error("completed") }), 0); err != errLinkLost {
		t.Errorf("added to a lost peer: %v", err)
	}
}

func TestTheSweeperEndsWhatIsLateAndOnlyThat(t *testing.T) {
	table := newPendingTable()
	ended := map[string]bool{}
	add := func(name string, deadline clock.Mono) {
		if _, err := table.add(completeFunc(func(r result) { ended[name] = r.err == errNoReply }), deadline); err != nil {
			t.Fatal(err)
		}
	}
	add("late", 100)
	add("in time", 101)
	add("somebody waits for it", 0)
	table.sweep(100)
	if len(ended) != 1 || !ended["late"] {
		t.Errorf("ended: %v", ended)
	}
}

// Reply, deadline and cancellation race for each request; each ends once, and a
// waiter that is used again never sees the result of an earlier request.
func TestARequestEndsOnceWhateverComesFirst(t *testing.T) {
	table := newPendingTable()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				w := waiters.Get().(*waiter)
				corr, err := table.add(w, 0)
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithCancel(t.Context())
				answered := make(chan bool, 1)
				go func() { answered <- table.complete(corr, result{codec: uint8(i)}) }()
				deadline := clock.Now().Add(time.Hour)
				switch (g + i) % 3 {
				case 0:
					cancel()
				case 1:
					deadline = clock.Now()
				}
				r := table.await(ctx, w, corr, deadline)
				cancel()
				if delivered := <-answered; delivered != (r.err == nil) {
					t.Errorf("the reply was taken: %v, the request ended with %v", delivered, r.err)
					return
				}
				if r.err == nil && r.codec != uint8(i) {
					t.Errorf("request %d got the reply of another", i)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := table.count.Load(); n != 0 {
		t.Errorf("%d are waiting", n)
	}
}
