package main

import (
	"fmt"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// receivers count what the actors of this process get.
type receivers struct {
	actors []received
	window *window
	step   int64 // arrivals of one actor are given back to the window by so many; a power of 2
}

// received has a cache line of its own.
type received struct {
	n     atomic.Int64
	pairs atomic.Int64 // of a stop and a start of a timer
	_     [48]byte
}

var env receivers

// Recv is called by an actor for each one-way message.
func (r *receivers) Recv(actor int, stamp int64) {
	if n := r.actors[actor].n.Add(1); n&(r.step-1) == 0 {
		r.window.give(r.step)
	}
	if stamp != 0 {
		took.add(now() - stamp)
	}
}

func (r *receivers) sum() (n int64) {
	for i := range r.actors {
		n += r.actors[i].n.Load()
	}
	return n
}

// roomTurns counts what the members of a room get as state of a room is kept: nothing
// guards it against turns at the same time, of which some would be lost here.
var roomTurns struct {
	_ [64]byte
	n int64
	_ [56]byte
}

// RecvInRoom is Recv for the member of a room.
func (r *receivers) RecvInRoom(member int, stamp int64) {
	roomTurns.n++
	r.Recv(member, stamp)
}

func measureTell(p Peer) {
	if p.Local == nil {
		skip(p)
		return
	}
	chunk := startReceivers()
	tell, _, stop := p.Local(*fActors)
	measureSends(p, chunk, stamping(tell), env.sum)
	end(stop)
}

func measureRoom(p Peer) {
	if p.Room == nil {
		skip(p)
		return
	}
	chunk := startReceivers()
	tell, stop := p.Room(*fActors)
	measureSends(p, chunk, stamping(tell), env.sum)
	if all := env.sum(); roomTurns.n != all {
		warn(p, "%d of %d turns counted: some ran at the same time", roomTurns.n, all)
	}
	end(stop)
}

// stamping sends payloads of which each chunk's first carries the time.
func stamping(tell tellFunc) func(producer, actor int, k int64) {
	return func(producer, actor int, k int64) {
		payload := sharedPayload
		if k == 0 {
			payload = stamped()
		}
		tell(producer, actor, payload)
	}
}

// startReceivers makes env, and says how many messages a sender takes of its window at
// once. Together, what senders have taken and not sent and what actors have got and not
// given back is half a window at most; else they might wait for each other.
func startReceivers() (chunk int64) {
	step := max(min(64, *fWindow/(4**fActors)), 1)
	env = receivers{make([]received, *fActors), newWindow(*fWindow), 1 << (bits.Len(uint(step)) - 1)}
	return int64(max(min(64, *fWindow/(4**fP)), 1))
}

// measureSends has each producer go round the actors with one-way messages, k being the
// message's place in its chunk, and checks that all arrive.
func measureSends(p Peer, chunk int64, send func(producer, actor int, k int64), count func() int64) {
	sent := make([]int64, *fP)
	var wg sync.WaitGroup
	for i := range sent {
		wg.Go(func() {
			for to := first(i); env.window.take(chunk); sent[i] += chunk {
				for k := range chunk {
					send(i, to, k)
					if to++; to == *fActors {
						to = 0
					}
				}
			}
		})
	}
	measure(p, count, here)
	env.window.close()
	wg.Wait()
	checkArrivals(p, sent)
}

// first is the actor that a producer begins with; from there it goes round.
func first(producer int) int { return producer * *fActors / *fP }

// checkArrivals waits until as many messages have arrived as were sent, and compares
// what each actor got with what was sent to it.
func checkArrivals(p Peer, sent []int64) {
	var all int64
	for _, n := range sent {
		all += n
	}
	for end := time.Now().Add(5 * time.Second); env.sum() < all && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // what comes twice may come late
	wrong, actors := 0, int64(*fActors)
	for a := range env.actors {
		var want int64
		for i, n := range sent {
			want += n / actors
			if (int64(a-first(i))+actors)%actors < n%actors {
				want++
			}
		}
		if env.actors[a].n.Load() != want {
			wrong++
		}
	}
	if wrong > 0 {
		warn(p, "%d sent, %d arrived; %d of %d actors got not what was sent to them", all, env.sum(), wrong, actors)
	}
}

func measureAsk(p Peer) {
	if p.Local == nil {
		skip(p)
		return
	}
	env = receivers{make([]received, *fActors), newWindow(*fWindow), 1}
	_, ask, stop := p.Local(*fActors)
	if ask == nil {
		skip(p)
		return
	}
	measureAskers(p, askersOf(func(i int, payload []byte) error { return ask(i, i%*fActors, payload) }), here)
	end(stop)
}

var failed atomic.Int64

// askersOf makes goroutines that ask one request after the other.
func askersOf(ask func(asker int, payload []byte) error) func(stop <-chan struct{}, done func(ns int64)) {
	return func(stop <-chan struct{}, done func(ns int64)) {
		var wg sync.WaitGroup
		for i := range *fP {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					start := time.Now()
					if err := ask(i, sharedPayload); err != nil {
						if failed.Add(1) == 1 {
							fmt.Fprintln(os.Stderr, "ask:", err)
						}
						continue
					}
					done(int64(time.Since(start)))
				}
			})
		}
		wg.Wait()
	}
}

func measureAskers(p Peer, askers func(stop <-chan struct{}, done func(ns int64)), used func() usage) {
	var answered atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		askers(stop, func(ns int64) { answered.Add(1); took.add(ns) })
	}()
	measure(p, answered.Load, used)
	close(stop)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		warn(p, "an asker got no answer")
	}
	if n := failed.Load(); n > 0 || answered.Load() == 0 {
		warn(p, "%d requests failed, %d were answered", n, answered.Load())
	}
}
