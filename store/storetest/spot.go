package storetest

import (
	"bytes"

	"github.com/zlnode/zlnode/store"
)

var kinds = []store.Kind{store.Actor, store.UserSpot, store.InstanceSpot}

// kindRequest is a reservation of any kind.
func kindRequest(kind store.Kind, id string, p process) store.Reserve {
	if kind == store.Actor {
		return request(id, p)
	}
	return spotRequest(kind, id, p)
}

// spotLimits sets what a node takes of Spots: in all, and of each type.
func spotLimits(spots, rooms, quests int) func(*store.Descriptor) {
	return func(d *store.Descriptor) {
		d.MaxSpots = spots
		d.SpotTypes = []store.SpotType{
			{Type: "quest", Kind: store.InstanceSpot, Max: quests}, {Type: "room", Kind: store.UserSpot, Max: rooms},
		}
	}
}

var spotCases = []testCase{
	{"AllKindsShareOneSetOfIDs", func(w *world) {
		p := w.server("node-a", func(d *store.Descriptor) { // one name for types of all kinds
			d.ActorTypes = []string{"thing"}
			d.SpotTypes = []store.SpotType{{Type: "thing", Kind: store.InstanceSpot}, {Type: "thing", Kind: store.UserSpot}}
		})
		kindRequest := func(kind store.Kind, id string, p process) store.Reserve {
			return with(kindRequest(kind, id, p), func(r *store.Reserve) { r.Type = "thing" })
		}
		for _, kind := range kinds {
			creating := w.reserve(kindRequest(kind, "creating "+kind.String(), p), store.Applied)
			ready := w.make(kindRequest(kind, "ready "+kind.String(), p))
			for _, there := range []store.Authority{creating, ready} {
				for _, other := range kinds {
					want := store.TypeMismatch
					if other == kind {
						want = store.Exists
					}
					w.refuses(attempt{other.String() + " for " + there.ID, want, w.tryReserve(kindRequest(other, there.ID, p))})
				}
			}
		}
	}},
	{"SpotTakesASlotAndOneOfItsType", func(w *world) {
		p := w.server("node-a", spotLimits(3, 2, 2))
		w.room("room-1", p, false)
		reserved := spotRequest(store.UserSpot, "room-2", p)
		creating := w.reserve(reserved, store.Applied)
		w.wantSlots(p, 0, 2)
		w.refuses(attempt{"third of two rooms", store.CapacityExceeded, w.tryReserve(spotRequest(store.UserSpot, "room-3", p))})
		quest := w.make(spotRequest(store.InstanceSpot, "quest-1", p))
		w.wantSlots(p, 0, 3)
		w.refuses(attempt{"fourth of three Spots", store.CapacityExceeded, w.tryReserve(spotRequest(store.InstanceSpot, "quest-2", p))})
		w.actor("player-1", p) // takes no Spot slot
		w.wantSlots(p, 1, 3)

		w.finish(creating, reserved.Op, store.Rejected, store.Applied)
		w.room("room-3", p, true) // both slots were free again
		w.delete(quest, newOp(), store.Applied)
		w.make(spotRequest(store.InstanceSpot, "quest-2", p))
		w.wantSlots(p, 1, 3)
	}},
	{"LimitsOfATypeAreOfOneKind", func(w *world) {
		p := w.server("node-a", func(d *store.Descriptor) {
			d.SpotTypes = []store.SpotType{{Type: "arena", Kind: store.UserSpot, Max: 1}, {Type: "arena", Kind: store.InstanceSpot, Max: 1}}
		})
		for _, kind := range []store.Kind{store.UserSpot, store.InstanceSpot} {
			r := spotRequest(kind, "arena-1 "+kind.String(), p)
			r.Type = "arena"
			w.make(r)
			r = spotRequest(kind, "arena-2 "+kind.String(), p)
			r.Type = "arena"
			w.refuses(attempt{"second of one " + kind.String(), store.CapacityExceeded, w.tryReserve(r)})
		}
	}},
	{"TypesAreOfferedByKind", func(w *world) {
		p := w.server("node-a")
		for _, kind := range kinds {
			for _, name := range []string{"player", "room", "quest", "unknown"} {
				r := kindRequest(kind, "x", p)
				if r.Type == name {
					continue
				}
				r.Type = name
				w.refuses(attempt{name + " as " + kind.String(), store.TargetIncompatible, w.tryReserve(r)})
			}
		}
	}},
	{"SpotNeedsNoEntrySpotAtItsTarget", func(w *world) {
		p := w.server("node-a", func(d *store.Descriptor) { d.EntrySpotID = "" })
		w.room("room-1", p, false)
		w.make(spotRequest(store.InstanceSpot, "quest-1", p))
		w.refuses(attempt{"an Actor", store.TargetUnavailable, w.tryReserve(request("player-1", p))})
	}},
	{"ReservationOfASpotFixesWhatItIs", func(w *world) {
		p := w.server("node-a")
		for _, wide := range []bool{false, true} {
			for _, kind := range []store.Kind{store.UserSpot, store.InstanceSpot} {
				if wide && kind != store.UserSpot {
					continue
				}
				r := spotRequest(kind, "spot-1", p)
				r.Wide = wide
				r.Request = bytes.Repeat([]byte{0, 1, '\n'}, 1000)
				a := w.reserve(r, store.Applied)
				if a.Kind != kind || a.Type != r.Type || a.Wide != wide || a.SpotID != "" || a.InUserSpot || a.RID != p.RID ||
					a.OwnerID != p.OwnerID || a.LeaseGen != p.Gen || a.OwnerGen != 1 || a.Mesh != p.desc.Mesh || a.Epoch == 0 {
					w.t.Errorf("reserved %+v", a)
				}
				if read := w.must(a.ID); !bytes.Equal(read.Create.Request, r.Request) || read.Create.Op != r.Op {
					w.t.Errorf("creation reads %+v", read.Create)
				}
				w.wantHeld(p, store.HeldReserved, a.ID)
				ready := w.finish(a, r.Op, store.Created, store.Applied).Record
				if ready.State != store.Ready || ready.Create != nil || ready.Wide != wide || ready.Kind != kind || ready.Version <= a.Version {
					w.t.Errorf("Ready row is %+v", ready)
				}
				w.wantHeld(p, store.HeldReserved)
				w.wantHeld(p, store.HeldOwned, a.ID)
				w.delete(ready, newOp(), store.Applied)
				w.wantHeld(p, store.HeldOwned)
				w.wantSlots(p, 0, 0)
			}
		}
	}},
	{"EntrySpotsIDIsNoObjects", func(w *world) {
		p, other := w.server("node-a"), w.server("node-b")
		for _, kind := range kinds {
			w.refuses(attempt{
				kind.String() + " with the id of an Entry Spot", store.TypeMismatch,
				w.tryReserve(kindRequest(kind, p.desc.EntrySpotID, other)),
			})
		}
		creating := w.reserve(request("player-1", p), store.Applied)
		room := w.room("room-1", p, false)
		for _, id := range []string{creating.ID, room.ID, p.desc.EntrySpotID} {
			d := other.desc
			d.EntrySpotID, d.Revision = id, 2
			w.publish(other.Lease, d, store.Exists)
		}
		if d, found := w.node(other.RID); !found || d.Revision != 1 || d.EntrySpotID != other.desc.EntrySpotID {
			w.t.Errorf("node is %+v, %v after refused descriptors", d, found)
		}

		// An id that its process gave up is free.
		old := p.desc.EntrySpotID
		p.desc.EntrySpotID, p.desc.Revision = "node-a-entry-2", 2
		w.publish(p.Lease, p.desc, store.Applied)
		w.actor(old, other)
		if reason, err := w.s.RemoveNode(w.ctx(), p.Lease); err != nil || reason != store.Applied {
			w.t.Fatalf("RemoveNode = %v, %v", reason, err)
		}
		w.actor("node-a-entry-2", other)
	}},
	{"CreationOfALivingTargetIsNotCanceled", func(w *world) {
		p := w.server("node-a")
		for _, kind := range kinds {
			a := w.reserve(kindRequest(kind, "object "+kind.String(), p), store.Applied)
			ready := w.make(kindRequest(kind, "ready "+kind.String(), p))
			w.refuses(
				attempt{"the target lives", store.OwnerAlive, w.tryCancel(a)},
				attempt{"no row", store.Missing, w.tryCancel(with(a, func(a *store.Authority) { a.ID = "nobody" }))},
				attempt{"another incarnation", store.GenerationConflict, w.tryCancel(with(a, func(a *store.Authority) { a.ObjectGen++ }))},
				attempt{"another version", store.VersionConflict, w.tryCancel(with(a, func(a *store.Authority) { a.Version++ }))},
				attempt{"Ready", store.VersionConflict, w.tryCancel(ready)},
			)
		}
	}},
	{"CreationOfADeadTargetIsCanceledWithoutATerminalRecord", func(w *world) {
		end := map[string]func(process){
			"expired":    w.expire,
			"released":   func(p process) { _, _ = w.s.ReleaseLease(w.ctx(), p.Lease) },
			"superseded": func(p process) { w.expire(p); w.lease(p.RID) },
		}
		for how, kill := range end {
			p, source := w.server("node-"+how), w.server("source-"+how)
			var reserved []store.Authority
			for _, kind := range kinds {
				r := kindRequest(kind, how+" "+kind.String(), p)
				r.Op = operation(source)
				reserved = append(reserved, w.reserve(r, store.Applied))
			}
			ready := w.actor(how+" ready", p)
			kill(p)
			w.refuses(attempt{"Ready, its owner dead", store.VersionConflict, w.tryCancel(ready)})
			for _, a := range reserved {
				c, err := w.s.CancelCreation(w.ctx(), a.ID, a.ObjectGen, a.Version)
				w.outcome("CancelCreation", a.ID, c, err, store.Applied)
				w.wantMissing(a.ID)
				if got, found, err := w.s.ReadTerminal(w.ctx(), a.Create.Op); err != nil || found {
					w.t.Errorf("canceled creation has the terminal record %+v, %v", got, err)
				}
				w.refuses(attempt{"again", store.Missing, w.tryCancel(a)})
				w.reserve(kindRequest(a.Kind, a.ID, source), store.Applied) // the id is free
			}
			w.wantHeld(p, store.HeldReserved)
			w.wantHeld(p, store.HeldOwned, ready.ID)
			if how == "expired" { // a target that was only paused hears of it
				if n := w.freed(p); n != uint64(len(reserved)) {
					w.t.Errorf("the target is told of %d rows; want %d", n, len(reserved))
				}
			}
		}
	}},
}

func (w *world) tryCancel(a store.Authority) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.CancelCreation(w.ctx(), a.ID, a.ObjectGen, a.Version) }
}
