package session_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/session"
)

// outboxModel is an Outbox as one would write it down: a list of what waits.
type outboxModel struct {
	limits            session.OutboxLimits
	list              []outboxEntry
	over, took        clock.Mono
	gone              []int
	dropped, replaced uint64
}

type outboxEntry struct {
	frame, size int
	at          clock.Mono
	class       session.PushClass
	key         session.PushKey
}

func (m *outboxModel) bytes(class session.PushClass) (count, bytes int) {
	for _, e := range m.list {
		if e.class == class {
			count++
			bytes += e.size
		}
	}
	return count, bytes
}

func (m *outboxModel) put(e outboxEntry) {
	at := -1
	if e.class == session.NewestPerKey {
		at = slices.IndexFunc(m.list, func(o outboxEntry) bool { return o.class == e.class && o.key == e.key })
	}
	if at >= 0 {
		m.gone = append(m.gone, m.list[at].frame)
		m.replaced++
		m.list[at] = e
	} else {
		m.list = append(m.list, e)
	}
	for e.class != session.MustDeliver {
		if count, bytes := m.bytes(e.class); bytes <= m.limits.Soft || count == 1 {
			break
		}
		m.drop(func(o outboxEntry) bool { return o.class == e.class && o.frame != e.frame })
	}
	m.judge(e.at)
}

// drop drops the first that may go, and returns its size.
func (m *outboxModel) drop(may func(outboxEntry) bool) int {
	at := slices.IndexFunc(m.list, may)
	if at < 0 {
		return 0
	}
	e := m.list[at]
	m.gone = append(m.gone, e.frame)
	m.dropped++
	m.list = slices.Delete(m.list, at, at+1)
	return e.size
}

func (m *outboxModel) take() (int, bool) {
	if len(m.list) == 0 {
		return 0, false
	}
	e := m.list[0]
	m.list = m.list[1:]
	m.judge(m.over)
	return e.frame, true
}

func (m *outboxModel) shed(bytes int) {
	for _, class := range []session.PushClass{session.DropOldest, session.NewestPerKey} {
		for bytes > 0 {
			n := m.drop(func(e outboxEntry) bool { return e.class == class })
			if n == 0 {
				break
			}
			bytes -= n
		}
	}
}

// judge notes since when too much has to be delivered.
func (m *outboxModel) judge(now clock.Mono) {
	if _, bytes := m.bytes(session.MustDeliver); bytes <= m.limits.Soft {
		m.over = clock.Never
	} else if m.over == clock.Never {
		m.over = now
	}
}

func (m *outboxModel) overdue(now clock.Mono) session.OutboxWhy {
	at := slices.IndexFunc(m.list, func(e outboxEntry) bool { return e.class == session.MustDeliver })
	switch {
	case at < 0:
		return 0
	case m.over != clock.Never && now.Sub(m.over) >= m.limits.Time:
		return session.OutboxTooLong
	case now.Sub(m.list[at].at) >= m.limits.Time && now.Sub(m.took) >= m.limits.Time:
		return session.OutboxStuck
	}
	return 0
}

func TestAnOutboxDoesWhatAListWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := session.OutboxLimits{Soft: 100, Hard: 250, Time: 10 * time.Second}
		box, model := session.NewOutbox[int](&limits), outboxModel{limits: limits, over: clock.Never}
		now, frames, goneInAll := sessionStart, 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				e := outboxEntry{
					frame: frames, size: rapid.IntRange(1, 120).Draw(t, "size"), at: now,
					class: session.PushClass(rapid.IntRange(0, 2).Draw(t, "class")),
				}
				if e.class == session.NewestPerKey {
					e.key = session.PushKey{Actor: rapid.SampledFrom([]string{"", "a"}).Draw(t, "actor"), Key: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "key")}
				}
				frames++
				box.Put(now, e.class, e.key, e.frame, e.size)
				model.put(e)
			},
			"take": func(t *rapid.T) {
				got, ok := box.Take()
				if want, wantOK := model.take(); got != want || ok != wantOK {
					t.Fatalf("took %d %v, want %d %v", got, ok, want, wantOK)
				}
			},
			"shed": func(t *rapid.T) {
				bytes := rapid.IntRange(0, 300).Draw(t, "bytes")
				box.Shed(bytes)
				model.shed(bytes)
			},
			"wait": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 6).Draw(t, "seconds")) * time.Second) },
			"took": func(*rapid.T) {
				box.Took(now)
				model.took = now
			},
			"excuse": func(*rapid.T) {
				box.Excuse(now)
				model.took = now
				if model.over != clock.Never {
					model.over = now
				}
			},
			"": func(t *rapid.T) {
				gone := box.Gone(nil)
				goneInAll += len(gone)
				if !slices.Equal(gone, model.gone) {
					t.Fatalf("%v are gone, want %v", gone, model.gone)
				}
				model.gone = nil
				bytes, must := 0, 0
				var count [3]int
				for class := range count {
					var n int
					count[class], n = model.bytes(session.PushClass(class))
					bytes += n
				}
				_, must = model.bytes(session.MustDeliver)
				if box.Bytes() != bytes {
					t.Fatalf("%d bytes, want %d", box.Bytes(), bytes)
				}
				if why := box.Full(); (why == session.OutboxTooMuch) != (must > limits.Hard && count[0] > 1) {
					t.Fatalf("%d bytes must be delivered: %v", must, why)
				}
				if got, want := box.Overdue(now), model.overdue(now); got != want {
					t.Fatalf("overdue %v, want %v", got, want)
				}
				dropped, replaced := box.Lost()
				if dropped != model.dropped || replaced != model.replaced || int(dropped+replaced) != goneInAll {
					t.Fatalf("%d dropped and %d replaced, want %d and %d; %d frames", dropped, replaced, model.dropped, model.replaced, goneInAll)
				}
			},
		})
	})
}

