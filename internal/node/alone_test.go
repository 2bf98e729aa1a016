package node

import "testing"

// A request that is the only one under way, and its reply, would have waited for loops: one
// wake-up each.
func TestARequestAloneAndItsReplyWakeNoLoop(t *testing.T) {
	p := newPair(t, nil)
	to := p.a.PeerTarget("b")
	const requests, batches = 200, 10
	wakes := func() [2]uint64 { return [2]uint64{p.a.engine.Stats().Wakes, p.b.engine.Stats().Wakes} }
	var asked, answered uint64
	for range batches {
		before := wakes()
		for range requests {
			r, err := p.a.Request(t.Context(), &to, &Outgoing{Name: "echo", Payload: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
		}
		after := wakes()
		asked, answered = after[0]-before[0], after[1]-before[1]
		// Some wake-ups are a ticker's, or of a message that came while the loop had the
		// connection: where a batch has many of these, another one has few.
		if asked < requests*3/4 && answered < requests*3/4 {
			return
		}
	}
	t.Errorf("%d wake-ups for %d requests, %d for their replies", asked, requests, answered)
}
