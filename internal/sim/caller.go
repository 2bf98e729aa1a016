package sim

import (
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// caller is one creation at the process that was asked for it: the machine and its shell.
type caller struct {
	*machine
	p      *process
	call   *call
	source *creation.Source
	tick   alarm
	over   bool
	claims store.OpID // see process.claims
}

// begin begins a call at the process.
func (p *process) begin(c *call) {
	p.calls++
	p.w.ledger.begun(p, c)
	if c.destroys != nil {
		p.destroy(c)
		return
	}
	a := &caller{machine: p.begins("source choose"), p: p, call: c, source: creation.NewSource(c.Call, timing)}
	if c.abandonAfter > 0 {
		p.after(c.abandonAfter, func() {
			c.abandoned = true
			a.step(creation.SourceEvent{Is: creation.SourceAbandoned})
		})
	}
	a.drain()
}

func (a *caller) step(e creation.SourceEvent) {
	if !a.over {
		a.source.Step(a.p.clock(), e)
		a.drain()
	}
}

func (a *caller) drain() {
	p := a.p
	for e, ok := a.source.Effect(); ok && !a.over; e, ok = a.source.Effect() {
		a.doing = "source " + sourceNames[e.Do]
		p.w.note(p, a.doing, a.call.ID, "call", uint64(a.call.n))
		a.do(&e)
	}
	if a.over {
		return
	}
	at, ok := a.source.NextDeadline()
	a.rests(at < a.call.Deadline)
	a.tick.set(p, at, ok, func() {
		if !a.over && p.clock().Reached(a.call.Deadline) {
			p.w.Cover.Hit(a.doing, "deadline")
		}
		a.step(creation.SourceEvent{Is: creation.SourceTick})
	})
}

var sourceNames = [...]string{
	creation.SourceChoose: "choose", creation.SourceReserve: "reserve", creation.SourceRead: "read", creation.SourceRecall: "recall",
	creation.SourceRun: "run", creation.SourceCancel: "cancel", creation.SourceNudge: "nudge", creation.SourceEnd: "end",
}

// left is how long the caller still waits, as the Store is told.
func (a *caller) left() time.Duration {
	return max(a.call.Deadline.Sub(a.p.clock()), time.Millisecond)
}

func (a *caller) do(e *creation.SourceEffect) {
	p, w, id := a.p, a.p.w, a.call.ID
	switch e.Do {
	case creation.SourceChoose:
		chosen := p.choose(&a.call.Call, e.Excluded)
		p.soon(func() { a.step(chosen) })
	case creation.SourceReserve:
		r := store.Reserve{
			ID: id, Kind: a.call.Kind, Type: a.call.Type, Op: e.Op, TargetRID: e.Place.RID, TargetLifecycle: e.Place.Lifecycle,
			Request: a.call.request, Timeout: a.left(),
		}
		if e.Place.RID == p.rid {
			delete(p.claims, a.claims)
			a.claims, p.claims[e.Op.Op] = e.Op.Op, true
		}
		ask(p, asking{"reserve", a.machine, min(storeCallMax, a.left())}, func() (store.Change, error) {
			c, err := w.store.Reserve(background, r)
			w.ledger.reserved(a.call, &r, &c)
			return c, err
		}, func(c store.Change, err error) {
			if err == nil {
				w.Cover.Mark("reserve " + c.Reason.String())
				w.note(p, "was told", id, c.Reason.String(), uint64(a.call.n))
			}
			a.step(creation.SourceEvent{Is: creation.SourceReserved, Change: c, Err: err})
		})
	case creation.SourceRead:
		p.read(a.machine, id, min(storeCallMax, a.left()), func(row store.Authority, found bool, err error) {
			a.step(creation.SourceEvent{Is: creation.SourceRow, Row: row, Found: found, Err: err})
		})
	case creation.SourceRecall:
		p.recall(a.machine, e.Op, min(storeCallMax, a.left()), func(t store.Terminal, found bool, err error) {
			a.step(creation.SourceEvent{Is: creation.SourceRecalled, Terminal: t, Found: found, Err: err})
		})
	case creation.SourceRun:
		a.run(&e.Row)
	case creation.SourceCancel:
		row := e.Row
		ask(p, asking{"cancel", a.machine, min(storeCallMax, a.left())}, func() (store.Change, error) {
			c, err := w.store.CancelCreation(background, id, row.ObjectGen, row.Version)
			w.ledger.removed("cancel", row.ObjectGen, &c)
			return c, err
		}, func(c store.Change, err error) {
			if err == nil {
				w.Cover.Mark("cancel " + c.Reason.String())
			}
			a.step(creation.SourceEvent{Is: creation.SourceCancelled, Err: err})
		})
	case creation.SourceNudge:
		w.Cover.Mark("nudge")
		p.tell(&e.Row, a.call.Deadline, nil, func(creation.Result, *creation.Failure) {})
	case creation.SourceEnd:
		a.over = true
		delete(p.claims, a.claims)
		p.ends(a.machine)
		p.calls--
		w.ledger.ended(p, a.call, &e.End)
	}
}

// choose picks a target of those that the list names and that are linked.
func (p *process) choose(c *creation.Call, excluded map[string]bool) creation.SourceEvent {
	var places []creation.Place
	for _, d := range p.nodes {
		hosts := slices.Contains(d.ActorTypes, c.Type) && c.Kind == store.Actor ||
			slices.Contains(d.SpotTypes, store.SpotType{Type: c.Type, Kind: c.Kind})
		here := d.RID == p.rid && d.Lifecycle == p.lease.Gen
		if hosts && !excluded[d.RID] && d.LeaseLeft > 0 && (here || p.linkTo(d.RID, d.Lifecycle) != nil) {
			places = append(places, creation.Place{RID: d.RID, Mesh: meshName, Lifecycle: d.Lifecycle})
		}
	}
	if len(places) == 0 {
		p.w.Cover.Mark("no target")
		f := &creation.Failure{Kind: errkind.Unavailable, Text: "no node hosts it"}
		return creation.SourceEvent{Is: creation.SourceChosen, Failure: f}
	}
	p.w.ops++
	op := store.OpID{byte(p.w.ops >> 16), byte(p.w.ops >> 8), byte(p.w.ops), 1}
	return creation.SourceEvent{
		Is: creation.SourceChosen, Place: places[p.w.choose(len(places))],
		Op: store.OperationKey{SourceRID: p.rid, SourceLifecycle: p.lease.Gen, Op: op},
	}
}

func (a *caller) run(row *store.Authority) {
	a.p.waitsFor(a.machine, place{RID: row.RID, Lifecycle: row.LeaseGen})
	a.p.tell(row, a.call.Deadline, a.call.request, func(r creation.Result, f *creation.Failure) {
		a.peer, a.with = nil, place{}
		a.step(creation.SourceEvent{Is: creation.SourceAnswered, Result: r, Failure: f})
	})
}

// tell has the target of the row run its creation. request is nil for somebody else's.
func (p *process) tell(row *store.Authority, deadline clock.Mono, request []byte, done func(creation.Result, *creation.Failure)) {
	job := creation.Job{
		Op: row.Create.Op, ID: row.ID, Type: row.Type, Kind: row.Kind, ObjGen: row.ObjectGen, Version: row.Version, Deadline: deadline,
	}
	if p.owns(row) {
		if request != nil { // nobody else has run it meanwhile, see claims
			reserved, create := *row, *row.Create
			create.Request = request
			reserved.Create, job.Row = &create, &reserved
		}
		p.create(job, request != nil, done)
		return
	}
	l := p.linkTo(row.RID, row.LeaseGen)
	if l == nil {
		p.w.Cover.Mark("no link to the target")
		p.soon(func() { done(creation.Result{}, &creation.Failure{Kind: errkind.Unavailable, Text: "not linked"}) })
		return
	}
	left := deadline.Sub(p.clock())
	p.request(l, deadline, func(to *process, reply func(answer, *creation.Failure)) {
		job.Deadline = to.clock().Add(left)
		waits := job.Op.SourceLifecycle == p.lease.Gen
		if job.Op.SourceRID = p.rid; !waits { // half of the key travels, the link says the other
			p.w.Cover.Mark("asked by another than the coordinator")
		}
		to.create(job, waits, func(r creation.Result, f *creation.Failure) { reply(answer{result: r}, f) })
		if r := to.running[job.Op.Op]; r != nil && r.with == (place{}) {
			to.waitsFor(r.machine, place{RID: p.rid, Lifecycle: p.lease.Gen})
		}
	}, func(a answer, f *creation.Failure) { done(a.result, f) })
}
