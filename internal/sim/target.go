package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// run is one creation that runs at its target: the machine and its shell.
type run struct {
	*machine
	p      *process
	target *creation.Target
	job    creation.Job
	tick   alarm
	over   bool
	place  bool // it has one
	plays  bool // the application's part runs
	object *object
	answer func(creation.Result, *creation.Failure)
	follow []func() // to be run when it is over
}

// object is an entry of a process's table. Until it is open, and while it ends, its
// messages are held.
type object struct {
	id         string
	gen        store.ObjectGen
	version    store.Version
	open, gone bool
	calm       []func() // to be run when it is open or gone
}

// table returns the objects in order.
func (p *process) table() []*object {
	var all []*object
	for _, id := range p.w.names {
		if o := p.objects[id]; o != nil {
			all = append(all, o)
		}
	}
	return all
}

func (p *process) drop(o *object) {
	if o.gone {
		return
	}
	o.open, o.gone = false, true
	if p.objects[o.id] == o {
		delete(p.objects, o.id)
	}
	p.w.note(p, "drops", o.id, "", uint64(o.gen))
	o.settle(p)
}

func (o *object) settle(p *process) {
	for _, f := range o.calm {
		p.soon(f)
	}
	o.calm = nil
}

// create runs a creation that was reserved for this process. Who asks for one that runs
// gets its kept result when it is over, if it waits at all.
func (p *process) create(job creation.Job, waits bool, answer func(creation.Result, *creation.Failure)) {
	begun := creation.TargetEvent{Is: creation.TargetBegun, MayAct: p.mayAct()}
	runs := p.running[job.Op.Op]
	if runs == nil && job.Row == nil && p.claims[job.Op.Op] {
		p.w.Cover.Mark("left to its coordinator here")
		answer(creation.Result{}, &creation.Failure{Kind: errkind.Unavailable, Text: "its coordinator is about to run it"})
		return
	}
	switch {
	case runs != nil && (!waits || !begun.MayAct):
		p.w.Cover.Mark("asked for a creation that runs")
		answer(creation.Result{}, &creation.Failure{Kind: errkind.Unavailable, Text: "the same creation is already running"})
		return
	case runs != nil:
		p.w.Cover.Mark("followed a creation that runs")
		begun.Here = true // its kept result is to be read
		runs.follow = append(runs.follow, func() { p.start(job, begun, answer) })
		return
	}
	if o := p.objects[job.ID]; o != nil && o.gen == job.ObjGen {
		begun.Here = true
	}
	if p.stopping {
		begun.Failure = &creation.Failure{Kind: errkind.ShuttingDown}
	}
	p.running[job.Op.Op] = p.start(job, begun, answer)
}

func (p *process) start(job creation.Job, begun creation.TargetEvent, answer func(creation.Result, *creation.Failure)) *run {
	self := creation.Self{RID: p.rid, Mesh: meshName, OwnerID: p.lease.OwnerID, LeaseGen: p.lease.Gen, EntryID: p.entryID()}
	r := &run{machine: p.begins("target idle"), p: p, target: creation.NewTarget(job, self, timing), job: job, answer: answer}
	p.soon(func() { r.step(begun) })
	return r
}

func (r *run) step(e creation.TargetEvent) {
	if r.over {
		return
	}
	p := r.p
	r.target.Step(p.clock(), e)
	for e, ok := r.target.Effect(); ok && !r.over; e, ok = r.target.Effect() {
		r.doing = "target " + targetNames[e.Do]
		p.w.note(p, r.doing, r.job.ID, "", uint64(r.job.ObjGen))
		r.do(&e)
	}
	if r.over {
		return
	}
	at, ok := r.target.NextDeadline()
	r.rests(at != r.job.Deadline && at != clock.Never && ok)
	r.tick.set(p, at, ok, func() {
		if !r.over && p.clock().Reached(r.job.Deadline) {
			p.w.Cover.Hit(r.doing, "deadline")
		}
		r.step(creation.TargetEvent{Is: creation.TargetTick})
	})
}

