package session

import (
	"strconv"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/invariant"
)

// PushClass says what may become of a push whose client is behind. As long as the client
// takes what it is sent, all classes go out alike.
type PushClass uint8

// The classes and their wire numbers.
const (
	// MustDeliver: it goes out, in its place, or the Session ends.
	MustDeliver PushClass = 0
	// NewestPerKey: a later push of that key takes the place of an earlier one that still
	// waits. It keeps that place, so a key that changes all the time is not put off for
	// ever; and so it may overtake what was pushed between the two.
	NewestPerKey PushClass = 1
	// DropOldest: when too many bytes of the class wait, the oldest of it are dropped.
	DropOldest PushClass = 2

	pushClassCount = 3
)

// Valid reports whether c is one of the classes.
func (c PushClass) Valid() bool { return c < pushClassCount }

// String returns the class's name.
func (c PushClass) String() string {
	switch c {
	case MustDeliver:
		return "MustDeliver"
	case NewestPerKey:
		return "NewestPerKey"
	case DropOldest:
		return "DropOldest"
	}
	return "PushClass(" + strconv.Itoa(int(c)) + ")"
}

// PushKeyMax is the longest key of a NewestPerKey push, in bytes.
const PushKeyMax = 64

// PushKey is a key and whose it is: Actors do not share keys.
type PushKey struct {
	Actor string // its id; empty: the Session's own pushes
	Key   string
}

// OutboxLimits are the bounds of an Outbox. One value is shared by many and must not
// change while they live.
type OutboxLimits struct {
	// Soft is how many bytes that must be delivered may wait for longer than Time; and how
	// many bytes of NewestPerKey, and of DropOldest, wait at most before the oldest of the
	// class go. The last push of a class is never dropped for that.
	Soft int
	// Hard is how many bytes that must be delivered may wait at all. One message may
	// always wait alone.
	Hard int
	// Time is also how long a message that must be delivered waits while the client takes
	// nothing.
	Time time.Duration
}

// OutboxWhy says why a client is too slow; 0: it is not.
type OutboxWhy uint8

// The reasons.
const (
	OutboxTooMuch OutboxWhy = iota + 1 // more than Hard
	OutboxTooLong                      // more than Soft for Time
	OutboxStuck                        // the client took nothing for Time
	outboxWhyEnd
)

var outboxWhyText = [outboxWhyEnd]string{
	OutboxTooMuch: "too many bytes wait for it",
	OutboxTooLong: "many bytes wait for it, and have for too long",
	OutboxStuck:   "it took nothing while a message waited",
}

// String returns the reason as a clause.
func (w OutboxWhy) String() string {
	if w == 0 || w >= outboxWhyEnd {
		return ""
	}
	return outboxWhyText[w]
}

// Outbox holds what waits for a client that takes less than it is sent, and decides what of
// it goes out next, what is dropped, and when the client is too slow. F is the shell's
// handle of a message. It never drops what must be delivered; what does is the Session's end.
//
// Invariant: what comes out has the order of Put, but for a push of NewestPerKey, which may
// have the place of an earlier one of its key.
//
// It is a plain value and belongs to whoever calls it. An empty one has no memory but its own.
type Outbox[F any] struct {
	limits      *OutboxLimits
	first, last *waiting[F] // in the order in which they go out
	classes     [pushClassCount]waitingClass[F]
	keys        map[PushKey]*waiting[F] // those of NewestPerKey; nil: none
	over        clock.Mono              // since when more than Soft must be delivered; Never: it is not so
	took        clock.Mono              // when the client last took something
	gone        []F
	dropped     uint64
	replaced    uint64
}

// waiting is one message.
type waiting[F any] struct {
	frame      F
	size       int
	at         clock.Mono
	class      PushClass
	key        PushKey
	prev, next *waiting[F]
	younger    *waiting[F] // the next one of its class
}

// waitingClass is the messages of one class, oldest first.
type waitingClass[F any] struct {
	oldest, youngest *waiting[F]
	count, bytes     int
}

// NewOutbox returns an empty Outbox.
func NewOutbox[F any](l *OutboxLimits) Outbox[F] {
	return Outbox[F]{limits: l, over: clock.Never}
}

// Put adds a message of size bytes, whose frame is the Outbox's until Take or Gone gives it
// back. key matters for NewestPerKey only. What is too much of the class is dropped; whether
// too much must be delivered is for Full to say.
func (o *Outbox[F]) Put(now clock.Mono, class PushClass, key PushKey, frame F, size int) {
	c := &o.classes[class]
	var m *waiting[F]
	if class == NewestPerKey {
		m = o.keys[key]
	}
	if m != nil {
		o.gone = append(o.gone, m.frame)
		o.replaced++
		c.bytes += size - m.size
		m.frame, m.size = frame, size
	} else {
		m = &waiting[F]{frame: frame, size: size, at: now, class: class}
		if class == NewestPerKey {
			m.key = key
			if o.keys == nil {
				o.keys = map[PushKey]*waiting[F]{}
			}
			o.keys[key] = m
		}
		o.append(m)
	}
	switch {
	case class != MustDeliver:
		for c.bytes > o.limits.Soft && c.count > 1 {
			o.dropOldest(c, m)
		}
	case c.bytes > o.limits.Soft && o.over == clock.Never:
		o.over = now
	}
	o.check()
}

