package main

import (
	"encoding/binary"
	"fmt"
)

// Names of packets. What is sent all the time has a small fixed binary layout,
// big-endian; login and totals are JSON.
const (
	packetLogin    = "login"    // client → session: loginRequest, loginReply
	packetAct      = "act"      // client → player, request: op; answer
	packetMove     = "move"     // client → player, one-way: op
	packetMoved    = "moved"    // player → client: answer, push number
	packetTotal    = "total"    // client → player, request: nothing; totals
	packetReport   = "report"   // player → arena, one-way: report number, player
	packetReceived = "received" // player → arena, request: player; seen
)

// loginRequest says who logs in and which arena the player plays in.
type loginRequest struct {
	Player string `json:"player"`
	Arena  string `json:"arena"`
}

// loginReply says at which nodes the two Actors live.
type loginReply struct {
	PlayerRID string `json:"player_rid"`
	ArenaRID  string `json:"arena_rid"`
}

// totals is what a player Actor has done and seen.
type totals struct {
	Ops     seen   `json:"ops"` // as they came from the client
	Chain   uint64 `json:"chain,string"`
	Pushes  uint64 `json:"pushes,string"`  // sent to the client
	Reports uint64 `json:"reports,string"` // sent to the arena
	Arena   seen   `json:"arena"`          // those reports, as the arena saw them
	// ArenaLost: the arena's node is gone, and Arena is not known.
	ArenaLost bool `json:"arena_lost"`
}

// answer says what the Actor had executed when it answered an op.
type answer struct {
	op       uint64
	position uint64 // how many ops, this one included
	chain    uint64 // over their numbers
}

const (
	opSize     = 8
	answerSize = 3 * 8
	movedSize  = answerSize + 8
)

func appendOp(b []byte, op uint64) []byte { return binary.BigEndian.AppendUint64(b, op) }

func parseOp(b []byte) (uint64, error) {
	if len(b) != opSize {
		return 0, fmt.Errorf("an op has %d bytes, want %d", len(b), opSize)
	}
	return binary.BigEndian.Uint64(b), nil
}

func appendAnswer(b []byte, a answer) []byte {
	b = binary.BigEndian.AppendUint64(b, a.op)
	b = binary.BigEndian.AppendUint64(b, a.position)
	return binary.BigEndian.AppendUint64(b, a.chain)
}

func parseAnswer(b []byte) (answer, error) {
	if len(b) != answerSize {
		return answer{}, fmt.Errorf("an answer has %d bytes, want %d", len(b), answerSize)
	}
	return answer{
		op:       binary.BigEndian.Uint64(b),
		position: binary.BigEndian.Uint64(b[8:]),
		chain:    binary.BigEndian.Uint64(b[16:]),
	}, nil
}

func appendMoved(b []byte, a answer, push uint64) []byte {
	return binary.BigEndian.AppendUint64(appendAnswer(b, a), push)
}

func parseMoved(b []byte) (a answer, push uint64, err error) {
	if len(b) != movedSize {
		return a, 0, fmt.Errorf("a moved push has %d bytes, want %d", len(b), movedSize)
	}
	a, err = parseAnswer(b[:answerSize])
	return a, binary.BigEndian.Uint64(b[answerSize:]), err
}

func appendReport(b []byte, n uint64, player string) []byte {
	return append(binary.BigEndian.AppendUint64(b, n), player...)
}

// parseReport returns a view of the player's name.
func parseReport(b []byte) (n uint64, player []byte, err error) {
	if len(b) <= 8 {
		return 0, nil, fmt.Errorf("a report has %d bytes, want more than 8", len(b))
	}
	return binary.BigEndian.Uint64(b), b[8:], nil
}
