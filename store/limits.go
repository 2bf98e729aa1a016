package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of what the Store keeps. Arguments beyond them are ErrInvalid and
// never sent.
const (
	IDBytesMax         = 255       // object ids and stable types: they are keys and fields
	NameBytesMax       = 64        // RIDs, owner ids, namespaces: the same, and in every record
	TextBytesMax       = 255       // mesh names, endpoints, application versions
	PayloadBytesMax    = 1 << 20   // a creation request or reply: one Store command stays short
	DescriptorBytesMax = 1 << 20   // an encoded descriptor: four fill a page of a list
	WeightMax          = 10_000    // of a node
	PassesMax          = 16        // through one Cordon
	SlotsMax           = 1<<31 - 1 // Actors or Spots of a node, where limited at all
	PageMax            = 1000      // rows or ids in one page: Redis answers nobody else meanwhile
	PageBytesMax       = 4 << 20   // of descriptors in one page
	GenMax             = 1<<63 - 1 // of any generation or version: none is issued beyond (ID-08)

	// LeaseTTLMax bounds a lease, so that a mistaken unit cannot lock an RID for years.
	LeaseTTLMax = 24 * time.Hour
	// TimeoutMax bounds the deadline of an operation and with it its terminal record's life.
	TimeoutMax = (1<<31 - 1) * time.Millisecond
	// ValidityMax bounds how long a move that nobody ends keeps its place.
	ValidityMax = 24 * time.Hour
	// TerminalRetention is how long a result outlives its operation's deadline (CR-15).
	TerminalRetention = 5 * time.Minute
)

// CheckID returns ErrInvalid unless id may be an object id or a stable type:
// 1–255 bytes of UTF-8, taken as they are (ID-01).
func CheckID(what, id string) error {
	if len(id) == 0 || len(id) > IDBytesMax || !utf8.ValidString(id) {
		return invalid("%s %.80q: need 1–%d bytes of UTF-8", what, id, IDBytesMax)
	}
	return nil
}

// CheckName returns ErrInvalid unless name may be an RID, an owner id or a
// namespace: 1–64 bytes of [A-Za-z0-9._-].
func CheckName(what, name string) error {
	if len(name) == 0 || len(name) > NameBytesMax {
		return invalid("%s %.80q: need 1–%d bytes of [A-Za-z0-9._-]", what, name, NameBytesMax)
	}
	for _, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && !('0' <= c && c <= '9') && c != '.' && c != '_' && c != '-' {
			return invalid("%s %q: need 1–%d bytes of [A-Za-z0-9._-]", what, name, NameBytesMax)
		}
	}
	return nil
}

// CheckGen returns ErrInvalid unless gen may be a generation or a version.
func CheckGen[G ~uint64](what string, gen G) error {
	if gen == 0 || gen > GenMax {
		return invalid("%s %d: need 1 to 2^63-1", what, uint64(gen))
	}
	return nil
}

// CheckTTL returns ErrInvalid unless a lease may last ttl.
func CheckTTL(ttl time.Duration) error {
	if ttl < time.Millisecond || ttl > LeaseTTLMax {
		return invalid("lease TTL %v: need 1ms to %v", ttl, LeaseTTLMax)
	}
	return nil
}

// Check returns ErrInvalid if the lease breaks a limit.
func (l Lease) Check() error {
	return cmp.Or(CheckName("RID", l.RID), CheckName("owner id", l.OwnerID), CheckGen("lease generation", l.Gen))
}

