package zlnode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/wire"
)

// logLines keeps what nodes log.
type logLines struct {
	mu  sync.Mutex
	all []logLine
}

type logLine struct {
	Level, Node, Actor, Operation, From, To, Packet, Callback, Message, Error string
	After                                                                     *float64
	Tries                                                                     int
}

func (l *logLines) Write(p []byte) (int, error) {
	var line logLine
	if err := json.Unmarshal(bytes.TrimSpace(p), &line); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
	return len(p), nil
}

// of returns what the node said of the operation at level Debug, in order.
func (l *logLines) of(rid, operation string) (messages []string, lines []logLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if line.Level == "debug" && line.Node == rid && line.Operation == operation {
			messages, lines = append(messages, line.Message), append(lines, line)
		}
	}
	return messages, lines
}

// logged has all nodes of a crossing log into l.
func (l *logLines) logged(level zerolog.Level) func(*node.Config) {
	return func(c *node.Config) { c.Logger = zerolog.New(l).Level(level) }
}

// onLogged runs f on each Store, with a log of the nodes that are there.
func onLogged(t *testing.T, level zerolog.Level, f func(t *testing.T, x *crossing, log *logLines)) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var log logLines
		f(t, newCrossing(w, crossingOptions{tune: log.logged(level)}), &log)
	})
}

func TestTheDebugLogTellsAMoveStepByStepAtBothNodes(t *testing.T) {
	onLogged(t, zerolog.DebugLevel, func(t *testing.T, x *crossing, log *logLines) {
		entry := x.entryOf()
		x.goes(walkTo{})
		op := x.arrives("b", x.spot.ID).Operation.String()
		source := []string{
			"a join begins", "a join was admitted", "a move is reserved", "a move has sealed its object", "a move is cut over", "a move is committed",
		}
		target := []string{"a move to here is committed", "a move to here is over, and its actor runs"}
		for rid, want := range map[string][]string{"a": source, "b": target} {
			x.eventually("the log of "+rid+" has all", func() bool { said, _ := log.of(rid, op); return len(said) >= len(want) })
			said, lines := log.of(rid, op)
			if !slices.Equal(said, want) {
				t.Errorf("%s said %q, want %q", rid, said, want)
			}
			for _, line := range lines {
				from, to := "a", "b"
				if line.Message == source[0] || line.Message == source[1] {
					from, to = entry, x.spot.ID
				}
				if line.Actor != x.ref.ID || line.From != from || line.To != to || line.After == nil || *line.After < 0 {
					t.Errorf("%s said %+v of the way of %s from %s to %s", rid, line, x.ref.ID, from, to)
				}
			}
		}
	})
}

func TestTheDebugLogTellsWhyAJoinWasNotToBe(t *testing.T) {
	onLogged(t, zerolog.DebugLevel, func(t *testing.T, x *crossing, log *logLines) {
		saidLast := func(want ...string) (last logLine) {
			t.Helper()
			op := receive(t, x.walk.ended).Operation.String()
			said, lines := log.of("a", op)
			if !slices.Equal(said, want) {
				t.Fatalf("it said %q, want %q", said, want)
			}
			return lines[len(lines)-1]
		}
		x.walk.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) { return zlnode.Reject(nil), nil }
		x.goes(walkTo{})
		saidLast("a join begins", "a move was rejected", "a join was rejected")
		x.walk.admit = nil
		x.walk.capture = func(*walker) ([]byte, error) { return nil, errors.New("no ink") }
		x.goes(walkTo{})
		last := saidLast("a join begins", "a join was admitted", "a move is reserved", "a move has sealed its object", "a move is aborted", "a join failed")
		if last.Error == "" {
			t.Errorf("it does not say why: %+v", last)
		}
		x.walk.capture, x.walk.restore = nil, func(*walker, []byte) error { return errors.New("no light") }
		x.goes(walkTo{})
		saidLast("a join begins", "a join was admitted", "a move is reserved", "a move has sealed its object",
			"a move restores its object once more, as the target failed to", "a move is aborted", "a join failed")
		x.goes(walkTo{Spot: "nowhere"})
		if last := saidLast("a join begins", "a join failed"); last.To != "nowhere" || last.Error == "" {
			t.Errorf("it said %+v", last)
		}
	})
}

// req: RL-09
func TestATargetWarnsThatItCommitsWithoutACutover(t *testing.T) {
	var log logLines
	o := crossingOptions{tune: func(c *node.Config) {
		log.logged(zerolog.WarnLevel)(c)
		c.RelocationCutoverWaitTimeout = 50 * time.Millisecond
	}}
	onCrossing(t, o, func(t *testing.T, x *crossing) {
		cutover := x.roads.At(stallBefore, "a", "b", wire.CmdCutover, 1)
		x.goes(walkTo{})
		receive(t, cutover.Reached)
		done := receive(t, x.walk.ended)
		said := slices.DeleteFunc(log.saying("a move to here is committed without its source's last word, as nothing was heard of it"),
			func(l logLine) bool { return l.Operation != done.Operation.String() }) // the other Store's
		if len(said) != 1 || said[0].Level != "warn" || said[0].Node != "b" || said[0].Actor != x.ref.ID {
			t.Errorf("it said %+v", said)
		}
		x.roads.GoOn("a", "b")
		x.isAt("b", x.spot.ID)
	})
}

func TestBelowDebugNothingIsSaidOfMoves(t *testing.T) {
	onLogged(t, zerolog.InfoLevel, func(t *testing.T, x *crossing, log *logLines) {
		x.goes(walkTo{})
		op := x.arrives("b", x.spot.ID).Operation.String()
		for _, rid := range []string{"a", "b"} {
			if said, _ := log.of(rid, op); len(said) != 0 {
				t.Errorf("%s said %q", rid, said)
			}
		}
	})
}

// A callback that is tried until it succeeds is told of when it fails or panics at first, and
// later ever more rarely.
func TestACallbackThatKeepsFailingSaysSoEverMoreRarely(t *testing.T) {
	onLogged(t, zerolog.WarnLevel, func(t *testing.T, x *crossing, log *logLines) {
		home := x.createSpotAt(x.c, "a", "wide")
		for _, at := range []struct{ rid, spot string }{{"a", home.ID}, {"b", x.spot.ID}} {
			log.clear()
			failed := 0
			x.walk.joined = func(*zlnode.SpotCall, zlnode.ActorRef) error {
				if failed++; failed <= 5 {
					return errors.New("not yet")
				}
				return nil
			}
			told := 0
			x.walk.done = func(*zlnode.ActorCall, zlnode.JoinDone) error {
				if told++; told <= 5 {
					panic("not yet")
				}
				return nil
			}
			x.goes(walkTo{Spot: at.spot})
			x.arrives(at.rid, at.spot)
			for callback, want := range map[string][]int{"OnJoinedActor": {0, 2, 4}, "OnJoinCompleted": {0, 2, 4}} {
				var tries []int
				for _, line := range log.saying("a callback failed") {
					if line.Callback == callback && line.Node == at.rid {
						tries = append(tries, line.Tries)
					}
				}
				if !slices.Equal(tries, want) {
					t.Errorf("at %s %s said so at the tries %v, want %v", at.rid, callback, tries, want)
				}
			}
			if n := len(log.saying("application code panicked")); n != 3 {
				t.Errorf("at %s %d panics were told of", at.rid, n)
			}
			x.asks(x.c, "joined "+at.spot)
		}
	})
}

// saying returns the lines with that message.
func (l *logLines) saying(message string) (lines []logLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if line.Message == message {
			lines = append(lines, line)
		}
	}
	return lines
}

func (l *logLines) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
}
