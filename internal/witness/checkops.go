package witness

import (
	"fmt"
	"strings"
)

// fate is what became of a message.
type fate struct {
	asked, ended           []*event
	began                  []*event
	accepted               *event
	executed, refused, bad bool // bad: its turn ended with an error
}

// messages is I3, and what I6 says of them.
func (h *history) messages() {
	all := map[Op]*fate{}
	var ops []Op // in order
	for i := range h.events {
		e := &h.events[i]
		if !e.message() {
			continue
		}
		switch e.Kind {
		case Asked, Ended, TurnBegan, TurnEnded, Accepted, Refused, Executed:
		default:
			continue
		}
		f := all[e.Op]
		if f == nil {
			f = &fate{}
			all[e.Op] = f
			ops = append(ops, e.Op)
		}
		switch e.Kind {
		case Asked:
			f.asked = append(f.asked, e)
		case Ended:
			f.ended = append(f.ended, e)
		case TurnBegan:
			f.began = append(f.began, e)
		case TurnEnded:
			f.bad = f.bad || e.Flags&Failed != 0
		case Accepted:
			f.accepted = e
		case Refused:
			f.refused = true
		case Executed:
			f.executed = true
		default:
		}
	}
	for _, op := range ops {
		h.message(op, all[op])
	}
}

// story is what became of a message and, around it, of its object; without such a message what
// became of the object in the end.
func (h *history) story(object string, op Op) string {
	var lines []string
	first, last := -1, -1 // of the message
	for i := range h.events {
		e := &h.events[i]
		switch own := e.message() && e.Op == op; {
		case own:
			if last = len(lines); first < 0 {
				first = last
			}
		case e.Kind == 0, e.Object != object, e.Kind <= Refused, e.Kind >= Executed && e.Kind <= Ended:
			continue
		}
		lines = append(lines, fmt.Sprintf("\n    %v %s %v flags %d owner generation %d %x", e.At, h.logs[e.process].Process, e.Kind, e.Flags, e.OwnerGen, e.Op))
	}
	if first < 0 {
		first, last = len(lines), len(lines)
	}
	return strings.Join(lines[max(first-storyLines, 0):min(last+storyLines, len(lines))], "")
}

const storyLines = 30

func (h *history) message(op Op, f *fate) {
	if len(f.began) > 1 {
		h.broken("I3", "message %x runs %d times: at %s and %s%s", op, len(f.began), h.by(f.began[0]), h.by(f.began[1]), h.story(f.began[0].Object, op))
	}
	if f.accepted != nil && !f.executed && !f.bad && !f.refused && !h.touched[f.accepted.Object] {
		h.broken("I3", "message %x for %v was accepted by %s and is lost%s", op, f.accepted.object(), h.by(f.accepted), h.story(f.accepted.Object, op))
	}
	if len(f.asked) == 0 {
		if len(f.ended) > 0 {
			h.broken("I6", "operation %x ends, and nobody has asked for it", op)
		}
		return
	}
	asked := f.asked[0]
	switch lives := h.logs[asked.process].Died == 0; {
	case len(f.asked) > 1:
		h.broken("I6", "operation %x was asked for twice: two senders have one number", op)
		return
	case len(f.ended) > 1:
		h.broken("I6", "operation %x has %d ends at %s", op, len(f.ended), h.by(f.ended[0]))
		return
	case len(f.ended) == 0:
		if lives {
			h.broken("I6", "operation %x for %s, asked for by %s, has no end", op, asked.Object, h.by(asked))
		}
		return
	}
	ended := f.ended[0]
	oneWay := asked.Flags&OneWay != 0
	switch failed := ended.Flags&Failed != 0; {
	case failed && h.rules.Faultless:
		h.broken("I6", "operation %x for %s failed without a fault", op, asked.Object)
	case failed:
	case !oneWay && !f.executed:
		h.broken("I3", "request %x for %s was answered and is not executed", op, asked.Object)
	case !oneWay && f.bad:
		h.broken("I6", "request %x for %s succeeded for its caller and failed where it ran", op, asked.Object)
	case oneWay && !f.executed && !f.refused && !h.rules.Lossy && !h.touched[asked.Object]:
		h.broken("I3", "message %x for %s was taken and is lost on its way", op, asked.Object)
	}
}

// joins is what I6 says of Joins.
func (h *history) joins() {
	wanted, completed := map[object]int{}, map[object]int{}
	done := map[Op]*event{}
	var objects []object
	for i := range h.events {
		e := &h.events[i]
		switch o := e.object(); e.Kind {
		case JoinWanted:
			if wanted[o]++; wanted[o] == 1 {
				objects = append(objects, o)
			}
		case JoinCompleted:
			completed[o]++
			if was := done[e.Op]; was != nil {
				what := "twice"
				if was.Flags != e.Flags {
					what = "with two outcomes"
				}
				h.broken("I6", "join %x of %v completes %s: at %s and %s", e.Op, o, what, h.by(was), h.by(e))
			}
			done[e.Op] = e
			if h.rules.Faultless && !h.rules.JoinsFail && e.Flags&Failed != 0 {
				h.broken("I6", "join %x of %v failed without a fault", e.Op, o)
			}
		default:
		}
	}
	for _, o := range objects {
		if wanted[o] != completed[o] && !h.touched[o.id] {
			h.broken("I6", "%v wanted %d joins, of which %d have completed", o, wanted[o], completed[o])
		}
	}
}

