package sim

import (
	"errors"
	"time"

	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// A destroy names an incarnation and its owner. The owner ends it, asking the Store again
// while an answer is lost; of a dead owner the row is freed by hand.

// destroyed is how a destroy ended.
type destroyed func(gone bool, err error)

var (
	errLate    = errors.New("no end by the deadline")
	errRefused = errors.New("refused")
)

func (p *process) destroy(c *call) {
	over := false
	end := func(gone bool, err error) {
		if over {
			return
		}
		over = true
		p.calls--
		p.w.ledger.endedDestroy(p, c, gone, err)
	}
	p.at(c.Deadline, func() { end(false, errLate) })
	ref := c.destroys
	p.w.ops++
	op := store.OpID{byte(p.w.ops >> 16), byte(p.w.ops >> 8), byte(p.w.ops), 2}
	p.read(nil, ref.id, storeCallMax, func(row store.Authority, found bool, err error) {
		switch {
		case err != nil:
			end(false, err)
		case !found:
			end(false, nil)
		case row.ObjectGen != ref.gen:
			end(false, errRefused)
		case row.LeaseLeft <= 0:
			p.free(&row, op, end)
		case p.owns(&row):
			p.destroyHere(ref.id, ref.gen, op, end)
		default:
			l := p.linkTo(row.RID, row.LeaseGen)
			if l == nil {
				end(false, errRefused)
				return
			}
			p.request(l, c.Deadline, func(to *process, reply func(answer, *creation.Failure)) {
				to.destroyHere(ref.id, ref.gen, op, func(gone bool, err error) {
					if err != nil {
						reply(answer{}, &creation.Failure{Kind: errkind.Unavailable, Text: err.Error()})
						return
					}
					reply(answer{destroyed: gone}, nil)
				})
			}, func(a answer, f *creation.Failure) {
				if f != nil {
					end(false, errRefused)
					return
				}
				end(a.destroyed, nil)
			})
		}
	})
}

func (p *process) destroyHere(id string, gen store.ObjectGen, op store.OpID, done destroyed) {
	o := p.objects[id]
	switch {
	case o == nil:
		p.destroyOrphan(id, gen, op, done)
		return
	case o.gen != gen:
		done(false, errRefused)
		return
	case !o.open: // what it begins or ends with goes first
		p.w.Cover.Mark("destroy waited for the object")
		o.calm = append(o.calm, func() { p.destroyHere(id, gen, op, done) })
		return
	}
	o.open = false
	p.w.note(p, "ends", id, "", uint64(gen))
	fence := store.Fence{ID: id, ObjectGen: gen, Version: o.version, OwnerID: p.lease.OwnerID, LeaseGen: p.lease.Gen}
	if p.w.ledger.of[gen].kind == store.Actor {
		fence.SpotID = p.entryID()
	}
	p.untilKnown(func(answer func(store.Change, error)) { p.deleteRow(fence, op, answer) }, func(c store.Change, doubt bool, err error) {
		kept := err != nil && !doubt || err == nil && !isGone(c.Reason) && p.owns(&c.Record)
		if !kept || o.gone {
			p.drop(o)
			done(err == nil, err)
			return
		}
		o.open = true
		p.w.note(p, "goes on with", id, "", uint64(gen))
		p.w.Cover.Mark("destroy refused, object kept")
		p.w.acts(p)
		o.settle(p)
		done(false, errRefused)
	})
}

// destroyOrphan removes a row that names this process and has no object here, as is left
// when it was never learnt how a creation ended.
func (p *process) destroyOrphan(id string, gen store.ObjectGen, op store.OpID, done destroyed) {
	p.read(nil, id, storeCallMax, func(row store.Authority, found bool, err error) {
		switch {
		case err != nil:
			done(false, err)
		case !found || row.State != store.Ready || row.ObjectGen != gen:
			done(false, nil)
		case !p.owns(&row):
			done(false, errRefused)
		case p.objects[id] != nil:
			p.destroyHere(id, gen, op, done)
		default:
			p.w.Cover.Mark("orphan destroyed")
			p.deleteRow(store.FenceOf(&row), op, func(c store.Change, err error) {
				if err == nil && !isGone(c.Reason) {
					err = errRefused
				}
				done(err == nil, err)
			})
		}
	})
}

func (p *process) deleteRow(f store.Fence, op store.OpID, answer func(store.Change, error)) {
	ask(p, asking{"delete", nil, storeCallMax}, func() (store.Change, error) {
		c, err := p.w.store.Delete(background, f, op)
		p.w.ledger.removed("delete", f.ObjectGen, &c)
		return c, err
	}, answer)
}

// free removes the row of an object whose owner is dead.
func (p *process) free(row *store.Authority, op store.OpID, done destroyed) {
	f := store.FreeOf(row, op)
	p.untilKnown(func(answer func(store.Change, error)) {
		ask(p, asking{"free", nil, storeCallMax}, func() (store.Change, error) {
			c, err := p.w.store.Free(background, f)
			p.w.ledger.removed("free", f.ObjectGen, &c)
			return c, err
		}, answer)
	}, func(c store.Change, doubt bool, err error) {
		switch {
		case doubt || err != nil:
			done(false, err)
		case !isGone(c.Reason):
			done(false, errRefused)
		default:
			p.w.Cover.Mark("freed")
			done(c.Reason == store.Applied || c.Reason == store.AlreadyApplied, nil)
		}
	})
}

// untilKnown repeats one change until the Store has answered it: once an answer was lost,
// that try may be applied yet, of which a later one that was refused for the lease, or did
// not reach the Store, says nothing.
func (p *process) untilKnown(try func(answer func(store.Change, error)), done func(c store.Change, doubt bool, err error)) {
	doubt, wait := false, timing.Wait
	var once func()
	once = func() {
		try(func(c store.Change, err error) {
			doubt = doubt || errors.Is(err, store.ErrUnknown)
			if !doubt || err == nil && c.Reason != store.LeaseExpired {
				done(c, doubt && err != nil, err)
				return
			}
			p.w.Cover.Mark("asked again how a removal ended")
			p.after(wait, once)
			wait = min(2*wait, 500*time.Millisecond)
		})
	}
	once()
}

func isGone(r store.Reason) bool {
	return r == store.Applied || r == store.AlreadyApplied || r == store.Missing || r == store.GenerationConflict
}
