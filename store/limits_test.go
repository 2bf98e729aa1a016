package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReasonsReadBackAsWritten(t *testing.T) {
	for r := Applied; r <= Exhausted; r++ {
		if got, known := ParseReason(r.String()); !known || got != r || strings.Contains(r.String(), "(") {
			t.Errorf("reason %d is %q, which reads as %d, %v", r, r.String(), got, known)
		}
	}
	for _, word := range []string{"", "applied", "Reason(0)", "Reason(16)"} {
		if got, known := ParseReason(word); known {
			t.Errorf("%q reads as %v", word, got)
		}
	}
	if got := Reason(0).String(); got != "Reason(0)" {
		t.Errorf("the zero reason is %q", got)
	}
	if got := Reason(200).String(); got != "Reason(200)" {
		t.Errorf("an unknown reason is %q", got)
	}
}

func TestStatesAndResultsHaveNames(t *testing.T) {
	for got, want := range map[string]string{
		Creating.String(): "Creating", Ready.String(): "Ready", State(0).String(): "State(0)",
		Created.String(): "Created", Rejected.String(): "Rejected", Failed.String(): "Failed", Result(9).String(): "Result(9)",
	} {
		if got != want {
			t.Errorf("named %q; want %q", got, want)
		}
	}
}

func TestIDsAre255BytesOfUTF8(t *testing.T) {
	for id, ok := range map[string]bool{
		"": false, "a": true, "\x00": true, "é\n{}": true, "\xff": false,
		strings.Repeat("x", 255): true, strings.Repeat("x", 256): false, strings.Repeat("é", 127): true, strings.Repeat("é", 128): false,
	} {
		if err := CheckID("id", id); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckID(%.20q of %d bytes) = %v", id, len(id), err)
		}
	}
}

func TestNamesAre64HarmlessBytes(t *testing.T) {
	for name, ok := range map[string]bool{
		"": false, "node-a.B_9": true, "a:b": false, "a b": false, "a/b": false, "é": false, "a\x00": false, "{a}": false,
		strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
	} {
		if err := CheckName("RID", name); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckName(%.20q of %d bytes) = %v", name, len(name), err)
		}
	}
}

func TestGenerationsAreOneTo63Bits(t *testing.T) {
	for gen, ok := range map[uint64]bool{0: false, 1: true, GenMax: true, GenMax + 1: false, 1<<64 - 1: false} {
		if err := CheckGen("version", Version(gen)); (err == nil) != ok {
			t.Errorf("CheckGen(%d) = %v", gen, err)
		}
	}
}

func TestTTLsAreOneMillisecondToOneDay(t *testing.T) {
	for ttl, ok := range map[time.Duration]bool{
		0: false, -time.Second: false, time.Millisecond - 1: false, time.Millisecond: true, LeaseTTLMax: true, LeaseTTLMax + 1: false,
	} {
		if err := CheckTTL(ttl); (err == nil) != ok {
			t.Errorf("CheckTTL(%v) = %v", ttl, err)
		}
	}
}

// The requests that the tests below spoil, each in one place at a time.
func goodFence() Fence {
	return Fence{ID: "player-1", ObjectGen: 1, Version: 2, OwnerID: "owner", LeaseGen: 3, SpotID: "spot"}
}

func goodLease() Lease { return Lease{RID: "node-a", OwnerID: "owner", Gen: 1} }

func goodMove() MoveRef {
	return MoveRef{
		ID: "player-1", ObjectGen: 1, Version: 2, Relocation: RelocationID{1}, Attempt: 1, Epoch: 1, SpotID: "spot", MoveSpotID: "another",
	}
}

// spoiled fails unless the request is good and each edit makes it ErrInvalid.
func spoiled[T interface{ Check() error }](t *testing.T, good T, edits map[string]func(*T)) {
	t.Helper()
	if err := good.Check(); err != nil {
		t.Errorf("%T: %v; want none", good, err)
	}
	for why, edit := range edits {
		bad := good
		edit(&bad)
		if err := bad.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%T with %s: error is %v; want ErrInvalid", good, why, err)
		}
	}
}