// visit is an object at an owner that it came to by a move.
type visit struct {
	byJoin                  bool // a Join was pending when it came; else its node has moved it
	joined, left, completed []*event
	local                   int    // Joins since then, that did not move it
	turn                    *event // the first
}

// callbacks is I13.
func (h *history) callbacks() {
	visits, born, pending := map[tenure]*visit{}, map[object]uint64{}, map[object]int{}
	admitted, sealed, crossed := map[tenure]*event{}, map[tenure]*event{}, map[tenure]*event{}
	var order []tenure
	at := func(e *event) *visit {
		v := visits[e.tenure()]
		if v == nil {
			v = &visit{byJoin: pending[e.object()] > 0}
			visits[e.tenure()] = v
			order = append(order, e.tenure())
		}
		return v
	}
	for i := range h.events {
		e := &h.events[i]
		switch e.Kind {
		case JoinWanted:
			pending[e.object()]++
		case JoinAdmitted:
			if admitted[e.tenure()] == nil {
				admitted[e.tenure()] = e
			}
		case GateClosed:
			if crossed[e.tenure()] == nil {
				sealed[e.tenure()] = e
			}
		case Boundary:
			crossed[e.tenure()] = e
		case GateOpened:
			if _, known := born[e.object()]; !known {
				born[e.object()] = e.OwnerGen
			}
		case JoinedSpot:
			switch v := at(e); {
			case v.turn != nil || born[e.object()] == e.OwnerGen:
				v.local++
			default:
				v.joined = append(v.joined, e)
			}
		case LeftSpot:
			v := at(e)
			v.left = append(v.left, e)
		case JoinCompleted:
			v := at(e)
			pending[e.object()]--
			if e.Flags&Failed == 0 && v.local == 0 {
				v.completed = append(v.completed, e)
			}
		case TurnBegan:
			if v := at(e); v.turn == nil && e.message() {
				v.turn = e
			}
		default:
		}
	}
	for _, t := range order {
		if gen, known := born[t.object]; known && gen == t.owner {
			continue // it was made there
		}
		before := t
		before.owner--
		h.visit(t, visits[t], admitted[before], sealed[before])
	}
}

// visit looks at one. admitted and sealed are of the owner before.
func (h *history) visit(t tenure, v *visit, admitted, sealed *event) {
	for what, all := range map[string][]*event{"OnJoinedActor": v.joined, "OnLeaveActor": v.left, "OnJoinCompleted": v.completed} {
		if len(all) > 1 && v.local == 0 {
			h.broken("I13", "%s of %v runs %d times: at %s and %s", what, t, len(all), h.by(all[0]), h.by(all[1]))
		}
		if len(all) > 0 && !v.byJoin && v.local == 0 {
			h.broken("I13", "%s of %v runs at %s, and no join has brought it there", what, t, h.by(all[0]))
		}
	}
	if !v.byJoin {
		return
	}
	first := func(all []*event) *event {
		if len(all) == 0 {
			return nil
		}
		return all[0]
	}
	chain := []struct {
		what string
		at   *event
	}{{"OnJoinedActor", first(v.joined)}, {"OnJoinCompleted", first(v.completed)}, {"its first turn", v.turn}}
	for i, step := range chain {
		for _, must := range chain[:i] {
			if step.at != nil && (must.at == nil || must.at.At > step.at.At) {
				h.broken("I13", "%s of %v at %s is not behind %s", step.what, t, h.by(step.at), must.what)
			}
		}
	}
	if left := first(v.left); left != nil && (len(v.joined) == 0 && !h.touched[t.id] || len(v.joined) > 0 && v.joined[0].At > left.At) {
		h.broken("I13", "OnLeaveActor of %v at %s is not behind OnJoinedActor", t, h.by(left))
	}
	if len(v.joined) > 0 && sealed != nil && (admitted == nil || admitted.At > sealed.At) {
		h.broken("I13", "OnActorJoin of %v did not run before its seal at %s", t, h.by(sealed))
	}
	if h.rules.Faultless && len(v.joined) > 0 && (len(v.left) != len(v.joined)+v.local || len(v.completed) == 0) {
		h.broken("I13", "%v joined, and OnLeaveActor ran %d times, OnJoinCompleted %d", t, len(v.left), len(v.completed))
	}
}