func (o *Outbox[F]) append(m *waiting[F]) {
	c := &o.classes[m.class]
	if o.last == nil {
		o.first = m
	} else {
		o.last.next, m.prev = m, o.last
	}
	o.last = m
	if c.youngest == nil {
		c.oldest = m
	} else {
		c.youngest.younger = m
	}
	c.youngest = m
	c.count++
	c.bytes += m.size
}

// dropOldest drops the oldest of the class but keep.
func (o *Outbox[F]) dropOldest(c *waitingClass[F], keep *waiting[F]) {
	m, before := c.oldest, (*waiting[F])(nil)
	if m == keep {
		m, before = m.younger, m
	}
	o.remove(c, m, before)
	o.gone = append(o.gone, m.frame)
	o.dropped++
}

// remove takes m out; before is the one of its class that is next older, nil if m is the
// oldest.
func (o *Outbox[F]) remove(c *waitingClass[F], m, before *waiting[F]) {
	if m.prev == nil {
		o.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		o.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	if before == nil {
		c.oldest = m.younger
	} else {
		before.younger = m.younger
	}
	if m.younger == nil {
		c.youngest = before
	}
	c.count--
	c.bytes -= m.size
	if m.class == NewestPerKey {
		if delete(o.keys, m.key); c.count == 0 {
			o.keys = nil
		}
	}
}

// Take takes the message out that goes next, and is false if there is none.
func (o *Outbox[F]) Take() (frame F, ok bool) {
	m := o.first
	if m == nil {
		return frame, false
	}
	c := &o.classes[m.class]
	o.remove(c, m, nil) // of its class, too, it is the oldest
	if m.class == MustDeliver && c.bytes <= o.limits.Soft {
		o.over = clock.Never
	}
	o.check()
	return m.frame, true
}

// Shed drops messages that may be dropped, those of DropOldest first, until they were that
// many bytes or there is none left.
func (o *Outbox[F]) Shed(bytes int) {
	for _, class := range [...]PushClass{DropOldest, NewestPerKey} {
		for c := &o.classes[class]; bytes > 0 && c.count > 0; {
			bytes -= c.oldest.size
			o.dropOldest(c, nil)
		}
	}
	o.check()
}

// Gone hands the frames to the shell that were dropped or replaced, each once, appended to
// dst. It is to be called after Put and Shed.
func (o *Outbox[F]) Gone(dst []F) []F {
	dst = append(dst, o.gone...)
	o.gone = nil
	return dst
}

// Took notes that the client has taken something since it was last asked.
func (o *Outbox[F]) Took(now clock.Mono) { o.took = now }

// Excuse lets all times begin anew: nothing could go out, by no fault of the client.
func (o *Outbox[F]) Excuse(now clock.Mono) {
	o.took = now
	if o.over != clock.Never {
		o.over = now
	}
}

// Full says OutboxTooMuch if more must be delivered than may wait.
func (o *Outbox[F]) Full() OutboxWhy {
	if c := &o.classes[MustDeliver]; c.bytes > o.limits.Hard && c.count > 1 {
		return OutboxTooMuch
	}
	return 0
}

// Overdue says whether the client is too slow by its times.
func (o *Outbox[F]) Overdue(now clock.Mono) OutboxWhy {
	must := o.classes[MustDeliver].oldest
	switch {
	case must == nil:
		return 0
	case o.over != clock.Never && now.Reached(o.over.Add(o.limits.Time)):
		return OutboxTooLong
	case now.Reached(max(must.at, o.took).Add(o.limits.Time)):
		return OutboxStuck
	}
	return 0
}

// Bytes is the size of all that waits.
func (o *Outbox[F]) Bytes() int {
	n := 0
	for i := range o.classes {
		n += o.classes[i].bytes
	}
	return n
}

// Lost returns how many pushes were dropped and how many replaced by newer ones, so far.
func (o *Outbox[F]) Lost() (dropped, replaced uint64) { return o.dropped, o.replaced }

func (o *Outbox[F]) check() {
	if !invariant.Enabled {
		return
	}
	must := &o.classes[MustDeliver]
	invariant.Check((o.over != clock.Never) == (must.bytes > o.limits.Soft), "session: %d bytes must be delivered, over the soft bound since %d", must.bytes, o.over)
	invariant.Check(len(o.keys) == o.classes[NewestPerKey].count, "session: %d keys for %d messages", len(o.keys), o.classes[NewestPerKey].count)
	for i := range o.classes {
		c := &o.classes[i]
		invariant.Check((c.count == 0) == (c.oldest == nil) && (c.count == 0) == (c.youngest == nil) && (c.count != 0 || c.bytes == 0), "session: a class of %d messages and %d bytes", c.count, c.bytes)
	}
}