func TestReservationsAreOfWhatCanBe(t *testing.T) {
	over := make([]byte, PayloadBytesMax+1)
	good := Reserve{
		ID: "x", Kind: InstanceSpot, Type: "quest", Op: OperationKey{"node-a", 1, OpID{1}}, TargetRID: "node-b", TargetLifecycle: 1,
		Timeout: time.Second, First: []byte("message"),
	}
	spoiled(t, good, map[string]func(*Reserve){
		"no kind":                    func(r *Reserve) { r.Kind = 0 },
		"an unknown kind":            func(r *Reserve) { r.Kind = InstanceSpot + 1 },
		"a wide Instance Spot":       func(r *Reserve) { r.Wide = true },
		"a first message of another": func(r *Reserve) { r.Kind = UserSpot },
		"a large first message":      func(r *Reserve) { r.First = over },
		"a pass that is no digest":   func(r *Reserve) { r.Pass = "tester" },
	})
	for _, kind := range []Kind{Actor, InstanceSpot} {
		r := good
		r.Kind, r.First, r.Wide = kind, nil, true
		if err := r.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("a wide %v: %v; want ErrInvalid", kind, err)
		}
	}
}

func TestFencesNameARowAndItsOwner(t *testing.T) {
	edits := map[string]func(*Fence){
		"no id":                      func(f *Fence) { f.ID = "" },
		"no generation":              func(f *Fence) { f.ObjectGen = 0 },
		"a generation of 2^63":       func(f *Fence) { f.ObjectGen = 1 << 63 },
		"no version":                 func(f *Fence) { f.Version = 0 },
		"no owner":                   func(f *Fence) { f.OwnerID = "" },
		"no lease":                   func(f *Fence) { f.LeaseGen = 0 },
		"a Spot that is not UTF-8":   func(f *Fence) { f.SpotID = "\xff" },
		"a Spot's version of 2^63":   func(f *Fence) { f.SpotVersion = 1 << 63 },
		"a Spot's id of 256 letters": func(f *Fence) { f.SpotID = strings.Repeat("x", 256) },
	}
	spoiled(t, goodFence(), edits)
	change := map[string]func(*ChangeSpot){
		"no operation":      func(c *ChangeSpot) { c.Op = OpID{} },
		"no new Spot":       func(c *ChangeSpot) { c.SpotID = "" },
		"a new Spot's \xff": func(c *ChangeSpot) { c.SpotID = "\xff" },
		"no Spot before":    func(c *ChangeSpot) { c.Fence.SpotID = "" },
	}
	move := map[string]func(*ReserveMove){
		"no operation":            func(r *ReserveMove) { r.Op = OpID{} },
		"no epoch":                func(r *ReserveMove) { r.Epoch = 0 },
		"no relocation":           func(r *ReserveMove) { r.Relocation = RelocationID{} },
		"no attempt":              func(r *ReserveMove) { r.Attempt = 0 },
		"no validity":             func(r *ReserveMove) { r.Validity = 0 },
		"half a millisecond":      func(r *ReserveMove) { r.Validity = time.Millisecond / 2 },
		"a validity of a month":   func(r *ReserveMove) { r.Validity = ValidityMax + time.Millisecond },
		"no target":               func(r *ReserveMove) { r.TargetRID = "" },
		"a target with a colon":   func(r *ReserveMove) { r.TargetRID = "a:b" },
		"no lifecycle":            func(r *ReserveMove) { r.TargetLifecycle = 0 },
		"no Spot for an Actor":    func(r *ReserveMove) { r.SpotID = "" },
		"a Spot for no Actor":     func(r *ReserveMove) { r.Fence.SpotID = "" },
		"a new Spot of 256 bytes": func(r *ReserveMove) { r.SpotID = strings.Repeat("x", 256) },
	}
	for why, edit := range edits {
		change[why] = func(c *ChangeSpot) { edit(&c.Fence) }
		move[why] = func(r *ReserveMove) { edit(&r.Fence) }
	}
	spoiled(t, ChangeSpot{Fence: goodFence(), Op: OpID{1}, SpotID: "another"}, change)
	spoiled(t, ReserveMove{
		Fence: goodFence(), Op: OpID{1}, Epoch: 1, Relocation: RelocationID{1}, Attempt: 1, Validity: time.Second, TargetRID: "node-b",
		TargetLifecycle: 1, SpotID: "another",
	}, move)
}

