package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/session"
)

var routeEvents = map[string]session.RouteEventKind{
	"packet": session.RoutePacket, "submitted": session.RouteSubmitted, "seal": session.RouteSeal, "drained": session.RouteDrained,
	"lost": session.RouteLost, "lost-late": session.RouteLostLate, "commit": session.RouteCommit, "abort": session.RouteAbort, "shown": session.RouteShown,
	"late": session.RouteShownLate, "tick": session.RouteTick, "closed": session.RouteClosed,
}

var routeEffects = map[session.RouteEffectKind]string{
	session.RouteForward: "forward", session.RouteHold: "hold", session.RouteRefuse: "refuse", session.RouteSealed: "sealed", session.RouteSealLater: "seal-later",
	session.RouteSealRefused: "seal-refused", session.RouteShow: "show", session.RouteKeep: "keep", session.RouteDrop: "drop",
	session.RouteSwap: "swap", session.RouteSubmit: "submit", session.RouteShowKept: "show-kept", session.RouteClose: "close",
	session.RouteIgnored: "ignored", session.RouteGone: "gone",
}

func relocation(n int) session.Relocation { return session.Relocation{15: byte(n)} }

// routeScript drives one Route of incarnation 7, binding 3 and owner generation 10, and
// prints every reaction. Commands, one a line, with times from the start of the script:
//
//	new [packets=3] [bytes=100] [shows=3] [bytes-shown=100]
//	packet|submitted|shown|late [size=10]
//	seal|drained|commit|abort [move=1] [owner=10, 11 of a commit] [object=7] [binding=3] [at=1s]
//	lost|lost-late|closed
//	tick at=2s
type routeScript struct {
	t *testing.T
	r session.Route
}

func (s *routeScript) run(line string) string {
	cmd, rest, _ := strings.Cut(line, " ")
	args := map[string]string{}
	for word := range strings.FieldsSeq(rest) {
		k, v, _ := strings.Cut(word, "=")
		args[k] = v
	}
	number := func(key string, otherwise int) int {
		if v, ok := args[key]; ok {
			if _, err := fmt.Sscan(v, &otherwise); err != nil {
				s.t.Fatalf("%s: %v", line, err)
			}
		}
		return otherwise
	}
	if cmd == "new" {
		s.r = session.NewRoute(&session.RouteLimits{
			Packets: number("packets", 3), Bytes: number("bytes", 100), Shows: number("shows", 3), ShowBytes: number("bytes-shown", 100),
			Seal: 3 * time.Second,
		}, 7, 3, 10)
		return "new"
	}
	ev := session.RouteEvent{
		Kind: routeEvents[cmd], ObjGen: uint64(number("object", 7)), BindingGen: uint64(number("binding", 3)),
		Relocation: relocation(number("move", 1)), OwnerGen: uint64(number("owner", 10)), Size: number("size", 10),
	}
	if ev.Kind == session.RouteCommit {
		ev.OwnerGen = uint64(number("owner", 11))
	}
	now := sessionStart
	if at, ok := args["at"]; ok {
		d, err := time.ParseDuration(at)
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		now = now.Add(d)
	}
	s.r.Step(now, ev)
	return line + ":" + s.says()
}

func (s *routeScript) says() string {
	var out strings.Builder
	for _, e := range s.r.Effects(nil) {
		out.WriteString(" " + routeEffects[e.Kind])
		if e.Why != 0 {
			fmt.Fprintf(&out, "(%v)", e.Why)
		}
	}
	if out.Len() == 0 {
		out.WriteString(" nothing")
	}
	switch at, ok := s.r.NextDeadline(); {
	case ok:
		fmt.Fprintf(&out, "; sealed until %v", at.Sub(sessionStart))
	case s.r.Submitting():
		out.WriteString("; submitting")
	}
	if s.r.Leaving() {
		out.WriteString("; leaving")
	}
	return out.String()
}

func TestRouteReactsAsTheScriptsSay(t *testing.T) {
	datadriven.Walk(t, "testdata/route", func(t *testing.T, path string) {
		s := routeScript{t: t}
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				out.WriteString(s.run(strings.TrimSpace(line)) + "\n")
			}
			return out.String()
		})
	})
}

