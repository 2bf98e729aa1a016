package wire

import (
	"slices"

	"github.com/zlnode/zlnode/internal/invariant"
)

// CarriedKind is what a message was when it reached the object's old owner.
type CarriedKind uint8

// The kinds. 0 is none.
const (
	CarriedSend           CarriedKind = 1
	CarriedRequest        CarriedKind = 2
	CarriedSessionSend    CarriedKind = 3 // of the client of a bound Session
	CarriedSessionRequest CarriedKind = 4 // the same, with a reply
	CarriedOffer          CarriedKind = 5 // with Instance intent, one-way; its sender waits until a queue has it
	CarriedIntentSend     CarriedKind = 6 // with Instance intent, one-way
	CarriedIntentRequest  CarriedKind = 7 // the same, with a reply
	CarriedTopic          CarriedKind = 8 // published to a topic to which the Spot subscribes
	CarriedNews           CarriedKind = 9 // no message: what became of the client of an Actor in the Spot
)

// Asks reports whether somebody waits for an answer.
func (k CarriedKind) Asks() bool {
	switch k {
	case CarriedRequest, CarriedSessionRequest, CarriedOffer, CarriedIntentRequest:
		return true
	default:
		return false
	}
}

// ToSpot reports whether only Spots get such ones.
func (k CarriedKind) ToSpot() bool { return k >= CarriedOffer }

// numbered reports whether Number is encoded.
func (k CarriedKind) numbered() bool { return k == CarriedTopic || k == CarriedNews }

// OfSession reports whether the message came through a binding.
func (k CarriedKind) OfSession() bool { return k == CarriedSessionSend || k == CarriedSessionRequest }

// MaxClientNews is the last of what a Spot is told of the client of an Actor in it: 0 that it is
// gone, 1 that it is away, 2 that it is back.
const MaxClientNews = 2

// carriedSpot is the flag bit of a Carried whose Spot is set.
const carriedSpot = 0x01

// Carried is a message that an object's old owner hands on to the new one, alone in a
// Relay or in the queue of a MoveState. The object is that of the move.
type Carried struct {
	Kind     CarriedKind
	Spot     bool   // it is meant for a User or Instance Spot; never of a session kind
	ObjGen   uint64 // ObjectGeneration that the sender wanted; 0: whatever is Ready; of news, the Actor's
	OwnerGen uint64 // AuthorityOwnerGeneration of the route used; 0: not known
	Op       uint64 // number of the operation within the sender's lifecycle; 0: not known
	// Origin is the process of the sender; of a session kind, of the Session's owner; of news, where
	// the Actor is.
	Origin Process
	// Via is the process that the sender sent it to. Correlation stands in the table of
	// Origin's link to it; without Via, in Origin's own.
	Via         Process
	Correlation uint64 // not 0 if the kind asks, else not encoded
	Session     uint64 // id of the Session at Origin, not 0; of session kinds, else not encoded
	BindingGen  uint64 // ≥ 1; with Session
	Topic       []byte // of CarriedTopic, else not encoded
	Number      uint64 // not 0, of the subscription; of news, the Actor's owner generation; else not encoded
	DeadlineMS  uint32 // what is left; if the kind asks 1 at least, else 0 means none
	Hops        uint8  // how often it was forwarded, at most MaxHops
	Name        []byte // of the packet; of news, the Actor's id
	Codec       uint8  // of the payload; of news, a ClientNews
	Metadata    []byte // encoded as in the STREAM header, or empty
	Payload     []byte
}

// carriedMin is the size of the shortest Carried but for one byte of each RID and name.
const carriedMin = 1 + 1 + 8 + 8 + 8 + (1 + 8) + (1 + 8) + 4 + 1 + 1 + 1 + 2 + 4

// maxCarried is the size of the largest Carried.
const maxCarried = carriedMin + 2*MaxRID + 1 + MaxID + 8 + MaxID + MaxMetadata + MaxPayload

const _ uint = MaxRecord - RelayHead - maxCarried // must not be negative

