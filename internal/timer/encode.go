package timer

import (
	"encoding/binary"
	"time"

	"github.com/zlnode/zlnode/internal/invariant"
)

// version is the first byte of an encoded State.
const version = 1

// Flags of an encoded timer: which of its optional fields follow.
const (
	flagArmed   = 1
	flagPending = 2
)

// timerBytesMin is the size of the shortest timer: neither armed nor pending, which
// none is.
const timerBytesMin = 1 + 1 + 8 + 1 + 1 + 2 + 8 + 8

// AppendTo appends the encoded State to dst. All numbers are big-endian, times are
// nanoseconds.
//
//	version  u8   1
//	last     u64
//	count    u16  of the timers, each:
//	    name         u8 length, then as many bytes
//	    generation   u64
//	    mode         u8
//	    flags        u8: 1 armed, 2 pending
//	    catch up     u16
//	    period       i64
//	    missed       u64
//	    rest         i64, if armed
//	    late, count  i64 and u64, if pending
//
// One State has one encoding. st must be one that Export or Decode returned.
func (st *State) AppendTo(dst []byte) []byte {
	begin := len(dst)
	u64 := binary.BigEndian.AppendUint64
	dst = append(dst, version)
	dst = u64(dst, uint64(st.Last))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(st.Timers)))
	for i := range st.Timers {
		t := &st.Timers[i]
		var flags byte
		if t.Armed {
			flags |= flagArmed
		}
		if t.Pending {
			flags |= flagPending
		}
		dst = append(dst, byte(len(t.Name)))
		dst = append(dst, t.Name...)
		dst = u64(dst, uint64(t.Generation))
		dst = append(dst, byte(t.Mode), flags)
		dst = binary.BigEndian.AppendUint16(dst, uint16(t.CatchUpMax))
		dst = u64(dst, uint64(t.Period))
		dst = u64(dst, t.Missed)
		if t.Armed {
			dst = u64(dst, uint64(t.Rest))
		}
		if t.Pending {
			dst = u64(u64(dst, uint64(t.Late)), t.Count)
		}
	}
	if invariant.Enabled {
		_, err := Decode(dst[begin:])
		invariant.Check(err == nil, "encoded a state that nobody accepts: %v", err)
	}
	return dst
}

// Decode reads what AppendTo wrote. It accepts any bytes: the error wraps ErrFormat. The
// State has no share in b.
func Decode(b []byte) (State, error) {
	d := decoder{b: b}
	if v := d.u8(); v != version && !d.short {
		return State{}, malformed("version %d", v)
	}
	st := State{Last: Generation(d.u64())}
	n := int(d.u16())
	if n > LimitMax || n > len(d.b)/timerBytesMin {
		return State{}, malformed("%d timers in %d bytes", n, len(d.b))
	}
	if n > 0 {
		st.Timers = make([]Timer, 0, n)
	}
	for range n {
		t, err := d.timer()
		if err != nil {
			return State{}, err
		}
		st.Timers = append(st.Timers, t)
	}
	switch {
	case d.short:
		return State{}, malformed("it ends inside a field")
	case len(d.b) > 0:
		return State{}, malformed("%d bytes follow it", len(d.b))
	}
	if err := st.validate(); err != nil {
		return State{}, err
	}
	return st, nil
}

// decoder reads fields from front to back; when the bytes run out, it stays short and
// all further fields are zero.
type decoder struct {
	b     []byte
	short bool
}

func (d *decoder) timer() (Timer, error) {
	t := Timer{Name: string(d.take(int(d.u8()))), Generation: Generation(d.u64()), Mode: Mode(d.u8())}
	flags := d.u8()
	if flags&^(flagArmed|flagPending) != 0 {
		return t, malformed("flags %#x", flags)
	}
	t.CatchUpMax = int(d.u16())
	t.Period = d.duration()
	t.Missed = d.u64()
	if t.Armed = flags&flagArmed != 0; t.Armed {
		t.Rest = d.duration()
	}
	if t.Pending = flags&flagPending != 0; t.Pending {
		t.Late, t.Count = d.duration(), d.u64()
	}
	return t, nil
}

// take returns the next n bytes, or zeros if there are fewer.
func (d *decoder) take(n int) []byte {
	if d.short || len(d.b) < n {
		d.b, d.short = nil, true
		return make([]byte, n)
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) u8() uint8               { return d.take(1)[0] }
func (d *decoder) u16() uint16             { return binary.BigEndian.Uint16(d.take(2)) }
func (d *decoder) u64() uint64             { return binary.BigEndian.Uint64(d.take(8)) }
func (d *decoder) duration() time.Duration { return time.Duration(d.u64()) }

// Lengths and counts fit the fields that carry them.
const (
	_ = uint8(NameBytesMax)
	_ = uint16(LimitMax)
	_ = uint16(CatchUpLimit)
)