// Check returns ErrInvalid if the descriptor breaks a limit or is not that of
// the lease's process. Its encoded size is checked where it is encoded.
func (d Descriptor) Check(l Lease) error {
	if d.RID != l.RID || d.Lifecycle != l.Gen {
		return invalid("descriptor of %q, lifecycle %d, published under the lease of %q, lifecycle %d", d.RID, d.Lifecycle, l.RID, l.Gen)
	}
	if d.Weight < 0 || d.Weight > WeightMax {
		return invalid("weight %d of node %q: need 0 to %d", d.Weight, d.RID, WeightMax)
	}
	if err := d.checkCordon(); err != nil {
		return err
	}
	if err := cmp.Or(checkSlots(d.RID, "Actors", d.MaxActors), checkSlots(d.RID, "Spots", d.MaxSpots)); err != nil {
		return err
	}
	for _, t := range d.ActorTypes {
		if err := CheckID("actor type", t); err != nil {
			return err
		}
	}
	for name := range d.ActorPolicies {
		if err := CheckID("actor type", name); err != nil {
			return err
		}
	}
	for _, t := range d.SpotTypes {
		if t.Kind != UserSpot && t.Kind != InstanceSpot {
			return invalid("Spot type %q of node %q is of kind %v: need UserSpot or InstanceSpot", t.Type, d.RID, t.Kind)
		}
		if err := cmp.Or(CheckID("Spot type", t.Type), checkSlots(d.RID, "Spots of type "+t.Type, t.Max)); err != nil {
			return err
		}
	}
	for _, m := range d.Meshes {
		if m.Role != RoleNone && m.Role != RoleClient {
			return invalid("node %q has role %d in mesh %q besides mesh %q: objects live in one mesh only", d.RID, m.Role, m.Name, d.Mesh)
		}
		if err := cmp.Or(checkText("mesh name", m.Name), checkText("endpoint", m.Endpoint)); err != nil {
			return err
		}
	}
	if d.EntrySpotID != "" {
		if err := CheckID("Entry Spot id", d.EntrySpotID); err != nil {
			return err
		}
	}
	return cmp.Or(checkText("mesh name", d.Mesh), checkText("endpoint", d.Endpoint), checkText("application version", d.AppVersion),
		checkText("maintenance wave", d.Wave))
}

func (d Descriptor) checkCordon() error {
	switch {
	case d.Cordoned && d.Weight != 0:
		return invalid("weight %d of node %q, which is cordoned: need 0", d.Weight, d.RID)
	case len(d.Passes) > PassesMax || len(d.Passes) > 0 && !d.Cordoned:
		return invalid("node %q has %d passes: need at most %d, and a Cordon", d.RID, len(d.Passes), PassesMax)
	}
	for _, p := range d.Passes {
		if err := checkPass(p); err != nil {
			return err
		}
	}
	return nil
}

// Check returns ErrInvalid if the key breaks a limit.
func (k OperationKey) Check() error {
	return cmp.Or(CheckName("source RID", k.SourceRID), CheckGen("source lifecycle", k.SourceLifecycle), k.Op.Check())
}

// Check returns ErrInvalid for the zero id, which every caller that forgot to
// draw one would share.
func (o OpID) Check() error {
	if o == (OpID{}) {
		return invalid("operation id is zero: draw a random one")
	}
	return nil
}

// Check returns ErrInvalid for the zero id, as OpID.Check does.
func (r RelocationID) Check() error {
	if r == (RelocationID{}) {
		return invalid("relocation id is zero: draw a random one")
	}
	return nil
}

// Check returns ErrInvalid if the reservation breaks a limit.
func (r Reserve) Check() error {
	switch {
	case r.Timeout < time.Millisecond || r.Timeout > TimeoutMax:
		return invalid("timeout %v of the creation of %q: need 1ms to %v", r.Timeout, r.ID, TimeoutMax)
	case r.Kind != Actor && r.Kind != UserSpot && r.Kind != InstanceSpot:
		return invalid("creation of %q as %v: need Actor, UserSpot or InstanceSpot", r.ID, r.Kind)
	case r.Wide && r.Kind != UserSpot:
		return invalid("creation of %q as a wide %v: only a UserSpot has members", r.ID, r.Kind)
	case r.First != nil && r.Kind != InstanceSpot:
		return invalid("creation of %q with a first message as %v: only an InstanceSpot has one", r.ID, r.Kind)
	}
	if r.Pass != "" {
		if err := checkPass(r.Pass); err != nil {
			return err
		}
	}
	return cmp.Or(CheckID("id", r.ID), CheckID("stable type", r.Type), r.Op.Check(), CheckName("target RID", r.TargetRID),
		CheckGen("target lifecycle", r.TargetLifecycle), checkPayload("creation request", r.ID, r.Request),
		checkPayload("first message", r.ID, r.First))
}

