package redislua

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zlnode/zlnode/store"
)

// row is an authority row as a script answered it: fields and values.
type row struct {
	answer *answer
	fields map[string]string
}

// change reads what answer_row wrote: epoch, found, time left, fields.
func (a *answer) change(id string) (c store.Change) {
	c.Epoch = store.Epoch(a.gen("epoch"))
	if c.Found = a.number("found", 1) == 1; !c.Found {
		return c
	}
	left := a.timeLeft()
	r := row{a, make(map[string]string, (len(a.words)-a.read)/2)}
	for a.more() {
		field := a.word()
		r.fields[field] = a.word()
	}
	c.Record = r.authority(id, left)
	return c
}

// owned reports whether the answer says who the owner is: not so for a member of a
// SpotWide Spot that was not asked for.
func owned(a *store.Authority) bool { return a.OwnerID != "" }

func (r row) authority(id string, left time.Duration) store.Authority {
	a := store.Authority{
		ID:          id,
		Kind:        store.Kind(r.number("kind", uint64(store.InstanceSpot))),
		Type:        r.fields["type"],
		State:       store.State(r.number("state", uint64(store.Ready))),
		ObjectGen:   store.ObjectGen(r.gen("object_gen")),
		OwnerGen:    r.ownerGen(),
		Version:     store.Version(r.gen("version")),
		Mesh:        r.fields["mesh"],
		RID:         r.fields["rid"],
		OwnerID:     r.fields["owner"],
		LeaseLeft:   left,
		SpotID:      r.fields["spot"],
		InUserSpot:  r.has("member"),
		SpotVersion: store.Version(r.optional("spot_version")),
		Wide:        r.has("wide"),
		MembersLeft: int(r.optional("left")),
		Epoch:       store.Epoch(r.gen("epoch")),
	}
	a.FirstPending = r.has("first")
	if r.has("lease_gen") {
		a.LeaseGen = store.LeaseGen(r.gen("lease_gen"))
	} else if !r.has("shares") {
		r.fail("lease_gen")
	}
	if a.State == store.Creating {
		a.Create = &store.Creation{
			Op: r.operation(), Deadline: time.UnixMilli(int64(r.number("deadline", 1<<53))), Hash: r.digest("hash"),
		}
	}
	if r.has("move") {
		a.Move = r.move()
	}
	if r.has("agg") {
		a.Aggregate = &store.Aggregate{
			ID:        store.RelocationID(r.id("agg")),
			Inventory: store.Inventory{Root: r.digest("agg_root"), Count: int(r.number("agg_count", math.MaxInt32))},
		}
	}
	return a
}

func (r row) move() *store.Move {
	m := &store.Move{
		ID:              store.RelocationID(r.id("move")),
		Attempt:         uint32(r.number("attempt", math.MaxUint32)),
		TargetRID:       r.fields["to_rid"],
		TargetOwnerID:   r.fields["to_owner"],
		TargetLifecycle: store.LeaseGen(r.gen("to_lease")),
		SpotID:          r.fields["to_spot"],
		InUserSpot:      r.has("to_member"),
		ValidUntil:      time.UnixMilli(int64(r.number("to_until", 1<<53))),
		Members:         int(r.optional("to_members")),
	}
	if r.has("to_root") {
		m.Prepared = &store.Inventory{Root: r.digest("to_root"), Count: int(r.number("to_count", math.MaxInt32))}
	}
	return m
}

// ownerGen is the sum of the row's own, which may be negative, and its Spot's. Without
// the latter it is the row's own, in two's complement.
func (r row) ownerGen() store.OwnerGen {
	own, err := strconv.ParseInt(r.fields["owner_gen"], 10, 64)
	if err != nil {
		r.fail("owner_gen")
	}
	sum := own + int64(r.optional("spot_gen"))
	if sum < 1 && r.has("shares") == r.has("spot_gen") {
		r.fail("owner_gen")
	}
	return store.OwnerGen(sum)
}

func (r row) has(field string) bool {
	_, there := r.fields[field]
	return there
}

func (r row) fail(field string) {
	if a := r.answer; a.err == nil {
		a.err = fmt.Errorf("%w: %s of %s: field %s of the row is %.80q", store.ErrCorrupt, a.script, a.key, field, r.fields[field])
	}
}

func (r row) number(field string, most uint64) uint64 {
	n, err := strconv.ParseUint(r.fields[field], 10, 64)
	if err != nil || n > most {
		r.fail(field)
		return 0
	}
	return n
}

func (r row) gen(field string) uint64 { return r.number(field, store.GenMax) }

// optional is 0 for a field that is not there.
func (r row) optional(field string) uint64 {
	if !r.has(field) {
		return 0
	}
	return r.gen(field)
}

func (r row) id(field string) (id [16]byte) {
	if !unhex(id[:], r.fields[field]) {
		r.fail(field)
	}
	return id
}

func (r row) digest(field string) (d store.Digest) {
	if !unhex(d[:], r.fields[field]) {
		r.fail(field)
	}
	return d
}

func (r row) operation() store.OperationKey {
	op, ok := parseOperation(r.fields["op_of"] + ":" + strings.TrimPrefix(r.fields["op"], "c"))
	if !ok {
		r.fail("op")
	}
	return op
}
