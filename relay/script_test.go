package relay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

var scriptTiming = Timing{
	Wait: 10 * time.Millisecond, WaitMax: 40 * time.Millisecond, Settle: 80 * time.Millisecond,
	CutoverWait: time.Second, SealTimeout: 3 * time.Second, Validity: time.Minute, Prepared: 5 * time.Second,
	Insist: time.Second,
}

// In all scripts "s", owner id "s-1" of lifecycle 1, moves unit "u" of generation 7, which it
// has as owner generation 3 and version 10 of epoch 1, to "t", owner id "t-2" of lifecycle 2:
// out of its Entry Spot "home" into User Spot "room" or into t's Entry Spot "lobby".
const (
	unitGen  store.ObjectGen = 7
	ownerGen store.OwnerGen  = 3
)

var (
	sourceLease = store.Lease{RID: "s", OwnerID: "s-1", Gen: 1}
	targetLease = store.Lease{RID: "t", OwnerID: "t-2", Gen: 2}
	relocation  = store.RelocationID{15: 9}
	reserveOp   = store.OpID{15: 1}
	abortOp     = store.OpID{15: 2}
	commitOp    = store.OpID{15: 3}
	giveUpOp    = store.OpID{15: 4}
	prepareOp   = store.OpID{15: 5}
)

// words is one line of a script: a command, words and key=value pairs. All take at=d; the
// time stands still otherwise.
type words struct {
	t     *testing.T
	cmd   string
	plain []string
	args  map[string]string
}

// script runs the lines of a block through run, each of which gives one line.
func script(t *testing.T, path string, run func(w words) string) {
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		first := []string{d.Cmd}
		for _, a := range d.CmdArgs {
			first = append(first, a.String())
		}
		var out strings.Builder
		for line := range strings.Lines(strings.Join(first, " ") + "\n" + d.Input) {
			fields := strings.Fields(line)
			if len(fields) == 0 {
				continue
			}
			w := words{t: t, cmd: fields[0], args: map[string]string{}}
			for _, f := range fields[1:] {
				if key, value, ok := strings.Cut(f, "="); ok {
					w.args[key] = value
				} else {
					w.plain = append(w.plain, f)
				}
			}
			fmt.Fprintln(&out, run(w))
		}
		return out.String()
	})
}

func (w words) has(word string) bool { return slices.Contains(w.plain, word) }

func (w words) span(key string, otherwise time.Duration) time.Duration {
	text := w.args[key]
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w words) number(key string, otherwise uint64) uint64 {
	text := w.args[key]
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// clock moves the time of a script, which begins at 0 with each machine.
func (w words) clock(now *clock.Mono, begins string) {
	if w.cmd == begins {
		*now = 0
	}
	*now = clock.Mono(w.span("at", time.Duration(*now)))
}

func (w words) failure() *Failure {
	text, ok := w.args["fail"]
	if !ok {
		return nil
	}
	for k := range errkind.Kind(errkind.Count) {
		if k.String() == text {
			return &Failure{k, "because"}
		}
	}
	w.t.Fatalf("%q is no kind", text)
	return nil
}

func (w words) err() error {
	switch text := w.args["err"]; text {
	case "":
		return nil
	case "unknown":
		return store.ErrUnknown
	case "unavailable":
		return store.ErrUnavailable
	case "invalid":
		return store.ErrInvalid
	case "corrupt":
		return store.ErrCorrupt
	default:
		w.t.Fatalf("%q is no error", text)
		return nil
	}
}

func (w words) reply() Reply {
	text, ok := w.args["reply"]
	if !ok {
		return Reply{}
	}
	return Reply{Present: true, Codec: 1, Payload: []byte(text)}
}

// row is the unit's row; the words missing, of=, gen=, own=, version=, epoch=, spot=,
// creating, moving, and for the move of an attempt another=, to= and into= change it; into=- is of a Spot.
func (w words) row(version uint64, moving bool) (row store.Authority, found bool) {
	if w.has("missing") {
		return row, false
	}
	lease, own := sourceLease, uint64(ownerGen)
	switch of := w.args["of"]; of {
	case "", "s":
	case "t":
		lease, own, moving = targetLease, own+1, false
	default:
		lease, own, moving = store.Lease{RID: of, OwnerID: of + "-5", Gen: 5}, own+2, false
	}
	row = store.Authority{
		ID: "u", Kind: store.Actor, Type: "player", State: store.Ready, ObjectGen: store.ObjectGen(w.number("gen", uint64(unitGen))),
		Version: store.Version(w.number("version", version)), OwnerGen: store.OwnerGen(w.number("own", own)), Mesh: "main",
		RID: lease.RID, OwnerID: lease.OwnerID, LeaseGen: lease.Gen, LeaseLeft: time.Second, SpotID: "home",
		Epoch: store.Epoch(w.number("epoch", 1)),
	}
	if spot := w.args["spot"]; spot != "" {
		row.SpotID = spot
	}
	if w.has("creating") {
		row.State = store.Creating
	}
	if (moving || w.has("moving")) && !w.has("still") {
		row.Move = &store.Move{
			ID: relocation, Attempt: uint32(w.number("attempt", 1)), TargetRID: "t", TargetOwnerID: "t-2", TargetLifecycle: 2,
			SpotID: "lobby",
		}
		if w.has("another") {
			row.Move.ID[0] = 1
		}
		if to := w.args["to"]; to != "" {
			row.Move.TargetRID = to
		}
		if into := w.args["into"]; into != "" {
			row.Move.SpotID = spotID(into)
		}
		row.Move.InUserSpot = row.Move.SpotID == "room"
	}
	return row, true
}

// spotID is a Spot's id; "-" is none.
func spotID(word string) string {
	if word == "-" {
		return ""
	}
	return word
}

// change is what the Store answered: reason=, the row, and its epoch if that is not the row's, now=.
func (w words) change(version uint64, moving bool) (c store.Change) {
	name := w.args["reason"]
	if name == "" {
		name = "Applied"
	}
	r, known := store.ParseReason(name)
	if !known {
		w.t.Fatalf("%q is no reason", name)
	}
	c.Reason = r
	c.Record, c.Found = w.row(version, moving)
	c.Epoch = store.Epoch(w.number("now", w.number("epoch", 1)))
	return c
}

func (f *Failure) says() string {
	if f == nil {
		return "nothing"
	}
	return fmt.Sprintf("%v: %s", f.Kind, f.Text)
}

func (r Reply) says() string {
	if !r.Present {
		return ""
	}
	return fmt.Sprintf(", reply %s", r.Payload)
}

// until tells when a machine wants to be woken.
func until(m interface{ NextDeadline() (clock.Mono, bool) }) string {
	at, ok := m.NextDeadline()
	if !ok {
		return ""
	}
	return fmt.Sprintf("; until %v", time.Duration(at))
}

func yes(b bool, text string) string {
	if b {
		return text
	}
	return ""
}