func TestMovesAreNamedInFull(t *testing.T) {
	edits := map[string]func(*MoveRef){
		"no id":              func(m *MoveRef) { m.ID = "" },
		"no generation":      func(m *MoveRef) { m.ObjectGen = 0 },
		"a version of 2^63":  func(m *MoveRef) { m.Version = 1 << 63 },
		"no relocation":      func(m *MoveRef) { m.Relocation = RelocationID{} },
		"no attempt":         func(m *MoveRef) { m.Attempt = 0 },
		"no epoch":           func(m *MoveRef) { m.Epoch = 0 },
		"a Spot's \xff":      func(m *MoveRef) { m.SpotID = "\xff" },
		"a next Spot's \xff": func(m *MoveRef) { m.MoveSpotID = "\xff" },
	}
	commit := map[string]func(*CommitMove){
		"no operation":    func(c *CommitMove) { c.Op = OpID{} },
		"no source":       func(c *CommitMove) { c.SourceOwnerID = "" },
		"no source lease": func(c *CommitMove) { c.SourceLease = 0 },
		"no target":       func(c *CommitMove) { c.Target = Lease{} },
	}
	end := map[string]func(*EndMove){
		"no operation":     func(e *EndMove) { e.Op = OpID{} },
		"no party":         func(e *EndMove) { e.By = 0 },
		"an unknown party": func(e *EndMove) { e.By = Sweep + 1 },
		"nobody who asks":  func(e *EndMove) { e.Asker = Lease{} },
	}
	prepare := map[string]func(*PrepareAggregate){
		"no operation":    func(p *PrepareAggregate) { p.Op = OpID{} },
		"nobody who asks": func(p *PrepareAggregate) { p.Asker = Lease{} },
		"no participant":  func(p *PrepareAggregate) { p.Inventory.Count = 0 },
		"2^31":            func(p *PrepareAggregate) { p.Inventory.Count = SlotsMax + 1 },
	}
	for why, edit := range edits {
		commit[why] = func(c *CommitMove) { edit(&c.MoveRef) }
		end[why] = func(e *EndMove) { edit(&e.MoveRef) }
		prepare[why] = func(p *PrepareAggregate) { edit(&p.MoveRef) }
	}
	spoiled(t, goodMove(), edits)
	spoiled(t, CommitMove{MoveRef: goodMove(), Op: OpID{1}, SourceOwnerID: "owner", SourceLease: 1, Target: goodLease()}, commit)
	spoiled(t, EndMove{MoveRef: goodMove(), Op: OpID{1}, By: Sweep, Asker: goodLease()}, end)
	spoiled(t, PrepareAggregate{MoveRef: goodMove(), Op: OpID{1}, Asker: goodLease(), Inventory: Inventory{Count: 1}}, prepare)
}

func TestWhatIsFreedAndAssertedIsNamedInFull(t *testing.T) {
	spoiled(t, Free{ID: "x", ObjectGen: 1, Version: 1, Op: OpID{1}, By: goodLease()}, map[string]func(*Free){
		"no id":              func(f *Free) { f.ID = "" },
		"no generation":      func(f *Free) { f.ObjectGen = 0 },
		"no version":         func(f *Free) { f.Version = 0 },
		"no operation":       func(f *Free) { f.Op = OpID{} },
		"half an asker":      func(f *Free) { f.By.OwnerID = "" },
		"a Spot's \xff":      func(f *Free) { f.SpotID = "\xff" },
		"a move's Spot \xff": func(f *Free) { f.MoveSpotID = "\xff" },
	})
	spoiled(t, Reassert{
		Op: OpID{1}, Epoch: 1, Owner: goodLease(), ID: "x", Kind: Actor, Type: "player", ObjectGen: 1, OwnerGen: 1, Version: 1, Mesh: "mesh",
		SpotID: "room", InUserSpot: true, Shares: true,
	}, map[string]func(*Reassert){
		"no operation":             func(r *Reassert) { r.Op = OpID{} },
		"no epoch":                 func(r *Reassert) { r.Epoch = 0 },
		"no owner":                 func(r *Reassert) { r.Owner = Lease{} },
		"no id":                    func(r *Reassert) { r.ID = "" },
		"no type":                  func(r *Reassert) { r.Type = "" },
		"no generation":            func(r *Reassert) { r.ObjectGen = 0 },
		"no owner generation":      func(r *Reassert) { r.OwnerGen = 0 },
		"no version":               func(r *Reassert) { r.Version = 0 },
		"a mesh of 256 bytes":      func(r *Reassert) { r.Mesh = strings.Repeat("x", 256) },
		"an Actor without Spot":    func(r *Reassert) { r.SpotID = "" },
		"a Spot in a Spot":         func(r *Reassert) { r.Kind = UserSpot },
		"a share of an Entry Spot": func(r *Reassert) { r.InUserSpot = false },
		"a wide Actor":             func(r *Reassert) { r.Wide = true },
		"a Spot's id of 256 bytes": func(r *Reassert) { r.SpotID = strings.Repeat("x", 256) },
		"a Spot that is a member":  func(r *Reassert) { r.Kind, r.SpotID, r.Shares = UserSpot, "", false },
		"a wide Instance Spot": func(r *Reassert) {
			r.Kind, r.SpotID, r.InUserSpot, r.Shares, r.Wide = InstanceSpot, "", false, false, true
		},
	})
}

