package topic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestAnIndexHasTheMembersThatCameAndDidNotGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := NewIndex[int](Limits{Topics: 3, Bytes: 9, Members: 4})
		model := map[string][]int{}
		bytes := 0
		var seen [][2][]int // what was returned, and a copy
		names := []string{"a", "bb", "ccc", "dddd", "e"}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name, m := rapid.SampledFrom(names).Draw(t, "topic"), rapid.IntRange(0, 5).Draw(t, "member")
			now := model[name]
			has := slices.Contains(now, m)
			if !has && rapid.Bool().Draw(t, "add") {
				first, err := x.Add(name, m)
				switch {
				case len(now) == 0 && (len(model) == 3 || bytes+len(name)+1 > 9):
					if !errors.Is(err, ErrTopics) {
						t.Fatalf("add %s %d: %v", name, m, err)
					}
				case len(now) == 4:
					if !errors.Is(err, ErrMembers) {
						t.Fatalf("add %s %d: %v", name, m, err)
					}
				default:
					if err != nil || first != (len(now) == 0) {
						t.Fatalf("add %s %d: %v, %v", name, m, first, err)
					}
					if first {
						bytes += len(name) + 1
					}
					model[name] = append(slices.Clone(now), m)
				}
			} else {
				last, was := x.Remove(name, m)
				if was != has || last != (has && len(now) == 1) {
					t.Fatalf("remove %s %d of %v: %v, %v", name, m, now, last, was)
				}
				if last {
					delete(model, name)
					bytes -= len(name) + 1
				} else if has {
					model[name] = slices.DeleteFunc(slices.Clone(now), func(v int) bool { return v == m })
				}
			}
			for _, name := range names {
				got := x.Of(name)
				if !slices.Equal(got, model[name]) || !slices.Equal(x.OfBytes([]byte(name)), got) {
					t.Fatalf("%s has %v, want %v", name, got, model[name])
				}
				seen = append(seen, [2][]int{got, slices.Clone(got)})
			}
			var all []string
			x.All(func(topic string) { all = append(all, topic) })
			if x.Len() != len(model) || len(all) != len(model) {
				t.Fatalf("%d topics, %v, want %v", x.Len(), all, model)
			}
		}
		for _, s := range seen {
			if !slices.Equal(s[0], s[1]) {
				t.Fatalf("what was %v has become %v", s[1], s[0])
			}
		}
	})
}

func TestAnIndexIsReadWhileItChanges(t *testing.T) {
	x := NewIndex[int](Limits{})
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 500 {
				if _, err := x.Add("t", w*1000+i); err != nil {
					t.Error(err)
				}
				all := x.Of("t")
				if !slices.Contains(all, w*1000+i) {
					t.Errorf("%d is not among %v", w*1000+i, all)
				}
				if i%3 > 0 {
					x.Remove("t", w*1000+i)
				}
			}
		})
	}
	work.Wait()
	if n := len(x.Of("t")); n != 4*167 {
		t.Errorf("%d members, want %d", n, 4*167)
	}
}

// Whatever comes and goes while records are under way, the other end accepts all of them,
// within the bounds that hold here, and knows in the end what is.
func TestWhatIsToldConverges(t *testing.T) {
	const most = 3
	rapid.Check(t, func(t *rapid.T) {
		var news News
		heard := NewHeard(Limits{Topics: most})
		now := map[string]bool{}
		tell := func() {
			topics, withdraw := news.Next(rapid.IntRange(1, 8).Draw(t, "bytes"))
			for _, topic := range topics {
				var err error
				if withdraw {
					err = heard.Gone([]byte(topic))
				} else {
					_, err = heard.Come([]byte(topic))
				}
				if err != nil {
					t.Fatalf("%s, withdraw %v: %v; there are %v", topic, withdraw, err, now)
				}
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			topic := fmt.Sprint(rapid.IntRange(0, 6).Draw(t, "topic"))
			switch {
			case rapid.IntRange(0, 2).Draw(t, "step") == 0:
				tell()
			case now[topic]:
				delete(now, topic)
				news.Gone(topic)
			case len(now) < most:
				now[topic] = true
				news.Come(topic)
			}
			if len(news.come) > most || len(news.gone) > most {
				t.Fatalf("%d and %d changes wait", len(news.come), len(news.gone))
			}
		}
		for news.Any() {
			tell()
		}
		got := 0
		heard.Clear(func(topic string) {
			if got++; !now[topic] {
				t.Fatalf("%s is heard of, not %v", topic, now)
			}
		})
		if got != len(now) {
			t.Fatalf("%d topics are heard of, want %v", got, now)
		}
	})
}

func TestAChangeThatIsUndoneIsNotTold(t *testing.T) {
	var news News
	news.Come("a")
	news.Gone("a")
	if topics, _ := news.Next(100); news.Any() || len(topics) != 0 {
		t.Errorf("%v is told", topics)
	}
	news.Come("b")
	news.Next(100)
	news.Gone("b")
	news.Come("b")
	if news.Any() {
		t.Error("something is told of b")
	}
}

func TestARecordTakesWhatItMay(t *testing.T) {
	var news News
	long := strings.Repeat("x", 255)
	news.Come(long)
	if topics, withdraw := news.Next(10); len(topics) != 1 || withdraw {
		t.Fatalf("%d topics, withdraw %v", len(topics), withdraw)
	}
	for i := range 10 {
		news.Come(fmt.Sprint(i))
	}
	for _, want := range []int{4, 4, 2} {
		if topics, _ := news.Next(8); len(topics) != want {
			t.Fatalf("%d topics, want %d", len(topics), want)
		}
	}
}

func TestAPeerThatBreaksTheRulesIsFound(t *testing.T) {
	h := NewHeard(Limits{Topics: 2, Bytes: 6})
	come := func(topic string, want error) {
		t.Helper()
		if _, err := h.Come([]byte(topic)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", topic, err, want)
		}
	}
	come("a", nil)
	come("a", ErrTwice)
	come("bbbb", ErrMany)
	come("b", nil)
	come("c", ErrMany)
	if err := h.Gone([]byte("c")); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if err := h.Gone([]byte("a")); err != nil {
		t.Error(err)
	}
	come("ccc", nil)
}
