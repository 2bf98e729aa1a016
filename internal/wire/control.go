package wire

import "strconv"

// Probe asks the peer for a sign of life.
type Probe struct {
	ID uint64 // not 0; the same until it is acknowledged
}

// Size returns the size of the record.
func (*Probe) Size() int { return HeaderSize + 8 }

// AppendTo appends the record to dst.
func (p *Probe) AppendTo(dst []byte) []byte { return appendNumber(dst, CmdProbe, p.ID) }

// DecodeProbe reads the body of a CmdProbe.
func DecodeProbe(body []byte) (p Probe, err error) {
	d := decoder{b: body, cmd: CmdProbe}
	p.ID = d.nonZero("id")
	return p, d.done()
}

// Ack answers the Probe with the same id.
type Ack struct {
	ID uint64 // not 0
}

// Size returns the size of the record.
func (*Ack) Size() int { return HeaderSize + 8 }

// AppendTo appends the record to dst.
func (a *Ack) AppendTo(dst []byte) []byte { return appendNumber(dst, CmdAck, a.ID) }

// DecodeAck reads the body of a CmdAck.
func DecodeAck(body []byte) (a Ack, err error) {
	d := decoder{b: body, cmd: CmdAck}
	a.ID = d.nonZero("id")
	return a, d.done()
}

// Credit lets the receiver send that many bytes more of credited records.
type Credit struct {
	Bytes uint64 // 1–MaxWindow
}

// Size returns the size of the record.
func (*Credit) Size() int { return HeaderSize + 8 }

// AppendTo appends the record to dst.
func (c *Credit) AppendTo(dst []byte) []byte { return appendNumber(dst, CmdCredit, c.Bytes) }

// DecodeCredit reads the body of a CmdCredit.
func DecodeCredit(body []byte) (c Credit, err error) {
	d := decoder{b: body, cmd: CmdCredit}
	if c.Bytes = d.nonZero("bytes"); c.Bytes > MaxWindow {
		d.fail("bytes", ErrValue)
	}
	return c, d.done()
}

// GoodbyeReason says why a node closes an admitted link.
type GoodbyeReason uint8

// The reasons. 0 is none.
const (
	GoodbyeShutdown      GoodbyeReason = 1 // the node stops
	GoodbyeProtocolError GoodbyeReason = 2 // a record broke the format, the order or the credits
	GoodbyePeerSilent    GoodbyeReason = 3 // no probe was acknowledged in time
	GoodbyeReplaced      GoodbyeReason = 4 // another link of the pair is preferred
	GoodbyeOverflow      GoodbyeReason = 5 // the peer takes records too slowly
	GoodbyeRemoved       GoodbyeReason = 6 // the peer is no longer part of the topology
)

var goodbyeNames = [...]string{
	"none", "shutdown", "protocolError", "peerSilent", "replaced", "overflow", "removed",
}

// String returns the reason's name, for logs.
func (r GoodbyeReason) String() string { return enumName(goodbyeNames[:], uint8(r)) }

// Goodbye is the last record of a link that its sender closes in order.
type Goodbye struct {
	Reason GoodbyeReason
	Text   []byte // for the peer's log
}

// Size returns the size of the record.
func (g *Goodbye) Size() int { return HeaderSize + 1 + 2 + len(clip(g.Text)) }

// AppendTo appends the record to dst.
func (g *Goodbye) AppendTo(dst []byte) []byte {
	return appendReason(dst, g.Size(), CmdGoodbye, uint8(g.Reason), g.Text)
}

// DecodeGoodbye reads the body of a CmdGoodbye.
func DecodeGoodbye(body []byte) (g Goodbye, err error) {
	d := decoder{b: body, cmd: CmdGoodbye}
	g.Reason = GoodbyeReason(d.reason(uint8(GoodbyeRemoved)))
	g.Text = d.s16("text")
	return g, d.done()
}

// appendNumber appends a record with one u64.
func appendNumber(dst []byte, cmd Command, v uint64) []byte {
	const size = HeaderSize + 8
	return end(appendU64(begin(dst, size, cmd, 0), v), size)
}

// appendReason appends a record with a reason and a text.
func appendReason(dst []byte, size int, cmd Command, reason uint8, text []byte) []byte {
	dst = append(begin(dst, size, cmd, 0), reason)
	return end(appendS16(dst, clip(text)), size)
}

// reason reads a reason from 1 to limit.
func (d *decoder) reason(limit uint8) uint8 {
	v := d.u8max("reason", limit)
	if v == 0 {
		d.fail("reason", ErrEmpty)
	}
	return v
}

func enumName(names []string, v uint8) string {
	if int(v) < len(names) {
		return names[v]
	}
	return "reason(" + strconv.Itoa(int(v)) + ")"
}
