package admin

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/errkind"
)

func TestANodeIsLookedAtAndChanged(t *testing.T) {
	f := &fake{limits: Limits{LinkBytes: 1, NodeBytes: -1, ChunkBytes: 3, MaxMoves: 4, MaxRestores: 5}}
	_, c := door(t, f)
	s, err := c.Status(t.Context())
	if err != nil || s.RID != "a" || s.Limits != f.limits || s.Relocation != nil || s.Cordoned {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = c.Cordon(t.Context(), []string{"x", "y"}); err != nil || !s.Cordoned || !slices.Equal(f.passes, []string{"x", "y"}) {
		t.Errorf("%+v, %v; it got %q", s, err, f.passes)
	}
	if s, err = c.Uncordon(t.Context()); err != nil || s.Cordoned {
		t.Errorf("%+v, %v", s, err)
	}
	want := f.limits
	want.MaxMoves, want.NodeBytes = 7, 9
	l, err := c.SetLimits(t.Context(), map[string]int64{"max_moves": 7, "node_bytes": 9})
	if err != nil || l != want || f.Limits() != want {
		t.Errorf("%+v, %v; the node has %+v", l, err, f.Limits())
	}
}

// What the node refuses is told with its kind, and what it was not asked for, too.
func TestErrorsHaveAKindAndAText(t *testing.T) {
	f := &fake{}
	_, c := door(t, f)
	_, err := c.Relocation(t.Context(), "", 0)
	wantError(t, err, http.StatusNotFound, errkind.NotFound)
	for kind, status := range map[errkind.Kind]int{
		errkind.InvalidOperation: 400, errkind.NotConfigured: 409, errkind.Unavailable: 503, errkind.ShuttingDown: 503,
		errkind.DeadlineExceeded: 504, errkind.InternalFailure: 500,
	} {
		f.set(func() { f.err = &refusal{kind, "a text"} })
		_, err = c.Cordon(t.Context(), nil)
		wantError(t, err, status, kind)
		_, err = c.Uncordon(t.Context())
		wantError(t, err, status, kind)
		_, err = c.SetLimits(t.Context(), nil)
		wantError(t, err, status, kind)
		_, err = c.Relocate(t.Context(), RelocateRequest{}, 0)
		wantError(t, err, status, kind)
	}
	_, err = c.SetLimits(t.Context(), map[string]int64{"max_move": 1})
	wantError(t, err, 400, errkind.InvalidOperation)
	_, err = c.Shutdown(t.Context(), -time.Second, 0)
	wantError(t, err, 400, errkind.InvalidOperation)
	_, err = c.Shutdown(t.Context(), 2*time.Hour, 0)
	wantError(t, err, 400, errkind.InvalidOperation)
}

func TestARelocationIsBegunAndWaitedFor(t *testing.T) {
	f := &fake{at: &Relocation{Running: true, Mode: ModeRolling}}
	_, c := door(t, f)
	ask := RelocateRequest{Mode: ModeRolling, TargetVersion: "1.2.3", TimeoutMS: 1500}
	reply, err := c.Relocate(t.Context(), ask, 0)
	if err != nil || reply.Result != nil || reply.Relocation == nil || !reply.Relocation.Running {
		t.Errorf("at once: %+v, %v", reply, err)
	}
	if f.request != ask || f.request.Timeout() != 1500*time.Millisecond {
		t.Errorf("the node is asked for %+v", f.request)
	}
	done := make(chan RelocateReply, 1)
	go func() {
		r, err := c.Relocate(t.Context(), ask, waitMax)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	f.result <- Result{Outcome: "Blocked", Reason: "DeadlineExceeded", Text: "why"}
	if r := <-done; r.Result == nil || *r.Result != (Result{"Blocked", "DeadlineExceeded", "why"}) {
		t.Errorf("behind its end: %+v", r)
	}
}

// Who has seen how far a relocation is waits for news of it; an estimate is none.
func TestNewsOfARelocationAreWaitedFor(t *testing.T) {
	f := &fake{at: &Relocation{Running: true, Units: []Units{{Kind: "Actor", Total: 3}}}}
	_, c := door(t, f)
	first, err := c.Relocation(t.Context(), "", waitMax)
	if err != nil || first.Seen == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	soon := time.Now().Add(time.Minute)
	f.set(func() { f.at.EstimatedEnd = &soon })
	again, err := c.Relocation(t.Context(), first.Seen, 0)
	if err != nil || again.Seen != first.Seen || again.EstimatedEnd == nil {
		t.Errorf("%+v, %v", again, err)
	}
	news := make(chan Relocation, 1)
	go func() {
		r, err := c.Relocation(t.Context(), first.Seen, waitMax)
		if err != nil {
			t.Error(err)
		}
		news <- r
	}()
	f.set(func() { f.at = &Relocation{Units: []Units{{Kind: "Actor", Total: 3, Left: 1}}} })
	if r := <-news; r.Seen == first.Seen || r.Units[0].Left != 1 {
		t.Errorf("%+v", r)
	}
}

// A shutdown begins once, whoever asks, and is waited for.
func TestAShutdownIsBegunOnce(t *testing.T) {
	f := &fake{}
	_, c := door(t, f)
	s, err := c.Shutdown(t.Context(), time.Minute, 0)
	if err != nil || s.ShutdownEnd != nil {
		t.Errorf("at once: %+v, %v", s, err)
	}
	ended := make(chan Status, 1)
	go func() {
		s, err := c.Shutdown(t.Context(), time.Hour, waitMax)
		if err != nil {
			t.Error(err)
		}
		ended <- s
	}()
	close(f.stop)
	if s := <-ended; s.ShutdownEnd == nil || s.ShutdownEnd.Outcome != "Stopped" {
		t.Errorf("behind its end: %+v", s)
	}
	if f.did() != 1 || time.Until(f.deadline) > time.Minute {
		t.Errorf("the node was asked %q, with a deadline in %v", f.asked, time.Until(f.deadline))
	}
}

// Whoever waits has an answer when the door is closed, and then nobody is answered.
func TestTheDoorIsClosedBehindItsAnswers(t *testing.T) {
	f := &fake{at: &Relocation{Running: true}}
	s, c := door(t, f)
	first, err := c.Relocation(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		r, err := c.Relocation(context.Background(), first.Seen, waitMax)
		if err == nil && r.Seen != first.Seen {
			t.Errorf("%+v", r)
		}
		answered <- err
	}()
	eventually(t, "it waits", func() bool { return len(s.places) == 1 })
	s.Close()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("a door that is closed answers")
	}
}

// What no Duration holds is not taken for a short time.
func TestALongTimeoutDoesNotWrapAround(t *testing.T) {
	for _, ms := range []int64{1 << 62, 1<<63 - 1, 18446744073709} {
		if r := (RelocateRequest{TimeoutMS: ms}); r.Timeout() < time.Hour {
			t.Errorf("%d ms are %v", ms, r.Timeout())
		}
		if r := (RelocateRequest{TimeoutMS: -ms}); r.Timeout() >= 0 {
			t.Errorf("%d ms are %v", -ms, r.Timeout())
		}
	}
}