// routeWorld is a Route with what an observer needs to judge it. It is a value that can
// be compared, so that all histories that lead to it are one.
type routeWorld struct {
	route     session.Route
	held      int                // packets that wait
	kept      int                // of what is shown
	submits   bool               // the first packet that waits is to be submitted
	confirmed session.Relocation // the seal that was confirmed and has not ended
	asked     session.Relocation // the one that is to be confirmed later
	left      session.Relocation // the move whose owner before may still show something
	drained   bool               // of the confirmed one: it may not
	last      session.Relocation // the last move that has ended
	moved     bool               // it was committed
	owner     uint64
	closed    bool
}

const (
	routeObject, routeBinding = 7, 3
	routeFirstOwner           = 10
)

var smallRoute = session.RouteLimits{Packets: 2, Bytes: 2, Shows: 2, ShowBytes: 2, Seal: time.Second}

func newRouteWorld() routeWorld {
	return routeWorld{route: session.NewRoute(&smallRoute, routeObject, routeBinding, routeFirstOwner), owner: routeFirstOwner}
}

// step gives the event to the Route and returns what is wrong with the reaction. ok is
// false if a shell never gives this event now.
func (w *routeWorld) step(now clock.Mono, ev session.RouteEvent) (ok bool, wrong string) {
	if ev.Kind == session.RouteSubmitted && !w.submits {
		return false, ""
	}
	before := *w
	w.route.Step(now, ev)
	effects := w.route.Effects(nil)
	if w.submits = w.submits && w.route.Submitting() && ev.Kind != session.RouteSubmitted; ev.Kind == session.RouteSubmitted {
		w.held--
	}
	if sealed := before.sealed(); sealed != (session.Relocation{}) && (ev.Kind == session.RouteLost || ev.Kind == session.RouteDrained && concerns(&ev, sealed)) {
		w.drained = true
	}
	answers := 0
	for _, e := range effects {
		if wrong = w.effect(&before, &ev, e); wrong != "" {
			return true, fmt.Sprintf("%s: %s", routeEffects[e.Kind], wrong)
		}
		if e.Kind <= session.RouteDrop && (e.Kind != session.RouteSealed || ev.Kind == session.RouteSeal) {
			answers++
		}
	}
	if ev.Kind == session.RouteClosed {
		w.end()
	}
	ended := w.last != (session.Relocation{}) && concerns(&ev, before.last) && !before.closed
	switch {
	case ended && (ev.Kind == session.RouteCommit && w.moved || ev.Kind == session.RouteAbort && !w.moved && ev.OwnerGen == w.owner) && len(effects) > 0:
		return true, "the repeat of an end does something"
	case ended && (ev.Kind == session.RouteCommit && !w.moved || ev.Kind == session.RouteAbort && w.moved) && len(effects) == 0:
		return true, "another end of a move that has ended is not noticed"
	}
	return true, w.check(&before, now, &ev, answers)
}

// concerns reports whether the event names the binding of the Route and that move.
func concerns(ev *session.RouteEvent, move session.Relocation) bool {
	return ev.Relocation == move && ev.ObjGen == routeObject && ev.BindingGen == routeBinding
}

// sealed is the move under way.
func (w *routeWorld) sealed() session.Relocation {
	if w.asked != (session.Relocation{}) {
		return w.asked
	}
	return w.confirmed
}

func (w *routeWorld) end() {
	none := session.Relocation{}
	w.closed, w.held, w.kept, w.submits, w.confirmed, w.asked, w.left = true, 0, 0, false, none, none, none
}

