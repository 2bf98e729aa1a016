package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fanProcesses are those that the subscribers of fan-out are spread over, alike.
const fanProcesses = 4

// fanWindow is how many publications are under way at most, fanEvery of how many all
// copies make a confirmation; it divides fanWindow.
func fanWindow() (window, every int64) {
	if *fMode == "fanout1" {
		return 1, 1
	}
	return 64, 8
}

// subscriberMark, before the address of the server, says that this process has subscribers.
const subscriberMark = "subscribers of "

// subscribeChild has this process's share of the subscribers, and says so by a line, and by
// further ones how many copies they have got.
func subscribeChild(p Peer, addr string) {
	share := *fActors / fanProcesses
	_, every := fanWindow()
	var got atomic.Int64
	p.Subscribe(addr, share, func() {
		if n := got.Add(1); n%(every*int64(share)) == 0 {
			fmt.Println("GOT", n)
		}
	})
	fmt.Println("READY", addr)
	select {}
}

// fan is what the subscribers have confirmed.
type fan struct {
	window, every int64
	mu            sync.Mutex
	got           [fanProcesses]int64 // publications, of each process
	sentAt        []int64             // of those under way, by their numbers
	slots         chan struct{}       // one is taken for each that is under way
	all           atomic.Int64        // publications that all processes have got
}

// confirm notes that a process has got n publications.
func (f *fan) confirm(process int, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got[process] = max(n, f.got[process]) // two that were printed at once come in any order
	least := f.got[process]
	for _, other := range f.got {
		least = min(least, other)
	}
	for all := f.all.Load(); all < least; all = f.all.Add(f.every) {
		took.add(now() - f.sentAt[(all+f.every-1)%f.window])
		for range f.every {
			<-f.slots
		}
	}
}

// measureFanout has one goroutine publish to the subscribers of other processes.
func measureFanout(p Peer) {
	if p.Publish == nil {
		skip(p)
		return
	}
	*fActors -= *fActors % fanProcesses
	server := startServer()
	defer server.end()
	f := &fan{}
	f.window, f.every = fanWindow()
	f.sentAt, f.slots = make([]int64, f.window), make(chan struct{}, f.window)
	processes := []*child{server}
	for i := range fanProcesses {
		share := int64(*fActors / fanProcesses)
		c := startChild(subscriberMark+server.addr, func(copies int64) { f.confirm(i, copies/share) })
		defer c.end()
		processes = append(processes, c)
	}
	publish, stop := p.Publish(server.addr, fanProcesses)
	var over atomic.Bool
	sent, ended := int64(0), make(chan struct{})
	go func() {
		defer close(ended)
		for ; !over.Load() || sent%f.every != 0; sent++ { // else the last are not confirmed
			f.slots <- struct{}{}
			f.mu.Lock()
			f.sentAt[sent%f.window] = now()
			f.mu.Unlock()
			publish(sharedPayload)
		}
	}()
	copies := func() int64 { return f.all.Load() * int64(*fActors) }
	measure(p, copies, func() usage {
		sum := here()
		for _, c := range processes {
			sum = sum.plus(c.used())
		}
		return sum
	})
	over.Store(true)
	select {
	case <-ended:
		for end := time.Now().Add(5 * time.Second); f.all.Load() < sent && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if n := f.all.Load(); n != sent {
			warn(p, "%d published, %d got by all", sent, n)
		}
	case <-time.After(10 * time.Second):
		warn(p, "a subscriber misses something")
	}
	end(stop)
}

// subscribesTo returns the server's address if this process is one for subscribers.
func subscribesTo() (addr string, yes bool) {
	return strings.CutPrefix(os.Getenv(serverMark), subscriberMark)
}