var targetNames = [...]string{
	creation.TargetEnter: "enter", creation.TargetRead: "read", creation.TargetStage: "stage", creation.TargetPublish: "publish",
	creation.TargetFinish: "finish", creation.TargetConfirm: "confirm", creation.TargetRecall: "recall", creation.TargetEnd: "end",
}

func (r *run) do(e *creation.TargetEffect) {
	p := r.p
	switch e.Do {
	case creation.TargetEnter:
		p.enter(r)
	case creation.TargetRead:
		p.read(r.machine, r.job.ID, storeCallMax, func(row store.Authority, found bool, err error) {
			r.step(creation.TargetEvent{Is: creation.TargetRow, Row: row, Found: found, Err: err})
		})
	case creation.TargetStage:
		r.stage(&e.Row)
	case creation.TargetPublish:
		r.publish()
	case creation.TargetFinish:
		r.finish(e.Finish)
	case creation.TargetConfirm:
		p.soon(func() { r.step(creation.TargetEvent{Is: creation.TargetConfirmed}) })
	case creation.TargetRecall:
		p.recall(r.machine, e.Op, storeCallMax, func(t store.Terminal, found bool, err error) {
			r.step(creation.TargetEvent{Is: creation.TargetRecalled, Terminal: t, Found: found, Err: err})
		})
	case creation.TargetEnd:
		r.end(e)
	}
}

// enter takes a place among the creations that run, or waits for one.
func (p *process) enter(r *run) {
	switch w := p.w; {
	case p.places < w.places:
		p.places++
		r.place = true
		p.soon(func() { r.step(creation.TargetEvent{Is: creation.TargetEntered}) })
	case len(p.entering) == w.waiting:
		w.Cover.Mark("no place to wait for one")
		f := &creation.Failure{Kind: errkind.CapacityExceeded}
		p.soon(func() { r.step(creation.TargetEvent{Is: creation.TargetEntered, Failure: f}) })
	default:
		w.Cover.Mark("waited for a place")
		p.entering = append(p.entering, r)
		p.at(r.job.Deadline, func() {
			if i := slices.Index(p.entering, r); i >= 0 {
				p.entering = slices.Delete(p.entering, i, i+1)
				w.Cover.Mark("got no place in time")
				r.step(creation.TargetEvent{Is: creation.TargetEntered, Failure: &creation.Failure{Kind: errkind.DeadlineExceeded}})
			}
		})
	}
}

// leave gives the place to the next, if there is one.
func (r *run) leave() {
	p := r.p
	if !r.place {
		return
	}
	r.place = false
	p.places--
	if len(p.entering) > 0 {
		next := p.entering[0]
		p.entering = p.entering[1:]
		p.enter(next)
	}
}

// stage runs the application's part. One that takes longer than the deadline goes on and
// keeps its place, and nobody looks at what it gives.
func (r *run) stage(row *store.Authority) {
	p := r.p
	part := p.w.ledger.staged(p, row)
	p.apps++
	r.plays = true
	p.w.note(p, "factory", row.ID, part.name, uint64(row.ObjectGen))
	p.after(part.takes, func() {
		p.apps--
		r.plays = false
		e := creation.TargetEvent{Is: creation.TargetStaged, Reject: part.rejects, Reply: part.reply}
		if part.fails {
			e.Failure = &creation.Failure{Kind: errkind.InternalFailure, Text: "the factory failed"}
		}
		r.leave()
		r.step(e)
	})
}

// publish puts the object in the table, unless the incarnation or a later one is there.
func (r *run) publish() {
	p, job := r.p, &r.job
	now := p.objects[job.ID]
	admitted := now == nil || now.gen < job.ObjGen
	if admitted {
		if now != nil {
			p.w.Cover.Mark("earlier incarnation replaced")
			p.drop(now)
		}
		r.object = &object{id: job.ID, gen: job.ObjGen}
		p.objects[job.ID] = r.object
	}
	p.soon(func() { r.step(creation.TargetEvent{Is: creation.TargetPublished, Done: admitted}) })
}

