package main

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode"
)

// The world of `zlnode bench drain`: Actors with a state that says nothing, alone or in rooms.
const (
	holderType  = "holder"
	hallType    = "hall"
	packetGoIn  = "go-in"     // client → holder, one-way: the id of a room
	packetInfos = "residents" // client → hall, request: nothing; the number of its members

	// lookEvery is the time between two looks at a process's memory.
	lookEvery = 2 * time.Millisecond
)

// holder is an Actor with a state. Only its turns touch it.
type holder struct {
	state  []byte
	inHall bool
	self   ownAddr
	still  standstill
}

// holderMover is the state adapter of holders. The first bytes of what travels are the
// standstill; the rest is the state, captured and restored as a copy, as of values that change.
type holderMover struct{}

func (holderMover) Capture(h *holder) ([]byte, error) {
	kind := stoodActor
	if h.inHall {
		kind = stoodInRoom
	}
	return append(captureNow(kind).append(nil), h.state...), nil
}

func (holderMover) Restore(h *holder, b []byte) (err error) {
	h.still, b, err = parseStandstill(b)
	h.inHall = h.still.Kind == stoodInRoom
	h.state = append([]byte(nil), b...)
	h.still.restored(h.self)
	return err
}

// hall is a SpotWide room.
type hall struct {
	self  ownAddr
	still standstill
}

type hallMover struct{}

func (hallMover) Capture(*hall) ([]byte, error) { return captureNow(stoodWide).append(nil), nil }

func (hallMover) Restore(h *hall, b []byte) (err error) {
	h.still, _, err = parseStandstill(b)
	h.still.restored(h.self)
	return err
}

// drainWorld registers the types. Their values have so many bytes of state in the beginning.
func drainWorld(stood *stand, stateBytes int) *zlnode.App {
	app := zlnode.NewApp()
	holders := zlnode.DefineActor(app, holderType, func(c *zlnode.ActorContext) (*holder, error) {
		return &holder{state: make([]byte, stateBytes), self: c.Node().Actor(c.ID())}, nil
	}, zlnode.PreserveStateWith[holder](holderMover{}))
	zlnode.OnSendRaw(holders, packetOpened, func(_ *zlnode.ActorCall, h *holder, _ []byte) error {
		h.still.ended(stood)
		return nil
	})
	zlnode.OnSendRaw(holders, packetGoIn, func(c *zlnode.ActorCall, h *holder, room []byte) error {
		h.inHall = true
		return c.JoinSpot(string(room), nil).Timeout(drainJoinTime).Defer()
	})
	halls := zlnode.DefineUserSpot(app, hallType, func(c *zlnode.SpotContext) (*hall, error) {
		return &hall{self: c.Node().Spot(c.ID())}, nil
	}, zlnode.SpotWide, zlnode.PreserveStateWith[hall](hallMover{}))
	zlnode.OnSpotSendRaw(halls, packetOpened, func(_ *zlnode.SpotCall, h *hall, _ []byte) error {
		h.still.ended(stood)
		return nil
	})
	zlnode.OnSpotRequest(halls, packetInfos, func(c *zlnode.SpotCall, _ *hall, _ struct{}) (int, error) {
		return c.Members(), nil
	})
	return app
}

// memoryUse is how much of a process's heap is in use, in bytes, garbage included.
type memoryUse struct {
	Base uint64 `json:"base"` // when the measurement began, behind a collection
	Peak uint64 `json:"peak"` // since then
	Now  uint64 `json:"now"`  // behind a collection
}

// memoryWatch looks at the heap of this process until it is stopped.
type memoryWatch struct {
	base uint64
	peak atomic.Uint64
	end  chan struct{}
	done sync.WaitGroup
}

func watchMemory() *memoryWatch {
	w := &memoryWatch{base: heapBehindCollection(), end: make(chan struct{})}
	w.peak.Store(w.base)
	w.done.Go(func() {
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-look.C:
				w.peak.Store(max(w.peak.Load(), heapInUse()))
			case <-w.end:
				return
			}
		}
	})
	return w
}

// stop ends the watch. It is nil-safe: nothing was watched then.
func (w *memoryWatch) stop() memoryUse {
	if w == nil {
		return memoryUse{}
	}
	close(w.end)
	w.done.Wait()
	return memoryUse{w.base, max(w.peak.Load(), heapInUse()), heapBehindCollection()}
}

func heapBehindCollection() uint64 {
	runtime.GC()
	return heapInUse()
}

// heapInUse returns the bytes of objects in the heap that no collection has freed.
func heapInUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
