package creation

import (
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

func opKey(n byte) store.OperationKey {
	return store.OperationKey{SourceRID: "s", SourceLifecycle: 3, Op: store.OpID{n}}
}

func word(t *testing.T, d *datadriven.TestData, key, otherwise string) string {
	v := otherwise
	d.MaybeScanArgs(t, key, &v)
	return v
}

func duration(t *testing.T, s string) time.Duration {
	v, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func kindArg(t *testing.T, d *datadriven.TestData) store.Kind {
	kinds := map[string]store.Kind{"actor": store.Actor, "room": store.UserSpot, "instance": store.InstanceSpot}
	k, ok := kinds[word(t, d, "kind", "actor")]
	if !ok {
		return store.Actor // the word is an error's kind
	}
	return k
}

func errArg(t *testing.T, d *datadriven.TestData) error {
	switch word(t, d, "err", "") {
	case "":
		return nil
	case "unknown":
		return store.ErrUnknown
	case "unavailable":
		return store.ErrUnavailable
	case "invalid":
		return store.ErrInvalid
	}
	t.Fatalf("%s: no such error", d.Pos)
	return nil
}

func failureArg(t *testing.T, d *datadriven.TestData, key string) *Failure {
	name := word(t, d, key, "")
	for k := range errkind.Kind(errkind.Count) {
		if k.String() == name {
			return &Failure{Kind: k}
		}
	}
	return nil
}

func rowArg(t *testing.T, d *datadriven.TestData) (row store.Authority, found bool) {
	state := word(t, d, "state", "")
	if state == "" {
		return row, false
	}
	gen, version, lease, op := uint64(1), uint64(1), "10s", byte(1)
	var n uint64
	d.MaybeScanArgs(t, "gen", &gen)
	d.MaybeScanArgs(t, "version", &version)
	d.MaybeScanArgs(t, "lease", &lease)
	if d.MaybeScanArgs(t, "op", &n) {
		op = byte(n)
	}
	row = store.Authority{
		ID: "a", Kind: kindArg(t, d), Type: word(t, d, "type", "player"), State: store.Ready, ObjectGen: store.ObjectGen(gen),
		Version: store.Version(version), OwnerGen: 1, Mesh: "main", RID: word(t, d, "rid", "n1"), LeaseGen: 7, LeaseLeft: duration(t, lease),
	}
	if state == "creating" {
		row.State, row.Create = store.Creating, &store.Creation{Op: opKey(op)}
		row.Create.Op.SourceRID = word(t, d, "by", "s")
	}
	return row, true
}

func changeArg(t *testing.T, d *datadriven.TestData) (c store.Change) {
	if name := word(t, d, "reason", ""); name != "" {
		r, known := store.ParseReason(name)
		if !known {
			t.Fatalf("%s: no such reason", d.Pos)
		}
		c.Reason = r
	}
	c.Record, c.Found = rowArg(t, d)
	return c
}

func terminalArg(t *testing.T, d *datadriven.TestData) (kept store.Terminal, found bool) {
	results := map[string]store.Result{"created": store.Created, "rejected": store.Rejected, "failed": store.Failed}
	if kept.Result, found = results[word(t, d, "result", "")]; !found {
		return store.Terminal{}, false
	}
	gen := uint64(1)
	d.MaybeScanArgs(t, "gen", &gen)
	kept.ID, kept.ObjectGen, kept.FailKind = "a", store.ObjectGen(gen), uint8(errkind.InternalFailure)
	if f := failureArg(t, d, "why"); f != nil {
		kept.FailKind = uint8(f.Kind)
	}
	return kept, true
}
