package sim

import (
	"bytes"
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// ledger is the oracle's own account of what the Store was asked and what was done with
// it, by object generation. It is fed by the shells, where a core acts on the world.
type ledger struct {
	w    *World
	all  []*incarnation
	of   map[store.ObjectGen]*incarnation
	last map[string]*incarnation // by id
	open []*call                 // that have not ended
	refs []*incarnation          // that some caller knows of
}

// incarnation is what became of one reservation.
type incarnation struct {
	id, typ  string
	kind     store.Kind
	gen      store.ObjectGen
	op       store.OperationKey
	rid      string
	lease    store.LeaseGen
	by       *call
	reserved time.Duration
	part     *part        // the application's, once its factory ran
	result   store.Result // 0 while it is Creating
	finished time.Duration
	gone     bool // its row is
	ended    time.Duration
	seen     *call // that was told Created
}

func (i *incarnation) String() string { return fmt.Sprintf("%s #%d", i.id, i.gen) }

// within reports whether there was a row at any time since.
func (i *incarnation) within(since time.Duration) bool { return !i.gone || i.ended >= since }

// call is a creation or a destroy that somebody asked for.
type call struct {
	creation.Call
	n            int
	destroys     *incarnation
	request      []byte
	timeout      time.Duration
	abandonAfter time.Duration // 0: not
	abandoned    bool
	origin       *process
	begunAt      time.Duration
	end          *creation.SourceResult
}

// part is what the application does with one creation.
type part struct {
	name           string
	rejects, fails bool
	takes          time.Duration
	reply          []byte
}

func (l *ledger) begun(p *process, c *call) {
	c.origin, c.begunAt = p, l.w.now
	c.Deadline = p.clock().Add(c.timeout)
	l.open = append(l.open, c)
	l.w.histories++
	what := "calls Create"
	switch {
	case c.destroys != nil:
		what = "calls Destroy"
	case c.Get:
		what = "calls GetOrCreate"
	}
	l.w.note(p, what, c.ID, c.Kind.String()+" "+c.Type+" "+c.timeout.String(), uint64(c.n))
}

// died forgets the calls of a process: nobody waits for them any more.
func (l *ledger) died(p *process) {
	kept := l.open[:0]
	for _, c := range l.open {
		if c.origin != p {
			kept = append(kept, c)
		}
	}
	l.open = kept
}

// reserved is told after each reservation that the Store took.
func (l *ledger) reserved(c *call, r *store.Reserve, change *store.Change) {
	defer l.w.watch()
	l.w.note(nil, "reserve", r.ID, change.Reason.String(), uint64(c.n))
	if change.Reason != store.Applied {
		return
	}
	row := &change.Record
	i := &incarnation{
		id: r.ID, typ: r.Type, kind: r.Kind, gen: row.ObjectGen, op: r.Op, rid: r.TargetRID, lease: r.TargetLifecycle,
		by: c, reserved: l.w.now,
	}
	if before := l.last[r.ID]; before != nil && (!before.gone || before.gen >= i.gen) {
		l.w.fail("I7", "%v was reserved behind %v", i, before)
	}
	l.all, l.of[i.gen], l.last[i.id] = append(l.all, i), i, i
}

// staged is told when a factory is about to run, and draws what it will do.
func (l *ledger) staged(p *process, row *store.Authority) *part {
	w, i := l.w, l.of[row.ObjectGen]
	drawn := w.drawPart()
	if i == nil || row.ID != i.id || row.State != store.Creating || row.Create == nil {
		w.fail("I1", "%s runs a factory for %s #%d, which was never reserved", p.name(), row.ID, row.ObjectGen)
		return drawn
	}
	drawn.reply = fmt.Append(nil, "reply of ", i)
	switch {
	case i.rid != p.rid || i.lease != p.lease.Gen:
		w.fail("I1", "%s runs a factory for %v, which is reserved at %s", p.name(), i, i.rid)
	case i.part != nil || i.result != 0:
		w.fail("I1", "%s runs the factory for %v again, or after its end", p.name(), i)
	case i.kind != row.Kind || i.typ != row.Type || i.op != row.Create.Op:
		w.fail("I1", "%s runs a factory for %v as a %v %s of another operation", p.name(), i, row.Kind, row.Type)
	case !bytes.Equal(row.Create.Request, i.by.request):
		w.fail("CR-09", "%s runs the factory for %v with the request %q, not the winner's", p.name(), i, row.Create.Request)
	}
	i.part = drawn
	return drawn
}

// finished is told after each Finish that the Store took.
func (l *ledger) finished(p *process, f *store.Finish, change *store.Change) {
	defer l.w.watch()
	l.w.note(nil, "finish "+f.Result.String(), f.ID, change.Reason.String(), uint64(f.ObjectGen))
	i := l.of[f.ObjectGen]
	if change.Reason != store.Applied {
		return
	}
	switch {
	case i == nil || i.result != 0 || i.gone:
		l.w.fail("I8", "a creation that is over was finished: %v", i)
		return
	case i.rid != p.rid || i.lease != p.lease.Gen:
		l.w.fail("I8", "%s finished %v, which is reserved at %s", p.name(), i, i.rid)
	case f.Result == store.Created && (i.part == nil || i.part.rejects || i.part.fails):
		l.w.fail("CR-07", "%v was committed, and its application did not accept it", i)
	case f.Result == store.Rejected && (i.part == nil || !i.part.rejects):
		l.w.fail("CR-07", "%v was rejected, and not by its application", i)
	}
	i.result, i.finished = f.Result, l.w.now
	l.w.Cover.Mark("committed " + f.Result.String())
	if c := i.by; f.Result == store.Failed && f.FailKind == uint8(errkind.DeadlineExceeded) && !c.origin.clock().Reached(c.Deadline) {
		l.w.Cover.Mark("failed at a deadline before its own")
	}
	if f.Result != store.Created {
		i.gone, i.ended = true, l.w.now
	}
}

// removed is told after the Store was asked to delete, free or cancel a row.
func (l *ledger) removed(how string, gen store.ObjectGen, change *store.Change) {
	defer l.w.watch()
	i := l.of[gen]
	l.w.note(nil, how, i.id, change.Reason.String(), uint64(gen))
	if change.Reason != store.Applied {
		return
	}
	l.w.Cover.Mark("applied " + how)
	if i.gone || (how == "cancel") != (i.result == 0) {
		l.w.fail("I8", "%v: %s was applied to it, result %v, gone %v", i, how, i.result, i.gone)
	}
	if p := l.w.find(i.rid, i.lease); how != "delete" && p != nil && p.mayAct() {
		l.w.fail("I1", "%v: %s was applied to it, and %s may still act", i, how, p.name())
	}
	if how == "cancel" && i.part != nil {
		l.w.Cover.Mark("cancelled after its factory had run")
	}
	i.gone, i.ended = true, l.w.now
}

// opened is told when an object begins to take messages.
func (l *ledger) opened(p *process, o *object) {
	i := l.of[o.gen]
	if i.result != store.Created {
		l.w.fail("CR-07", "%s opens %v, whose creation ended as %v in the Store", p.name(), i, i.result)
	}
	l.w.acts(p)
}

// ended is told when a creation gives its caller the end.
func (l *ledger) ended(p *process, c *call, r *creation.SourceResult) {
	w := l.w
	w.note(p, "call ends", c.ID, outcomeNames[r.Outcome]+" "+failureText(r.Failure), uint64(c.n))
	w.Cover.Mark("call " + outcomeNames[r.Outcome])
	if !l.ends(p, c) {
		return
	}
	c.end = r
	i := l.of[r.Result.ObjectGen]
	own := i != nil && i.by == c
	switch r.Outcome {
	case creation.Created:
		switch {
		case !own || i.result != store.Created:
			w.fail("I6", "call %d was told Created of %v", c.n, i)
		case i.seen != nil:
			w.fail("I6", "calls %d and %d were both told Created of %v", c.n, i.seen.n, i)
		case !i.gone && (r.Result.Owner.RID != i.rid || r.Result.Owner.LeaseGen != i.lease), !bytes.Equal(r.Result.Reply, i.part.reply):
			w.fail("I6", "call %d was told of %v at %s with reply %q", c.n, i, r.Result.Owner.RID, r.Result.Reply)
		}
		i.seen = c
		l.refs = append(l.refs, i)
	case creation.Existing:
		i = l.of[r.Row.ObjectGen]
		switch {
		case i == nil || i.id != c.ID || i.kind != c.Kind || i.typ != c.Type || !c.Get:
			w.fail("I6", "call %d was told Existing of %v", c.n, i)
		case i.result != store.Created || !i.within(c.begunAt):
			w.fail("I6", "call %d was told Existing of %v, which did not exist since it began", c.n, i)
		case i.by == c:
			w.fail("I6", "call %d was told Existing of its own %v", c.n, i)
		case i.finished > c.begunAt:
			w.Cover.Mark("waited for another's creation")
		}
		l.refs = append(l.refs, i)
	case creation.Rejected:
		if !own || i.result != store.Rejected || !bytes.Equal(r.Result.Reply, i.part.reply) {
			w.fail("CR-12", "call %d was told Rejected of %v", c.n, i)
		}
	case creation.Failed:
		if f := r.Failure; f != nil {
			l.endedWith(c, f)
		} else if !own || i.result != store.Failed {
			w.fail("I6", "call %d was told Failed of %v", c.n, i)
		}
	case creation.TimedOut, creation.OutOfHold:
		if !c.abandoned && !p.clock().Reached(c.Deadline) {
			w.fail("CR-13", "call %d was told to be late before it was", c.n)
		}
		if r.Outcome == creation.OutOfHold && w.hold == 0 {
			w.fail("I6", "call %d was told of a hold", c.n)
		}
	}
	for _, other := range l.all {
		if other.id == c.ID && other.by != c && other.within(c.begunAt) && other.gone && other.reserved < w.now && c.Get && own {
			w.Cover.Mark("competed again after another's creation")
			return
		}
	}
}

// endedWith is for failures that say what others did.
func (l *ledger) endedWith(c *call, f *creation.Failure) {
	if f.Err != nil {
		return
	}
	l.w.Cover.Mark("failure " + f.Kind.String())
	ok := true
	switch f.Kind {
	case errkind.AlreadyExists:
		ok = !c.Get && l.sawRow(c, func(i *incarnation) bool { return true })
	case errkind.TypeMismatch:
		ok = l.sawRow(c, func(i *incarnation) bool { return i.kind != c.Kind || i.typ != c.Type })
	default:
	}
	if !ok {
		l.w.fail("I6", "call %d failed with %v, and there was no such object", c.n, f.Kind)
	}
}

// sawRow reports whether another call's row was there while the call lasted.
func (l *ledger) sawRow(c *call, is func(*incarnation) bool) bool {
	for _, i := range l.all {
		if i.id == c.ID && i.by != c && i.within(c.begunAt) && is(i) {
			return true
		}
	}
	return false
}

func failureText(f *creation.Failure) string {
	switch {
	case f == nil:
		return ""
	case f.Err != nil:
		return f.Err.Error()
	default:
		return f.Kind.String() + ": " + f.Text
	}
}

// ends is for each call's end: there is one, and it is not late.
func (l *ledger) ends(p *process, c *call) bool {
	for n, o := range l.open {
		if o != c {
			continue
		}
		l.open = append(l.open[:n], l.open[n+1:]...)
		if now := p.clock(); now > max(c.Deadline, p.awake)+slack {
			l.w.fail("CR-13", "call %d lasted %v past its deadline", c.n, now.Sub(c.Deadline))
		}
		return true
	}
	l.w.fail("I6", "call %d ended twice", c.n)
	return false
}

// slack is what the conversion of a time from clock to clock may add.
const slack = 1_000

func (l *ledger) endedDestroy(p *process, c *call, gone bool, err error) {
	i := c.destroys
	w := l.w
	w.note(p, "call ends", i.id, fmt.Sprint("destroyed ", gone, " ", err), uint64(c.n))
	if !l.ends(p, c) {
		return
	}
	switch {
	case gone && !i.gone:
		w.fail("I6", "call %d was told that %v is destroyed, and it is not", c.n, i)
	case gone:
		w.Cover.Mark("call destroyed")
	case err == nil && !i.gone:
		w.fail("I6", "call %d was told that %v was not there, and it is", c.n, i)
	}
}

var outcomeNames = [...]string{
	creation.Failed: "Failed", creation.Created: "Created", creation.Existing: "Existing", creation.Rejected: "Rejected",
	creation.TimedOut: "TimedOut", creation.OutOfHold: "OutOfHold",
}
