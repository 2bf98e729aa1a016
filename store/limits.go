package store

import (
	"fmt"
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
	ActorsMax          = 1<<31 - 1 // of a node, where limited at all
	GenMax             = 1<<63 - 1 // of any generation or version: none is issued beyond (ID-08)

	// LeaseTTLMax bounds a lease, so that a mistaken unit cannot lock an RID for years.
	LeaseTTLMax = 24 * time.Hour
	// TimeoutMax bounds the deadline of an operation and with it its terminal record's life.
	TimeoutMax = (1<<31 - 1) * time.Millisecond
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
	return firstOf(CheckName("RID", l.RID), CheckName("owner id", l.OwnerID), CheckGen("lease generation", l.Gen))
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
	if d.MaxActors < 0 || d.MaxActors > ActorsMax {
		return invalid("actor limit %d of node %q: need 0 (none) to %d", d.MaxActors, d.RID, ActorsMax)
	}
	for _, t := range d.ActorTypes {
		if err := CheckID("actor type", t); err != nil {
			return err
		}
	}
	if d.EntrySpotID != "" {
		if err := CheckID("Entry Spot id", d.EntrySpotID); err != nil {
			return err
		}
	}
	return firstOf(checkText("mesh name", d.Mesh), checkText("endpoint", d.Endpoint), checkText("application version", d.AppVersion))
}

// Check returns ErrInvalid if the key breaks a limit.
func (k OperationKey) Check() error {
	return firstOf(CheckName("source RID", k.SourceRID), CheckGen("source lifecycle", k.SourceLifecycle), k.Op.Check())
}

// Check returns ErrInvalid for the zero id, which every caller that forgot to
// draw one would share.
func (o OpID) Check() error {
	if o == (OpID{}) {
		return invalid("operation id is zero: draw a random one")
	}
	return nil
}

// Check returns ErrInvalid if the reservation breaks a limit.
func (r Reserve) Check() error {
	if r.Timeout < time.Millisecond || r.Timeout > TimeoutMax {
		return invalid("timeout %v of the creation of %q: need 1ms to %v", r.Timeout, r.ID, TimeoutMax)
	}
	return firstOf(CheckID("id", r.ID), CheckID("actor type", r.Type), r.Op.Check(), CheckName("target RID", r.TargetRID),
		CheckGen("target lifecycle", r.TargetLifecycle), checkPayload("creation request", r.ID, r.Request))
}

// Check returns ErrInvalid if the fence breaks a limit.
func (f Fence) Check() error {
	return firstOf(CheckID("id", f.ID), CheckGen("object generation", f.ObjectGen), CheckGen("store version", f.Version),
		CheckName("owner id", f.OwnerID), CheckGen("lease generation", f.LeaseGen))
}

// Check returns ErrInvalid if the finish breaks a limit.
func (f Finish) Check() error {
	if f.Result < Created || f.Result > Failed {
		return invalid("result %d of the creation of %q: need Created, Rejected or Failed", f.Result, f.ID)
	}
	return firstOf(f.Fence.Check(), f.Op.Check(), checkPayload("creation reply", f.ID, f.Reply))
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

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
