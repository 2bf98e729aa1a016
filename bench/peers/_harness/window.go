package main

import (
	"sync"
	"sync/atomic"
)

// window bounds the messages under way. Senders wait asleep, and wake when half of
// it is free, so that waiting takes no processor from those who receive.
type window struct {
	size    int64
	_       [56]byte
	taken   atomic.Int64 // written by senders
	_       [56]byte
	back    atomic.Int64 // written by receivers
	_       [56]byte
	waiting atomic.Int64 // read by receivers, seldom written
	closed  atomic.Bool
	mu      sync.Mutex
	half    sync.Cond // is free, or the window closed
}

func newWindow(size int) *window {
	w := &window{size: int64(size)}
	w.half.L = &w.mu
	return w
}

// take waits until n more messages may be under way. It returns false when the
// window is closed; then they must not be sent.
//
// No wake-up is lost: a sender says that it waits before it looks at back for the
// last time, and give writes back before it looks for waiting senders.
func (w *window) take(n int64) bool {
	if upTo := w.taken.Add(n) - w.size; upTo > w.back.Load() {
		w.mu.Lock()
		w.waiting.Add(1)
		for upTo > w.back.Load() && !w.closed.Load() {
			w.half.Wait()
		}
		w.waiting.Add(-1)
		w.mu.Unlock()
	}
	return !w.closed.Load()
}

// give says that n messages have arrived.
func (w *window) give(n int64) {
	if back := w.back.Add(n); w.waiting.Load() > 0 && w.taken.Load()-back <= w.size/2 {
		w.mu.Lock()
		w.half.Broadcast()
		w.mu.Unlock()
	}
}

// close ends all waiting.
func (w *window) close() {
	w.closed.Store(true)
	w.mu.Lock()
	w.half.Broadcast()
	w.mu.Unlock()
}
