package node

import (
	"testing"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

func TestANodeReservesNoMoreSessionsThanItsBound(t *testing.T) {
	k := &keeps{}
	first := &keep{}
	k.add("a token", first)
	if !k.reserve(first) {
		t.Fatal("the first is refused")
	}
	for range reservedMax - 1 {
		if !k.reserve(&keep{}) {
			t.Fatal("one below the bound is refused")
		}
	}
	if k.reserve(&keep{}) {
		t.Error("one over the bound is reserved")
	}
	if k.release(first); !k.reserve(&keep{}) {
		t.Error("a place that was given back is not there")
	}
	k = &keeps{}
	k.add("a token", first)
	k.count(keptBytesMax + 1)
	if k.reserve(first) {
		t.Error("a Session is reserved while the node keeps too much")
	}
}

// keepOf returns what a Session keeps that may keep that many bytes.
func keepOf(bytes int) *keep {
	return &keep{session: &sessionConn{node: &Node{}, port: &sessionPort{keepBytes: bytes}}}
}

func somePush() *session.Packet {
	p := pushPacket("tick", 0, nil, make([]byte, 100))
	return &p
}

// What a node keeps for all clients is bounded: who adds to it keeps its newest push only.
func TestANodeThatKeepsTooMuchLetsTheOldestGo(t *testing.T) {
	for name, others := range map[string]int64{"crowded": keptBytesMax, "not crowded": 0} {
		t.Run(name, func(t *testing.T) {
			k := keepOf(1 << 20)
			k.token, k.cut = "a token", true // its client is away
			k.session.node.keeps.bytes = others
			for range 3 {
				_ = k.push(somePush(), "", nil) // one that fell out unsent ends the Session
			}
			want, ended := 3, false
			if others > 0 {
				want, ended = 1, true
			}
			if len(k.pushes) != want || (k.why != nil) != ended {
				t.Errorf("%d pushes are kept, and the session ends for %v; want %d, %v", len(k.pushes), k.why, want, ended)
			}
			freeAll(k.pushes)
		})
	}
}

// What waits for a Session that just resumes another one is bounded: then both end.
func TestAResumeForWhichTooMuchWaitsFails(t *testing.T) {
	k := keepOf(500)
	if !k.hold() || k.hold() {
		t.Fatal("a Session resumes one at a time")
	}
	var err *Error
	pushed := 0
	for ; err == nil && pushed < 10; pushed++ {
		err = k.push(somePush(), "", nil)
	}
	if err != errSessionSlow || pushed != 4 {
		t.Errorf("push %d failed with %v, want the fourth to fail", pushed, err)
	}
	if sent, err := k.letGo(nil, 0); sent != 0 || err == nil || err.Kind != errkind.Unavailable {
		t.Errorf("the resume sent %d pushes and ended with %v", sent, err)
	}
}