// contents takes all out of the box, in order.
func contents(box *session.Outbox[string]) (all []string) {
	for f, ok := box.Take(); ok; f, ok = box.Take() {
		all = append(all, f)
	}
	return all
}

func newOutbox() (*session.Outbox[string], func(class session.PushClass, key, frame string, size int)) {
	box := session.NewOutbox[string](&session.OutboxLimits{Soft: 100, Hard: 250, Time: 10 * time.Second})
	return &box, func(class session.PushClass, key, frame string, size int) {
		box.Put(sessionStart, class, session.PushKey{Actor: "a", Key: key}, frame, size)
	}
}

func TestANewerPushOfAKeyKeepsThePlaceOfTheOlder(t *testing.T) {
	box, put := newOutbox()
	put(session.MustDeliver, "", "first", 10)
	put(session.NewestPerKey, "hp", "hp=9", 10)
	put(session.MustDeliver, "", "between", 10)
	put(session.NewestPerKey, "mp", "mp=3", 10)
	put(session.NewestPerKey, "hp", "hp=8", 10)
	if got := contents(box); !slices.Equal(got, []string{"first", "hp=8", "between", "mp=3"}) {
		t.Errorf("went out: %v", got)
	}
	if gone := box.Gone(nil); !slices.Equal(gone, []string{"hp=9"}) {
		t.Errorf("gone: %v", gone)
	}
}

// Also not if it has the place of the oldest.
func TestTheLatestPushIsNotTheOneThatIsDropped(t *testing.T) {
	box, put := newOutbox()
	put(session.NewestPerKey, "hp", "hp=9", 10)
	put(session.NewestPerKey, "mp", "mp=3", 50)
	put(session.NewestPerKey, "hp", "hp=8", 80)
	put(session.DropOldest, "", "large", 1000)
	if got := contents(box); !slices.Equal(got, []string{"hp=8", "large"}) {
		t.Errorf("went out: %v", got)
	}
}

func TestActorsDoNotShareKeys(t *testing.T) {
	box, put := newOutbox()
	put(session.NewestPerKey, "hp", "a", 10)
	box.Put(sessionStart, session.NewestPerKey, session.PushKey{Actor: "b", Key: "hp"}, "b", 10)
	if got := contents(box); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("went out: %v", got)
	}
}

func TestDroppingOneClassLeavesTheOthers(t *testing.T) {
	box, put := newOutbox()
	for i := range 5 {
		put(session.DropOldest, "", fmt.Sprint("d", i), 40)
		put(session.NewestPerKey, fmt.Sprint(i), fmt.Sprint("n", i), 20)
		put(session.MustDeliver, "", fmt.Sprint("m", i), 40)
	}
	if got := contents(box); !slices.Equal(got, []string{"n0", "m0", "n1", "m1", "n2", "m2", "d3", "n3", "m3", "d4", "n4", "m4"}) {
		t.Errorf("went out: %v", got)
	}
}

// A burst that goes over the soft bound and is taken in time costs no client, however
// often it comes.
func TestABurstThatIsTakenInTimeIsNotTooSlow(t *testing.T) {
	box, put := newOutbox()
	now := sessionStart
	for range 100 {
		for range 10 {
			box.Put(now, session.MustDeliver, session.PushKey{}, "tick", 24)
		}
		now = now.Add(9 * time.Second)
		box.Took(now)
		if box.Full() != 0 || box.Overdue(now) != 0 {
			t.Fatalf("%v %v", box.Full(), box.Overdue(now))
		}
		contents(box)
	}
	put(session.MustDeliver, "", "large", 1000)
	if box.Full() != 0 {
		t.Error("a message that waits alone is too much")
	}
}