// Check returns ErrInvalid if the fence breaks a limit.
func (f Fence) Check() error {
	return cmp.Or(CheckRow(f.ID, f.ObjectGen, f.Version), CheckName("owner id", f.OwnerID),
		CheckGen("lease generation", f.LeaseGen), checkOptionalID("Spot id", f.SpotID), checkOptionalGen("Spot version", f.SpotVersion))
}

// Check returns ErrInvalid if the finish breaks a limit.
func (f Finish) Check() error {
	if f.Result < Created || f.Result > Failed {
		return invalid("result %d of the creation of %q: need Created, Rejected or Failed", f.Result, f.ID)
	}
	return cmp.Or(f.Fence.Check(), f.Op.Check(), checkPayload("creation reply", f.ID, f.Reply))
}

// CheckRow returns ErrInvalid unless an id may have that generation and version.
func CheckRow(id string, gen ObjectGen, v Version) error {
	return cmp.Or(CheckID("id", id), CheckGen("object generation", gen), CheckGen("store version", v))
}

// Check returns ErrInvalid if what is to be freed breaks a limit.
func (f Free) Check() error {
	if f.By != (Lease{}) {
		if err := f.By.Check(); err != nil {
			return err
		}
	}
	return cmp.Or(CheckRow(f.ID, f.ObjectGen, f.Version), checkOptionalID("Spot id", f.SpotID),
		checkOptionalID("Spot id of the move", f.MoveSpotID), f.Op.Check())
}

// Check returns ErrInvalid if the change breaks a limit.
func (c ChangeSpot) Check() error {
	return cmp.Or(c.Fence.Check(), c.Op.Check(), CheckID("Spot id", c.Fence.SpotID), CheckID("new Spot id", c.SpotID))
}

// Check returns ErrInvalid if the reservation breaks a limit.
func (r ReserveMove) Check() error {
	switch {
	case r.Validity < time.Millisecond || r.Validity > ValidityMax:
		return invalid("validity %v of the move of %q: need 1ms to %v", r.Validity, r.ID, ValidityMax)
	case r.Attempt == 0:
		return invalid("attempt 0 of the move of %q: attempts count from 1", r.ID)
	case (r.Fence.SpotID == "") != (r.SpotID == ""):
		return invalid("move of %q from Spot %q to Spot %q: an Actor is always in one, nothing else is", r.ID, r.Fence.SpotID, r.SpotID)
	}
	return cmp.Or(r.Fence.Check(), r.Op.Check(), CheckGen("epoch", r.Epoch), r.Relocation.Check(),
		CheckName("target RID", r.TargetRID), CheckGen("target lifecycle", r.TargetLifecycle), checkOptionalID("new Spot id", r.SpotID))
}

// Check returns ErrInvalid if the reference breaks a limit.
func (m MoveRef) Check() error {
	if m.Attempt == 0 {
		return invalid("attempt 0 of the move of %q: attempts count from 1", m.ID)
	}
	return cmp.Or(CheckRow(m.ID, m.ObjectGen, m.Version), m.Relocation.Check(), CheckGen("epoch", m.Epoch),
		checkOptionalID("Spot id", m.SpotID), checkOptionalID("new Spot id", m.MoveSpotID))
}

// Check returns ErrInvalid if the commit breaks a limit.
func (c CommitMove) Check() error {
	return cmp.Or(c.MoveRef.Check(), c.Op.Check(), CheckName("source owner id", c.SourceOwnerID),
		CheckGen("source lease generation", c.SourceLease), c.Target.Check())
}