func (r *run) finish(f store.Finish) {
	p := r.p
	if !p.mayFinish() {
		p.w.Cover.Hit(r.doing, "lease in doubt")
		p.soon(func() { r.step(creation.TargetEvent{Is: creation.TargetFinished, Err: store.ErrUnavailable}) })
		return
	}
	ask(p, asking{"finish", r.machine, storeCallMax}, func() (store.Change, error) {
		c, err := p.w.store.Finish(background, f)
		p.w.ledger.finished(p, &f, &c)
		return c, err
	}, func(c store.Change, err error) {
		if err == nil {
			p.w.Cover.Mark("finish " + f.Result.String() + " " + c.Reason.String())
		}
		r.step(creation.TargetEvent{Is: creation.TargetFinished, Change: c, Err: err})
	})
}

func (r *run) end(e *creation.TargetEffect) {
	p, o := r.p, r.object
	r.over = true
	p.ends(r.machine)
	if p.running[r.job.Op.Op] == r {
		delete(p.running, r.job.Op.Op)
	}
	if !r.plays {
		r.leave()
	}
	switch {
	case !e.Open && o != nil:
		p.drop(o)
	case e.Open && (o == nil || o.gone):
		p.w.Cover.Mark("object gone before it was opened")
	case e.Open:
		o.version, o.open = e.Row.Version, true
		p.w.note(p, "opens", o.id, "", uint64(o.gen))
		p.w.ledger.opened(p, o)
		o.settle(p)
	}
	r.answer(e.Result, e.Failure)
	for _, f := range r.follow {
		p.soon(f)
	}
}

// scan looks after reservations at this process of which it was never told: one that it
// sees twice is run, or ended if its time is over.
func (p *process) scan() {
	p.after(reservationsEvery, p.scan)
	ask(p, asking{"scan", nil, storeCallMax}, func() ([]string, error) {
		return p.w.store.Held(background, p.rid, p.lease.Gen, store.HeldReserved, "", store.PageMax)
	}, func(ids []string, err error) {
		if err != nil {
			return
		}
		before := p.seen
		p.seen = map[string]store.Version{}
		for _, id := range ids {
			p.look(id, before[id])
		}
	})
}

func (p *process) look(id string, before store.Version) {
	runs := p.objects[id] != nil
	for _, r := range p.running {
		runs = runs || r.job.ID == id
	}
	if runs {
		return
	}
	p.read(nil, id, storeCallMax, func(row store.Authority, found bool, err error) {
		switch {
		case err != nil || !found || row.Create == nil || !p.owns(&row):
		case before != row.Version:
			p.seen[id] = row.Version
		default:
			p.w.Cover.Mark("found a reservation that nobody told of")
			left := row.Create.Deadline.Sub(p.w.storeTime()) + p.wallAhead()
			p.create(creation.Job{
				Op: row.Create.Op, ID: id, Type: row.Type, Kind: row.Kind, ObjGen: row.ObjectGen, Version: row.Version,
				Deadline: p.clock().Add(left),
			}, false, func(creation.Result, *creation.Failure) {})
		}
	})
}

// wallAhead is by how much the process's wall clock is ahead of the Store's.
func (p *process) wallAhead() time.Duration { return time.Duration(p.number%5-2) * time.Second }

func (p *process) read(by *machine, id string, timeout time.Duration, done func(store.Authority, bool, error)) {
	type answer struct {
		row   store.Authority
		found bool
	}
	ask(p, asking{"read", by, timeout}, func() (answer, error) {
		row, found, err := p.w.store.Read(background, id)
		return answer{row, found}, err
	}, func(a answer, err error) { done(a.row, a.found, err) })
}

func (p *process) recall(by *machine, op store.OperationKey, timeout time.Duration, done func(store.Terminal, bool, error)) {
	type answer struct {
		kept  store.Terminal
		found bool
	}
	ask(p, asking{"recall", by, timeout}, func() (answer, error) {
		kept, found, err := p.w.store.ReadTerminal(background, op)
		return answer{kept, found}, err
	}, func(a answer, err error) {
		if err == nil {
			p.w.Cover.Mark(fmt.Sprint("recalled ", a.found))
		}
		done(a.kept, a.found, err)
	})
}