// effect notes one effect and returns why it must not be.
func (w *routeWorld) effect(before *routeWorld, ev *session.RouteEvent, e session.RouteEffect) (wrong string) {
	none := session.Relocation{}
	must := func(ok bool, what string) {
		if !ok && wrong == "" {
			wrong = what
		}
	}
	must(!before.closed || e.Kind == session.RouteRefuse || e.Kind == session.RouteSealRefused || e.Kind == session.RouteDrop ||
		e.Kind == session.RouteIgnored || e.Kind == session.RouteGone, "the session is closed")
	switch e.Kind {
	case session.RouteForward:
		must(before.held == 0, "it overtakes a packet")
		must(before.confirmed == none && before.asked == none, "the route is sealed")
	case session.RouteHold:
		must(before.confirmed != none || before.asked != none || before.held > 0, "nothing is to be waited for")
		w.held++
	case session.RouteSubmit:
		must(w.held > 0 && !w.submits, "there is no packet, or it is under way")
		w.submits = true
	case session.RouteSealed, session.RouteSealLater:
		if ev.Kind != session.RouteSeal {
			must(before.asked != none && ev.Kind == session.RouteLostLate || ev.Kind == session.RouteDrained && concerns(ev, before.left), "unasked")
			w.confirmed, w.asked = before.asked, none
			break
		}
		must(ev.OwnerGen >= before.owner, "by an owner of the past")
		must((before.left == none) == (e.Kind == session.RouteSealed), "it waits for the owner before, and only for that")
		must(ev.Relocation != before.last, "for a move that has ended")
		must(before.confirmed == none || before.confirmed == ev.Relocation, "for two moves at once")
		must(before.asked == none || before.asked == ev.Relocation, "for two moves at once")
		if before.confirmed == none && before.asked == none {
			w.drained, w.owner, w.last = false, ev.OwnerGen, none
		}
		if e.Kind == session.RouteSealed {
			w.confirmed = ev.Relocation
		} else {
			w.asked = ev.Relocation
		}
	case session.RouteSwap:
		must(ev.Kind == session.RouteCommit && concerns(ev, before.confirmed), "of a move that is not sealed, or another binding")
		must(ev.OwnerGen > before.owner, "the owner generation does not grow")
		if !w.drained {
			w.left = w.confirmed
		}
		w.owner, w.confirmed, w.last, w.moved = ev.OwnerGen, none, ev.Relocation, true
	case session.RouteShow:
		if ev.Kind == session.RouteShownLate {
			must(before.left != none, "it was said that nothing more comes")
		} else {
			must(before.left == none && before.kept == 0, "it overtakes what the owner before shows")
		}
	case session.RouteKeep:
		must(before.left != none, "nothing is to be waited for")
		w.kept++
	case session.RouteShowKept:
		must(before.kept > 0, "nothing is kept")
		must(ev.Kind == session.RouteLostLate || ev.Kind == session.RouteDrained && concerns(ev, before.left), "the owner before has not ended")
		w.kept = 0
	case session.RouteClose:
		w.end()
	case session.RouteGone:
		must(before.closed && ev.Kind == session.RouteCommit, "nothing has committed too late")
	case session.RouteRefuse, session.RouteSealRefused, session.RouteDrop, session.RouteIgnored:
	}
	return wrong
}

// check looks at the whole after a step.
func (w *routeWorld) check(before *routeWorld, now clock.Mono, ev *session.RouteEvent, answers int) string {
	none := session.Relocation{}
	want := 0
	switch ev.Kind {
	case session.RoutePacket, session.RouteSeal, session.RouteShown, session.RouteShownLate:
		want = 1
	case session.RouteAbort:
		if sealed := before.sealed(); sealed != none && ev.OwnerGen == before.owner && concerns(ev, sealed) {
			w.confirmed, w.asked, w.last, w.moved = none, none, sealed, false
		}
	case session.RouteDrained:
		if concerns(ev, w.left) {
			w.left = none
		}
	case session.RouteLostLate:
		w.left = none
	case session.RouteTick:
		if late := before.sealed() != none && now == routeLate; late != (w.closed && !before.closed) {
			return "a seal ends the session at its time, and only then"
		}
	}
	_, sealed := w.route.NextDeadline()
	switch {
	case answers != want:
		return fmt.Sprintf("%d answers", answers)
	case w.held > smallRoute.Packets || w.kept > smallRoute.Shows:
		return "more waits than may"
	case sealed != (w.sealed() != none):
		return "sealed is what was asked for and has not ended"
	case w.asked != none && w.left == none:
		return "a confirmation waits for nothing"
	case w.route.Leaving() != (w.left != none):
		return "what the owner before may show"
	case w.route.Submitting() != w.submits:
		return "what waits is submitted as soon as no move is under way"
	}
	return ""
}

const routeLate = sessionStart + clock.Mono(time.Second)