// Size returns the number of bytes that AppendTo appends.
func (c *Carried) Size() int {
	n := carriedMin + len(c.Origin.RID) + len(c.Via.RID) + len(c.Name) + len(c.Metadata) + len(c.Payload)
	if c.Kind.Asks() {
		n += 8
	}
	if c.Kind.OfSession() {
		n += 16
	}
	if c.Kind.numbered() {
		n += 8
	}
	if c.Kind == CarriedTopic {
		n += 1 + len(c.Topic)
	}
	return n
}

// AppendTo appends the message (no record header) to dst. It tells its own length, so
// that several can follow each other.
func (c *Carried) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = slices.Grow(dst, c.Size())
	dst = append(dst, byte(c.Kind), 0)
	if c.Spot {
		dst[len(dst)-1] = carriedSpot
	}
	dst = appendU64(dst, c.ObjGen)
	dst = appendU64(dst, c.OwnerGen)
	dst = appendU64(dst, c.Op)
	dst = c.Origin.appendTo(dst)
	dst = c.Via.appendTo(dst)
	if c.Kind.Asks() {
		dst = appendU64(dst, c.Correlation)
	}
	if c.Kind.OfSession() {
		dst = appendU64(dst, c.Session)
		dst = appendU64(dst, c.BindingGen)
	}
	if c.Kind == CarriedTopic {
		dst = appendS8(dst, c.Topic)
	}
	if c.Kind.numbered() {
		dst = appendU64(dst, c.Number)
	}
	dst = appendU32(dst, c.DeadlineMS)
	dst = append(dst, c.Hops)
	dst = appendS8(dst, c.Name)
	dst = append(dst, c.Codec)
	dst = appendMetadata(dst, c.Metadata)
	dst = appendU32(dst, uint32(len(c.Payload)))
	dst = appendPayload(dst, c.Payload, MaxPayload)
	if invariant.Enabled {
		_, rest, err := DecodeCarried(dst[start:])
		invariant.Check(err == nil && len(rest) == 0, "encoded a message that no peer accepts: %v", err)
	}
	return dst
}

// DecodeCarried reads the message at the start of b; rest is what follows it.
func DecodeCarried(b []byte) (c Carried, rest []byte, err error) {
	d := decoder{b: b, cmd: CmdRelay}
	d.carried(&c)
	return c, d.b, d.result()
}

func (d *decoder) carried(c *Carried) {
	c.Kind = CarriedKind(d.u8max("kind", uint8(CarriedNews)))
	if c.Kind == 0 {
		d.fail("kind", ErrEmpty)
	}
	c.Spot = d.flags(carriedSpot) != 0
	if c.Spot && c.Kind.OfSession() || !c.Spot && c.Kind.ToSpot() {
		d.fail("flags", ErrValue)
	}
	c.ObjGen = d.gen("objGen")
	c.OwnerGen = d.gen("ownerGen")
	c.Op = d.u64("op")
	c.Origin = d.process("origin.rid", "origin.lifecycle")
	c.Via = d.optionalProcess("via.rid", "via.lifecycle")
	if c.Kind.Asks() {
		c.Correlation = d.nonZero("correlation")
	}
	if c.Kind.OfSession() {
		c.Session = d.nonZero("session")
		c.BindingGen = d.someGen("bindingGen")
	}
	if c.Kind == CarriedTopic {
		c.Topic = d.id("topic")
	}
	if c.Kind.numbered() {
		c.Number = d.nonZero("number")
	}
	c.DeadlineMS = d.deadline(c.Kind.Asks())
	c.Hops = d.u8max("hops", MaxHops)
	c.Name = d.id("name")
	c.Codec = d.u8max("codec", MaxCodec)
	if c.Kind == CarriedNews && c.Codec > MaxClientNews {
		d.fail("codec", ErrValue)
	}
	c.Metadata = d.s16("metadata")
	n := d.u32("payload")
	if n > MaxPayload {
		d.fail("payload", ErrTooLarge)
	}
	c.Payload = d.bytes("payload", int(min(n, MaxPayload)))
}

