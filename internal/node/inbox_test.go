package node

import (
	"slices"
	"testing"
)

func TestAnInboxKeepsInOrderWhatIsNews(t *testing.T) {
	b := newInbox(func(last, e *int) bool { return *e == *last })
	take := func() (all []int) {
		for e, ok := b.next(); ok; e, ok = b.next() {
			all = append(all, e)
		}
		return all
	}
	for _, e := range []int{1, 1, 2, 1, 1, 4, 3} {
		b.put(e)
	}
	await(t, "it tells of them", b.arrived)
	if even := b.takeAll(func(e *int) bool { return *e%2 == 0 }); !slices.Equal(even, []int{2, 4}) {
		t.Errorf("ahead of the others it gave %v", even)
	}
	if all := take(); !slices.Equal(all, []int{1, 1, 3}) {
		t.Errorf("it gave %v", all)
	}
	for e := range 10 * eventsMax {
		b.put(e)
	}
	if all := take(); len(all) != eventsMax || all[0] != 0 || all[len(all)-1] != len(all)-1 {
		t.Errorf("of a peer that says ever more it kept %v", all)
	}
	b.put(1)
	b.close()
	b.put(2)
	if all := take(); len(all) != 0 {
		t.Errorf("closed, it gave %v", all)
	}
}