// Check returns ErrInvalid if the end breaks a limit.
func (e EndMove) Check() error {
	if e.By < Source || e.By > Sweep {
		return invalid("end of the move of %q by party %d: need Source, Target or Sweep", e.ID, e.By)
	}
	return cmp.Or(e.MoveRef.Check(), e.Op.Check(), e.Asker.Check())
}

// Check returns ErrInvalid if the inventory breaks a limit.
func (p PrepareAggregate) Check() error {
	if p.Inventory.Count < 1 || p.Inventory.Count > SlotsMax {
		return invalid("inventory of %q with %d participants: need 1 to %d", p.ID, p.Inventory.Count, SlotsMax)
	}
	return cmp.Or(p.MoveRef.Check(), p.Op.Check(), p.Asker.Check())
}

// Check returns ErrInvalid if the row breaks a limit.
func (r Reassert) Check() error {
	switch {
	case r.Kind != Actor && r.Kind != UserSpot && r.Kind != InstanceSpot:
		return invalid("row of %q as %v: need Actor, UserSpot or InstanceSpot", r.ID, r.Kind)
	case (r.Kind == Actor) != (r.SpotID != ""):
		return invalid("%v %q in Spot %q: an Actor is always in one, nothing else is", r.Kind, r.ID, r.SpotID)
	case r.Shares && !r.InUserSpot, r.InUserSpot && r.Kind != Actor, r.Wide && r.Kind != UserSpot:
		return invalid("%v %q: only members of a User Spot share its owner, only a UserSpot is wide", r.Kind, r.ID)
	}
	return cmp.Or(CheckRow(r.ID, r.ObjectGen, r.Version), r.Op.Check(), CheckGen("epoch", r.Epoch), r.Owner.Check(),
		CheckID("stable type", r.Type), CheckGen("owner generation", r.OwnerGen), checkText("mesh name", r.Mesh),
		checkOptionalID("Spot id", r.SpotID))
}

// Check returns ErrInvalid if the filter breaks a limit, or names a type of no kind.
func (f Filter) Check() error {
	if f.Type != "" && f.Kind == 0 {
		return invalid("a filter by type %q needs the kind", f.Type)
	}
	return cmp.Or(checkOptionalID("stable type", f.Type), checkText("mesh name", f.Mesh))
}

// Check returns ErrInvalid for what is none of the holdings.
func (h Holding) Check() error {
	if h != HeldOwned && h != HeldReserved {
		return invalid("holding %d: need HeldOwned or HeldReserved", h)
	}
	return nil
}

// CheckLimit returns ErrInvalid unless a page may have so many entries.
func CheckLimit(limit int) error {
	if limit < 1 || limit > PageMax {
		return invalid("a page of %d: need 1 to %d", limit, PageMax)
	}
	return nil
}

func checkSlots(rid, what string, n int) error {
	if n < 0 || n > SlotsMax {
		return invalid("limit %d of %s of node %q: need 0 (none) to %d", n, what, rid, SlotsMax)
	}
	return nil
}

func checkPass(digest string) error {
	if b, err := hex.DecodeString(digest); err != nil || len(b) != sha256.Size || strings.ToLower(digest) != digest {
		return invalid("pass %.80q: need a PassDigest", digest)
	}
	return nil
}

func checkOptionalID(what, id string) error {
	if id == "" {
		return nil
	}
	return CheckID(what, id)
}

func checkOptionalGen[G ~uint64](what string, gen G) error {
	if gen == 0 {
		return nil
	}
	return CheckGen(what, gen)
}

func checkText(what, s string) error {
	if len(s) > TextBytesMax || !utf8.ValidString(s) {
		return invalid("%s %.80q: need at most %d bytes of UTF-8", what, s, TextBytesMax)
	}
	return nil
}

func checkPayload(what, id string, p []byte) error {
	if len(p) > PayloadBytesMax {
		return invalid("%s of %q has %d bytes: need at most %d", what, id, len(p), PayloadBytesMax)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
