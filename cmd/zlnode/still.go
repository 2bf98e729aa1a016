package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/zlnode/zlnode"
)

// stoodKind is a kind of object that stands still while it moves with its node.
type stoodKind uint8

const (
	stoodActor    stoodKind = iota + 1 // in an Entry Spot
	stoodMember                        // of a PerActor room
	stoodWide                          // a SpotWide room
	stoodInRoom                        // a member of that
	stoodInstance                      // an Instance Spot
)

var stoodKinds = [...]stoodKind{stoodActor, stoodMember, stoodWide, stoodInRoom, stoodInstance}

// String returns the name that reports have.
func (k stoodKind) String() string {
	switch k {
	case stoodActor:
		return "actor"
	case stoodMember:
		return "per-actor member"
	case stoodWide:
		return "spot-wide room"
	case stoodInRoom:
		return "spot-wide member"
	case stoodInstance:
		return "instance"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// standstill is what an object remembers of its move: Captured is when that began, by the
// sharedClock, and 0 if nobody has moved it, or it goes on.
type standstill struct {
	Kind     stoodKind     `json:"kind"`
	Captured time.Duration `json:"captured"`
}

func captureNow(kind stoodKind) standstill { return standstill{kind, sharedClock()} }

// append writes it for states that are no JSON.
func (t standstill) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(append(b, byte(t.Kind)), uint64(t.Captured))
}

// parseStandstill reads it from the beginning of a state, and returns the rest.
func parseStandstill(b []byte) (t standstill, rest []byte, err error) {
	const size = 1 + 8
	if len(b) < size {
		return t, nil, fmt.Errorf("a state has %d bytes, want %d and more", len(b), size)
	}
	return standstill{stoodKind(b[0]), time.Duration(binary.BigEndian.Uint64(b[1:]))}, b[size:], nil
}

// stand are the times of all that came to one node process, by kind. Safe for concurrent use.
type stand struct{ times [len(stoodKinds)]latency }

func newStand() *stand {
	var s stand
	for i := range s.times {
		s.times[i] = newLatency()
	}
	return &s
}

func (s *stand) of(kind stoodKind) *latency { return &s.times[kind-stoodActor] }

// ownAddr is an object's own address.
type ownAddr interface {
	SendRaw(ctx context.Context, packet string, payload []byte) error
}

var _ ownAddr = zlnode.Addr{}

// restored sends an object that has just been restored a message, which waits there for the
// object to open, behind all that waited before: so its turn ends the standstill.
func (t standstill) restored(to ownAddr) {
	if t.Captured != 0 {
		// One that fails is missed in a count, and nothing else.
		go func() { _ = to.SendRaw(context.Background(), packetOpened, nil) }()
	}
}

// ended is the turn of that message. A second one, of another try, does nothing.
func (t *standstill) ended(s *stand) {
	if t.Captured != 0 {
		s.of(t.Kind).record(sharedClock() - t.Captured)
		t.Captured = 0
	}
}

// export returns the times, as they go from a process to another.
func (s *stand) export() (all [][]byte, err error) {
	for i := range s.times {
		b, err := s.times[i].export()
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// merge adds what another process has exported.
func (s *stand) merge(all [][]byte) error {
	if len(all) != len(s.times) {
		return fmt.Errorf("%d kinds of standstills came, not %d", len(all), len(s.times))
	}
	for i, b := range all {
		if err := s.times[i].merge(b); err != nil {
			return err
		}
	}
	return nil
}