// routeAlphabet are all events, for two moves and three generations of owners.
func routeAlphabet() (all []session.RouteEvent) {
	for _, kind := range []session.RouteEventKind{
		session.RoutePacket, session.RouteSubmitted, session.RouteLost, session.RouteLostLate, session.RouteShown, session.RouteShownLate, session.RouteTick, session.RouteClosed,
	} {
		all = append(all, session.RouteEvent{Kind: kind, Size: 1})
	}
	for _, kind := range []session.RouteEventKind{session.RouteSeal, session.RouteDrained, session.RouteCommit, session.RouteAbort} {
		for move := 1; move <= 2; move++ {
			ev := session.RouteEvent{Kind: kind, Relocation: relocation(move), ObjGen: routeObject, BindingGen: routeBinding}
			for ev.OwnerGen = routeFirstOwner - 1; ev.OwnerGen < routeFirstOwner+3; ev.OwnerGen++ {
				all = append(all, ev)
			}
			ev.OwnerGen = routeFirstOwner + 1
			other := ev
			ev.BindingGen++
			other.ObjGen++
			all = append(all, ev, other)
		}
	}
	return all
}

// Every history of two moves and small budgets is gone through. From each state the
// route also comes to rest when the move under way commits and its owner has ended.
// req: SB-02
// req: SB-05
func TestARouteKeepsItsLawsInEveryHistory(t *testing.T) {
	first, alphabet := newRouteWorld(), routeAlphabet()
	came := map[routeWorld]string{first: ""}
	for queue := []routeWorld{first}; len(queue) > 0; queue = queue[1:] {
		if wrong := settle(queue[0]); wrong != "" {
			t.Fatalf("after%s: %s", came[queue[0]], wrong)
		}
		for _, ev := range alphabet {
			for _, now := range []clock.Mono{sessionStart, routeLate} {
				if now == routeLate && ev.Kind != session.RouteTick {
					continue
				}
				next := queue[0]
				ok, wrong := next.step(now, ev)
				if wrong != "" {
					t.Fatalf("after%s, %+v: %s", came[queue[0]], ev, wrong)
				}
				if _, known := came[next]; ok && !known {
					came[next] = fmt.Sprintf("%s %d/%d/%d", came[queue[0]], ev.Kind, ev.Relocation[15], ev.OwnerGen)
					queue = append(queue, next)
				}
			}
		}
	}
	if len(came) < 150 {
		t.Errorf("only %d states were reached", len(came))
	}
}

// settle ends what is under way and says what does not come to rest.
func settle(w routeWorld) string {
	give := func(ev session.RouteEvent) string {
		ev.ObjGen, ev.BindingGen = routeObject, routeBinding
		_, wrong := w.step(sessionStart, ev)
		return wrong
	}
	var wrong string
	if w.asked != (session.Relocation{}) {
		wrong = give(session.RouteEvent{Kind: session.RouteLostLate})
	}
	if w.confirmed != (session.Relocation{}) && wrong == "" {
		wrong = give(session.RouteEvent{Kind: session.RouteCommit, Relocation: w.confirmed, OwnerGen: w.owner + 1})
	}
	if w.left != (session.Relocation{}) && wrong == "" {
		wrong = give(session.RouteEvent{Kind: session.RouteDrained, Relocation: w.left})
	}
	for w.submits && wrong == "" {
		wrong = give(session.RouteEvent{Kind: session.RouteSubmitted, Size: 1})
	}
	if wrong == "" && (w.held > 0 || w.kept > 0 || !w.closed && !w.route.Calm()) {
		wrong = fmt.Sprintf("%d packets wait, %d are kept", w.held, w.kept)
	}
	return wrong
}

// However many moves follow each other, and whatever is late, a route keeps its laws.
func FuzzRoute(f *testing.F) {
	f.Add([]byte{7, 0, 13, 0, 25, 1})
	f.Add([]byte{7, 0, 0, 31, 3, 14, 1, 1, 3})
	alphabet := routeAlphabet()
	f.Fuzz(func(t *testing.T, history []byte) {
		w := newRouteWorld()
		shift := uint64(0) // so that generations can grow without an end
		for i, b := range history {
			ev := alphabet[int(b)%len(alphabet)]
			if ev.OwnerGen != 0 {
				ev.OwnerGen += shift
				ev.Relocation[0] = byte(shift)
			}
			if _, wrong := w.step(sessionStart, ev); wrong != "" {
				t.Fatalf("at %d, %+v: %s", i, ev, wrong)
			}
			shift = max(shift, w.owner-routeFirstOwner)
		}
		if wrong := settle(w); wrong != "" {
			t.Fatal(wrong)
		}
	})
}
