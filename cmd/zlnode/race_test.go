package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

func TestRecordsOfFactoriesAreReadAsTheyWereNoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs")
	log, err := openRunLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.file.Close()
	ref := zlnode.ActorRef{ID: raceID(7), ObjectGen: 8, Lifecycle: 9}
	before := sharedClock()
	for _, r := range []runRecord{recordOf(runBegan, ref, 0), recordOf(runRejected, ref, 10)} {
		if err := log.note(r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readRunLog(path)
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	want := runRecord{Event: runRejected, Object: 7, Gen: 8, Lifecycle: 9, Call: 10, At: got[1].At}
	if got[1] != want || got[0].At < before || got[1].At < got[0].At {
		t.Errorf("%+v", got)
	}
	if err := os.Truncate(path, int64(2*runRecordSize-1)); err != nil {
		t.Fatal(err)
	}
	if _, err := readRunLog(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("half a record: %v", err)
	}
	if got, err := readRunLog(filepath.Join(t.TempDir(), "none")); len(got) != 0 || err != nil {
		t.Errorf("of a process that noted nothing: %v, %v", got, err)
	}
	if r := recordOf(runBegan, zlnode.ActorRef{ID: "race-x"}, 0); r.Object != noObject {
		t.Errorf("a foreign id has number %d", r.Object)
	}
}

func TestAnOrderIsFollowedAsLongAsThereIsTime(t *testing.T) {
	for end, want := range map[orderedEnd]runEvent{orderAccept: runAccepted, orderReject: runRejected, orderFail: runFailed} {
		o := raceOrder{Call: 12, Wait: time.Microsecond, End: end}
		got, err := o.follow(t.Context())
		if got != want || (err != nil) != (end == orderFail) || err != nil && zlnode.KindOf(err) != orderedFailure {
			t.Errorf("order %d: %d, %v", end, got, err)
		}
		if repliedCall(o.reply()) != 12 {
			t.Errorf("reply %q", o.reply())
		}
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	o := raceOrder{Wait: time.Hour}
	if got, err := o.follow(late); got != runFailed || !errors.Is(err, context.Canceled) {
		t.Errorf("too late: %d, %v", got, err)
	}
	if repliedCall([]byte("x")) != 0 {
		t.Error("what is no reply has a call")
	}
}

func TestACallEndsAsItsErrorSays(t *testing.T) {
	for _, c := range []struct {
		call raceCall
		kind zlnode.Kind
		want raceEnd
	}{
		{raceCall{op: opGetOrCreate}, zlnode.Unavailable, endUnavailable},
		{raceCall{op: opGetOrCreate}, zlnode.DeadlineExceeded, endDeadline},
		{raceCall{op: opCreate}, zlnode.AlreadyExists, endAlready},
		{raceCall{op: opGetOrCreate}, zlnode.AlreadyExists, endWrong},
		{raceCall{op: opDestroy}, zlnode.InvalidOperation, endGone},
		{raceCall{op: opFree}, zlnode.InvalidOperation, endGone},
		{raceCall{op: opCreate}, zlnode.InvalidOperation, endWrong},
		{raceCall{op: opCreate, order: orderFail}, orderedFailure, endFailed},
		{raceCall{op: opCreate}, orderedFailure, endWrong},
		{raceCall{op: opFind, order: orderFail}, orderedFailure, endWrong},
		{raceCall{op: opFind}, zlnode.InternalFailure, endWrong},
	} {
		got := c.call
		got.finish(1, endCreated, zlnode.Errorf(c.kind, "so"))
		if got.end != c.want || (got.text != "") != (c.want == endWrong) {
			t.Errorf("%s ending with %v: %s %q, want %s", c.call.op, c.kind, got.end, got.text, c.want)
		}
	}
	existing := raceCall{op: opCreate}
	existing.creation(1, zlnode.Creation{Outcome: zlnode.OutcomeExisting}, nil)
	if existing.end != endWrong || existing.text == "" {
		t.Errorf("a Create that ends Existing: %s", existing.end)
	}
}

func TestAVerdictOfARaceCountsAndTells(t *testing.T) {
	ends := raceTally{}
	ends[opGetOrCreate][endCreated], ends[opGetOrCreate][endExisting] = 2, 1
	ends[opCreate][endCreated], ends[opCreate][endRejected] = 1, 1
	ends[opFree][endDestroyed] = 1000
	v := raceVerdictOf(raceOf(func(*raceEvidence) {}), ends, 3)
	var b strings.Builder
	if err := v.writeText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, b.String(), `

ok: every attempt that was won ran its factory once, and every call ended as the Store says.

  calls              GetOrCreate      Create        Find     Destroy        Free
  Created                      2           1           0           0           0
  Existing                     1           0           0           0           0
  Rejected                     0           1           0           0           0
  destroyed                    0           0           0           0       1,000

  nodes killed 3   factory runs 5 (cut short by a kill 0, told to no caller 0)
  ids in the end: 1 ready, 1 of dead nodes, 1 missing; freed in the race and after it 1000
  0 calls waited 5s in vain; longest return after a deadline 0 ms, 10s would be a hang
`)

	v = raceVerdictOf(raceOf(func(e *raceEvidence) { e.processes[1].runs = e.processes[1].runs[:1] }), ends, 3)
	v.dir = "/somewhere"
	b.Reset()
	if err := v.writeText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nFAILED\n", "  2 times: " + string(unmadeSeen), "cut short by a kill 1",
		string(unmadeSeen) + ": race-1 generation 4 at {objects-2 12}, Created by Create", "/somewhere",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := v.writeJSON(&b); err != nil {
		t.Fatal(err)
	}
	var told raceVerdict
	if err := json.Unmarshal([]byte(b.String()), &told); err != nil || told.OK || told.Violations[unmadeSeen] != 2 || told.Created != 3 || told.Freed != 1000 {
		t.Errorf("%s, %v", b.String(), err)
	}
}
