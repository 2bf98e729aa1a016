package wire

import "slices"

// aggregateVersion is the first byte of an encoded AggregateHead.
const aggregateVersion = 1

const aggregateReady = 0x01 // the only flag of an AggregateHead

// AggregateHead begins the payload of an aggregate, before it is compressed and cut into chunks. An
// AggregatePart of each participant follows, in the order of the inventory, and nothing else: so
// the Spot is the last.
type AggregateHead struct {
	Ready bool   // the Spot has said that it may move, and is told when it has
	Count uint32 // parts, ≥ 1
}

// Size returns the number of bytes that AppendTo appends.
func (*AggregateHead) Size() int { return 1 + 1 + 4 }

// AppendTo appends the head to dst.
func (a *AggregateHead) AppendTo(dst []byte) []byte {
	var flags byte
	if a.Ready {
		flags = aggregateReady
	}
	return appendU32(append(dst, aggregateVersion, flags), a.Count)
}

// DecodeAggregateHead reads the head at the start of b; rest is what follows it.
func DecodeAggregateHead(b []byte) (a AggregateHead, rest []byte, err error) {
	d := decoder{b: b, cmd: CmdStateChunk}
	if v := d.u8("version"); v != aggregateVersion {
		d.fail("version", ErrValue)
	}
	a.Ready = d.flags(aggregateReady) != 0
	if a.Count = d.u32("count"); a.Count == 0 {
		d.fail("count", ErrEmpty)
	}
	return a, d.b, d.result()
}

// AggregatePart is one participant of an aggregate.
type AggregatePart struct {
	ID    []byte
	State []byte // an encoded MoveState
}

// Size returns the number of bytes that AppendTo appends.
func (p *AggregatePart) Size() int { return p.headSize() + len(p.State) }

func (p *AggregatePart) headSize() int { return 1 + len(p.ID) + 8 }

// AppendHead appends all but the state of that many bytes, which the caller puts behind it from
// where it lies. p.State is not looked at.
func (p *AggregatePart) AppendHead(dst []byte, stateBytes int) []byte {
	return appendU64(appendS8(slices.Grow(dst, p.headSize()), p.ID), uint64(stateBytes))
}

// AppendTo appends the part to dst.
func (p *AggregatePart) AppendTo(dst []byte) []byte {
	return append(p.AppendHead(slices.Grow(dst, p.Size()), len(p.State)), p.State...)
}

// DecodeAggregatePart reads the part at the start of b; rest is what follows it. Its state is not
// looked at.
func DecodeAggregatePart(b []byte) (p AggregatePart, rest []byte, err error) {
	d := decoder{b: b, cmd: CmdStateChunk}
	p.ID = d.id("id")
	p.State = d.long("state", d.u64("state"))
	return p, d.b, d.result()
}