func TestDescriptorsOfferWhatCanBe(t *testing.T) {
	good := Descriptor{
		RID: "node-a", Lifecycle: 1, MaxSpots: 1, SpotTypes: []SpotType{{Type: "room", Kind: UserSpot, Max: 1}},
		Mesh: "main", Role: RoleServer, Meshes: []MeshEntry{{Name: "other", Endpoint: "h:1", Role: RoleClient}, {Name: "none"}},
	}
	if err := good.Check(goodLease()); err != nil {
		t.Error(err)
	}
	for why, edit := range map[string]func(*Descriptor){
		"a negative limit of Spots":  func(d *Descriptor) { d.MaxSpots = -1 },
		"2^31 Spots":                 func(d *Descriptor) { d.MaxSpots = SlotsMax + 1 },
		"a type of Actors":           func(d *Descriptor) { d.SpotTypes = []SpotType{{Type: "room", Kind: Actor}} },
		"a type of no kind":          func(d *Descriptor) { d.SpotTypes = []SpotType{{Type: "room"}} },
		"a type without name":        func(d *Descriptor) { d.SpotTypes = []SpotType{{Kind: UserSpot}} },
		"a negative limit of a type": func(d *Descriptor) { d.SpotTypes = []SpotType{{Type: "room", Kind: UserSpot, Max: -1}} },
		"a cordon and a weight":      func(d *Descriptor) { d.Cordoned, d.Weight = true, 1 },
		"a pass without a cordon":    func(d *Descriptor) { d.Weight, d.Passes = 0, []string{PassDigest("x")} },
		"17 passes": func(d *Descriptor) {
			d.Weight, d.Cordoned, d.Passes = 0, true, slices.Repeat([]string{PassDigest("x")}, 17)
		},
		"a pass as it is": func(d *Descriptor) { d.Weight, d.Cordoned, d.Passes = 0, true, []string{"tester"} },
		"a digest in capitals": func(d *Descriptor) {
			d.Weight, d.Cordoned, d.Passes = 0, true, []string{strings.ToUpper(PassDigest("x"))}
		},
		"a wave of 256 bytes":    func(d *Descriptor) { d.Wave = strings.Repeat("x", 256) },
		"an Entry Spot's \xff":   func(d *Descriptor) { d.EntrySpotID = "\xff" },
		"a server in two meshes": func(d *Descriptor) { d.Meshes = []MeshEntry{{Name: "other", Role: RoleServer}} },
		"a mesh of 256 bytes":    func(d *Descriptor) { d.Meshes = []MeshEntry{{Name: strings.Repeat("x", 256)}} },
	} {
		d := good
		edit(&d)
		if err := d.Check(goodLease()); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error is %v; want ErrInvalid", why, err)
		}
	}
}

func TestPagesAndFiltersHaveLimits(t *testing.T) {
	for limit, ok := range map[int]bool{-1: false, 0: false, 1: true, PageMax: true, PageMax + 1: false} {
		if err := CheckLimit(limit); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckLimit(%d) = %v", limit, err)
		}
	}
	spoiled(t, Filter{Kind: UserSpot, Type: "room"}, map[string]func(*Filter){"a type of no kind": func(f *Filter) { f.Kind = 0 }})
}

func TestKindsHaveNames(t *testing.T) {
	for k, want := range map[Kind]string{Actor: "Actor", EntrySpot: "EntrySpot", UserSpot: "UserSpot", InstanceSpot: "InstanceSpot", 9: "Kind(9)"} {
		if got := k.String(); got != want {
			t.Errorf("kind %d is named %q; want %q", k, got, want)
		}
	}
}