// RelayHead is where the Carried of a Relay begins in the record, for the sum that the
// Cutover tells.
const RelayHead = HeaderSize + 16 + 4 + 8

// Relay hands a message on to the object's new owner. Records of an attempt are numbered:
// the receiver takes each number once, and in order.
type Relay struct {
	Relocation [16]byte // not zero
	Attempt    uint32   // ≥ 1
	Seq        uint64   // ≥ 1
	Message    Carried
}

// Size returns the size of the record.
func (r *Relay) Size() int { return RelayHead + r.Message.Size() }

// AppendTo appends the record to dst.
func (r *Relay) AppendTo(dst []byte) []byte {
	size := r.Size()
	dst = begin(dst, size, CmdRelay, 0)
	dst = appendAttempt(dst, &r.Relocation, r.Attempt)
	dst = appendU64(dst, r.Seq)
	return end(r.Message.AppendTo(dst), size)
}

// DecodeRelay reads the body of a CmdRelay.
func DecodeRelay(body []byte) (r Relay, err error) {
	d := decoder{b: body, cmd: CmdRelay}
	r.Relocation, r.Attempt = d.attempt()
	r.Seq = d.nonZero("seq")
	d.carried(&r.Message)
	return r, d.done()
}

// RelayedReply is the Reply or ErrorReply to a Carried on its way to the process that
// waits for it, over whichever nodes. It names the request as the Carried did.
type RelayedReply struct {
	To          Process // Origin of the request
	Via         Process // of the request
	Correlation uint64  // of the request, not 0
	Hops        uint8   // how often it was handed on, at most MaxHops
	// Success: FlagReply, with Codec and Payload. Else the others are set.
	Success     bool
	Codec       uint8
	Payload     []byte // at most MaxReplyPayload
	Kind        uint8  // number of an error kind, at most MaxErrorKind
	Text        []byte
	Stale       bool // FlagStale
	Application bool // FlagApplication
}

// Size returns the size of the record.
func (r *RelayedReply) Size() int {
	n := HeaderSize + r.To.size() + r.Via.size() + 8 + 1
	if r.Success {
		return n + 1 + len(r.Payload)
	}
	return n + 1 + 2 + len(clip(r.Text))
}

// AppendTo appends the record to dst.
func (r *RelayedReply) AppendTo(dst []byte) []byte {
	size, flags := r.Size(), uint8(0)
	if r.Success {
		flags |= FlagReply
	}
	if r.Stale {
		flags |= FlagStale
	}
	if r.Application {
		flags |= FlagApplication
	}
	dst = begin(dst, size, CmdRelayedReply, flags)
	dst = r.To.appendTo(dst)
	dst = r.Via.appendTo(dst)
	dst = appendU64(dst, r.Correlation)
	dst = append(dst, r.Hops)
	if r.Success {
		dst = append(dst, r.Codec)
		dst = appendPayload(dst, r.Payload, MaxReplyPayload)
	} else {
		dst = append(dst, r.Kind)
		dst = appendS16(dst, clip(r.Text))
	}
	return end(dst, size)
}

// DecodeRelayedReply reads the body of a CmdRelayedReply with its flags.
func DecodeRelayedReply(flags uint8, body []byte) (r RelayedReply, err error) {
	d := decoder{b: body, cmd: CmdRelayedReply}
	r.Success = flags&FlagReply != 0
	r.Stale, r.Application = flags&FlagStale != 0, flags&FlagApplication != 0
	if r.Success && (r.Stale || r.Application) {
		d.fail("flags", ErrFlags)
	}
	r.To = d.process("to.rid", "to.lifecycle")
	r.Via = d.optionalProcess("via.rid", "via.lifecycle")
	r.Correlation = d.nonZero("correlation")
	r.Hops = d.u8max("hops", MaxHops)
	if r.Success {
		r.Codec = d.u8max("codec", MaxCodec)
		r.Payload = d.payload(MaxReplyPayload)
	} else {
		r.Kind = d.u8max("kind", MaxErrorKind)
		r.Text = d.s16("text")
	}
	return r, d.done()
}
