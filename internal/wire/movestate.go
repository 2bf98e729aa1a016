package wire

import (
	"slices"

	"github.com/zlnode/zlnode/internal/invariant"
)

// moveStateVersion is the first byte of an encoded MoveState.
const moveStateVersion = 1

// Flags of an encoded MoveState: which of its optional parts it has.
const (
	moveHasState   = 0x01
	moveHasBinding = 0x02
	moveClientGone = 0x04
	moveClientAway = 0x08 // with moveHasBinding only
)

// MoveState is what an object takes along, before it is compressed and cut into chunks: a
// head, then the queue, then the application's state, which are long and may lie in
// several places at the source.
type MoveState struct {
	SpotID     []byte // that an Actor leaves; of a Spot, its own
	Timers     []byte // an encoded timer.State
	ClientGone bool   // its client is, and nobody has told the Actor's Spot; not with HasBinding
	HasBinding bool
	Binding    MovedBinding // if HasBinding, else not encoded
	// Topics are the subscriptions of a Spot, of which Began have begun: the highest number that was
	// given. See AppendSubscription.
	Topics   []byte
	Began    uint64
	Saved    uint32 // messages in Queue
	Queue    []byte // one Carried behind the other, in the order in which they run
	HasState bool   // State is what an adapter captured; it may be empty
	State    []byte
}

// MovedBinding is the Session that a moving Actor is bound to.
type MovedBinding struct {
	Owner      Process // of the Session
	Session    uint64  // not 0
	BindingGen uint64  // ≥ 1
	ClientAway bool    // its client has lost its connection and may come back
}

func (m *MoveState) headSize() int {
	n := 1 + 1 + 1 + len(m.SpotID) + 4 + len(m.Timers) + 4 + len(m.Topics) + 8 + 4 + 8 + 8
	if m.HasBinding {
		n += m.Binding.Owner.size() + 8 + 8
	}
	return n
}

// Size returns the number of bytes that AppendTo appends.
func (m *MoveState) Size() int { return m.headSize() + len(m.Queue) + len(m.State) }

// AppendHead appends the head for a queue and a state of that many bytes, which the caller
// puts behind it from where they lie. m.Queue and m.State are not looked at.
func (m *MoveState) AppendHead(dst []byte, queueBytes, stateBytes int) []byte {
	dst = slices.Grow(dst, m.headSize())
	var flags byte
	if m.HasState {
		flags |= moveHasState
	}
	if m.HasBinding {
		flags |= moveHasBinding
	}
	if m.HasBinding && m.Binding.ClientAway {
		flags |= moveClientAway
	}
	if m.ClientGone {
		flags |= moveClientGone
	}
	dst = append(dst, moveStateVersion, flags)
	dst = appendS8(dst, m.SpotID)
	dst = appendU32(dst, uint32(len(m.Timers)))
	dst = append(dst, m.Timers...)
	if m.HasBinding {
		dst = m.Binding.Owner.appendTo(dst)
		dst = appendU64(dst, m.Binding.Session)
		dst = appendU64(dst, m.Binding.BindingGen)
	}
	dst = appendU32(dst, uint32(len(m.Topics)))
	dst = append(dst, m.Topics...)
	dst = appendU64(dst, m.Began)
	dst = appendU32(dst, m.Saved)
	dst = appendU64(dst, uint64(queueBytes))
	return appendU64(dst, uint64(stateBytes))
}

// AppendTo appends head, queue and state to dst.
func (m *MoveState) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = m.AppendHead(slices.Grow(dst, m.Size()), len(m.Queue), len(m.State))
	dst = append(append(dst, m.Queue...), m.State...)
	if invariant.Enabled {
		_, err := DecodeMoveState(dst[start:])
		invariant.Check(err == nil, "encoded a state that no target accepts: %v", err)
	}
	return dst
}

// DecodeMoveState reads a whole MoveState. Each message of the queue was looked at, so
// that DecodeCarried gives Saved of them out of Queue without an error.
func DecodeMoveState(b []byte) (m MoveState, err error) {
	d := decoder{b: b, cmd: CmdStateChunk}
	if v := d.u8("version"); v != moveStateVersion {
		d.fail("version", ErrValue)
	}
	flags := d.flags(moveHasState | moveHasBinding | moveClientGone | moveClientAway)
	if flags&moveHasBinding != 0 && flags&moveClientGone != 0 || flags&moveHasBinding == 0 && flags&moveClientAway != 0 {
		d.fail("flags", ErrValue)
	}
	m.ClientGone = flags&moveClientGone != 0
	m.Binding.ClientAway = flags&moveClientAway != 0
	m.HasState, m.HasBinding = flags&moveHasState != 0, flags&moveHasBinding != 0
	m.SpotID = d.id("spotId")
	m.Timers = d.long("timers", uint64(d.u32("timers")))
	if m.HasBinding {
		m.Binding.Owner = d.process("binding.owner.rid", "binding.owner.lifecycle")
		m.Binding.Session = d.nonZero("binding.session")
		m.Binding.BindingGen = d.someGen("binding.bindingGen")
	}
	m.Topics = d.long("topics", uint64(d.u32("topics")))
	m.Began = d.u64("began")
	checkSubscriptions(&d, m.Topics, m.Began)
	m.Saved = d.u32("saved")
	queue, state := d.u64("queue"), d.u64("state")
	if state != 0 && !m.HasState {
		d.fail("state", ErrValue)
	}
	m.Queue = d.long("queue", queue)
	m.State = d.long("state", state)
	if err := d.done(); err != nil {
		return m, err
	}
	return m, checkQueue(m.Queue, m.Saved)
}

// AppendSubscription appends one of a Spot's subscriptions: the topic, and its number, which is not 0
// and no other one's.
func AppendSubscription(dst []byte, topic string, number uint64) []byte {
	return appendU64(appendS8(dst, []byte(topic)), number)
}

// Subscriptions yields the Spot's subscriptions. The topic is a view.
func (m *MoveState) Subscriptions(yield func(topic []byte, number uint64) bool) {
	for d := (decoder{b: m.Topics, cmd: CmdStateChunk}); len(d.b) > 0; {
		topic, number := d.id("topic"), d.nonZero("number")
		if d.err != nil || !yield(topic, number) {
			return
		}
	}
}

// checkSubscriptions reads every subscription.
func checkSubscriptions(d *decoder, topics []byte, began uint64) {
	s := decoder{b: topics, cmd: CmdStateChunk}
	for len(s.b) > 0 && s.err == nil {
		s.id("topic")
		if s.nonZero("number") > began {
			s.fail("number", ErrValue)
		}
	}
	if d.err == nil {
		d.err = s.err
	}
}

// checkQueue reads every message of a queue.
func checkQueue(queue []byte, saved uint32) error {
	d := decoder{b: queue, cmd: CmdStateChunk}
	for range saved {
		var c Carried
		if d.carried(&c); d.err != nil {
			break
		}
	}
	return d.done()
}

// long reads the next n bytes, however many a peer says they are.
func (d *decoder) long(field string, n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail(field, ErrTruncated)
		return nil
	}
	return d.bytes(field, int(n))
}
