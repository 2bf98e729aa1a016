package witness

import (
	"encoding/binary"
	"strings"
	"time"
)

// Kind says what a record is of.
type Kind uint8

// The kinds. Op of messages names the sender and its number, that of Joins the operation.
const (
	TurnBegan  Kind = iota + 1 // Op is zero for callbacks
	TurnEnded                  // Failed: with an error
	Accepted                   // a message, by an object's queue
	Refused                    // a message that was accepted; Object is not known
	GateOpened                 // of the object: messages have turns from here on
	GateClosed
	Boundary      // the object's move is past the point from which the source takes it back
	Executed      // a message's handler; Count is the object's own count of those, 0: it keeps none
	Asked         // an operation, by who wants it; OneWay: and nobody answers
	Ended         // of an asked one, for who asked; Failed: with an error
	JoinWanted    // a handler has registered one
	JoinAdmitted  // OnActorJoin
	JoinedSpot    // OnJoinedActor
	LeftSpot      // OnLeaveActor; OwnerGen is that of where the Actor is
	JoinCompleted // OnJoinCompleted; Failed: not accepted
	Vacated       // by a process: all that lived there has left it; Object is not known
)

var kindNames = [...]string{
	"?", "TurnBegan", "TurnEnded", "Accepted", "Refused", "GateOpened", "GateClosed", "Boundary", "Executed", "Asked", "Ended",
	"JoinWanted", "JoinAdmitted", "JoinedSpot", "LeftSpot", "JoinCompleted", "Vacated",
}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "?"
}

// Flags of a record.
const (
	Failed uint8 = 1 << iota
	OneWay
)

// BoundSender is the bit of a sender's number that says that it is a client with a Session.
const BoundSender = 1 << 63

// Op names an operation: of a message the sender and the sender's number.
type Op [16]byte

// Message returns the name of a sender's message with that number.
func Message(sender, seq uint64) (op Op) {
	binary.BigEndian.PutUint64(op[:8], sender)
	binary.BigEndian.PutUint64(op[8:], seq)
	return op
}

// Sender and Seq are of a message.
func (op Op) Sender() uint64 { return binary.BigEndian.Uint64(op[:8]) }

// Seq is the sender's number of the message.
func (op Op) Seq() uint64 { return binary.BigEndian.Uint64(op[8:]) }

// Record is one thing that happened.
type Record struct {
	At       time.Duration // by the clock that Now reads
	Kind     Kind
	Flags    uint8
	Count    uint32
	Object   string // at most 16 bytes
	ObjGen   uint64
	OwnerGen uint64
	Op       Op
}

// recordBytes is the size of each. The kind is written last: where it is 0 there is none, or
// one that its process did not finish.
const (
	recordBytes = 64
	kindAt      = 8
)

// put writes all but the kind.
func (r *Record) put(b []byte) {
	binary.LittleEndian.PutUint64(b, uint64(r.At))
	b[9] = r.Flags
	binary.LittleEndian.PutUint32(b[12:], r.Count)
	copy(b[16:32], r.Object)
	binary.LittleEndian.PutUint64(b[32:], r.ObjGen)
	binary.LittleEndian.PutUint64(b[40:], r.OwnerGen)
	copy(b[48:], r.Op[:])
}

func parse(b []byte) Record {
	return Record{
		At: time.Duration(binary.LittleEndian.Uint64(b)), Kind: Kind(b[kindAt]), Flags: b[9], Count: binary.LittleEndian.Uint32(b[12:]),
		Object: strings.TrimRight(string(b[16:32]), "\x00"), ObjGen: binary.LittleEndian.Uint64(b[32:]), OwnerGen: binary.LittleEndian.Uint64(b[40:]),
		Op: Op(b[48:64]),
	}
}
