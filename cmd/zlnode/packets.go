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
	packetReceived = "received" // player or session → arena, request: player; received. client → session, request: loginRequest; received
	packetCheer    = "cheer"    // arena → player, one-way: number

	packetHop        = "hop"         // client → player, one-way: op, room
	packetHopped     = "hopped"      // player → client: hopped
	packetVisit      = "visit"       // client → session, request: visit; its number. session → player, one-way: number
	packetAskedVisit = "asked-visit" // session → player, request: number; number
	packetOpened     = "opened"      // an object that was restored → itself, one-way: nothing
	packetCensus     = "census"      // client → session, request: nothing; roomCensus of each. session → room, request: nothing; roomCensus
)

// loginRequest says who logs in and which arena the player plays in.
type loginRequest struct {
	Player string    `json:"player"`
	Arena  string    `json:"arena"`
	Kind   partyKind `json:"kind"`
}

// loginReply says at which nodes the two live; "": a Spot may be anywhere.
type loginReply struct {
	PlayerRID string `json:"player_rid"`
	ArenaRID  string `json:"arena_rid"`
	// Rooms are where the player may hop to, or is to.
	Rooms []roomPlace `json:"rooms"`
}

// visit is a message for a player that is not of its client.
type visit struct {
	Player string `json:"player"`
	Number uint64 `json:"number,string"`
	Ask    bool   `json:"ask"` // it is a request to the player
}

// hopped says how a hop ended. It answers an op, as a push.
type hopped struct {
	Op       uint64 `json:"op,string"`
	Position uint64 `json:"position,string"`
	Chain    uint64 `json:"chain,string"`
	Push     uint64 `json:"push,string"`

	Outcome string `json:"outcome"` // of the Join, such as outcomeRejected
	Failure string `json:"failure"` // its kind
	Why     string `json:"why"`
	RID     string `json:"rid"` // where the player is now
	Room    string `json:"room"`
	Crossed bool   `json:"crossed"` // it has changed its node

	TookNS   int64 `json:"took_ns,string"`   // from the end of the op's handler
	SealedNS int64 `json:"sealed_ns,string"` // of that from the capture of the state on, if it has crossed
}

// totals is what a player Actor has done and seen.
type totals struct {
	Ops     seen   `json:"ops"` // as they came from the client
	Chain   uint64 `json:"chain,string"`
	Pushes  uint64 `json:"pushes,string"`  // sent to the client
	Reports uint64 `json:"reports,string"` // sent to the arena
	// Arena is what the arena knows of this player.
	Arena received `json:"arena"`
	// ArenaLost: the arena's node is gone, and Arena is not known.
	ArenaLost bool   `json:"arena_lost"`
	Cheers    seen   `json:"cheers"` // as they came from the arena
	Visits    seen   `json:"visits"` // as they came from the visitor
	Crossed   uint64 `json:"crossed,string"`
	Hop       uint64 `json:"hop,string"` // the op of the hop that is under way; 0: none
	Room      string `json:"room"`       // the Spot that the player is in
}

// received is what an arena knows of a player.
type received struct {
	Reports seen   `json:"reports"`
	Cheers  uint64 `json:"cheers,string"` // that it has sent
	Failure string `json:"failure"`       // of the last one that it could not send
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

func appendHop(b []byte, op uint64, room string) []byte { return append(appendOp(b, op), room...) }

// parseHop returns views of the op and of the room's name, which is empty for none.
func parseHop(b []byte) (op, room []byte, err error) {
	if len(b) < opSize {
		return nil, nil, fmt.Errorf("a hop has %d bytes, want %d and a room", len(b), opSize)
	}
	return b[:opSize], b[opSize:], nil
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
