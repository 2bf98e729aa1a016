package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode/store"
)

// commands are all that a script can say; RunScripts explains them.
var commands = map[string]action{
	"node": (*script).node, "lease": (*script).newProcess, "publish": (*script).publish, "unpublish": (*script).leave,
	"release": (*script).leave, "renew": (*script).renew, "expire": (*script).renew, "nodes": (*script).nodes,
	"changed": (*script).hasChanged, "held": (*script).held, "list": (*script).list,
	"raise": (*script).newEpoch, "mark": (*script).newEpoch, "failover": (*script).newEpoch,

	"reserve": (*script).reserve, "create": (*script).create, "finish": onRow((*script).finish), "cancel": onRow((*script).cancel),
	"first": onRow((*script).first), "delete": onRow((*script).delete), "free": onRow((*script).free),
	"change": onRow((*script).changeSpot), "reassert": onRow((*script).reassert),
	"move": onRow((*script).move), "commit": onRow((*script).commit), "abort": onRow((*script).end), "give-up": onRow((*script).end),
	"sweep": onRow((*script).end), "put": (*script).put, "prepare": onRow((*script).prepare), "complete": onRow((*script).complete),

	"read": (*script).read, "read-first": (*script).readFirst, "read-chunk": (*script).readChunk, "terminal": (*script).terminal,
	"members": (*script).members,
}

func (s *script) reserve(ctx context.Context, c *command) (string, error) {
	return s.changed(s.reserveOnly(ctx, c, s.op(c)))
}

func (s *script) reserveOnly(ctx context.Context, c *command, op store.OpID) (store.Change, error) {
	p := s.process(c.args["at"])
	kind := kindOf(c.id)
	r := store.Reserve{
		ID: c.id, Kind: kind, Type: c.get("type", map[store.Kind]string{store.Actor: "player", store.UserSpot: "room", store.InstanceSpot: "cell"}[kind]),
		Wide: c.has("wide"), Op: s.key(op), TargetRID: p.RID, TargetLifecycle: p.Gen, Request: []byte("make " + c.id), Timeout: time.Hour,
		Pass: store.PassDigest(c.get("pass", "")),
	}
	if c.has("first") {
		r.First = []byte(c.args["first"])
	}
	return s.Reserve(ctx, r)
}

// create reserves and finishes; a refusal of the former is the answer.
func (s *script) create(ctx context.Context, c *command) (string, error) {
	op := s.op(c)
	reserved, err := s.reserveOnly(ctx, c, op)
	if err != nil || reserved.Reason != store.Applied {
		return s.changed(reserved, err)
	}
	s.names.Change(reserved)
	return s.changed(s.Finish(ctx, store.Finish{Fence: store.FenceOf(&reserved.Record), Op: s.key(op), Result: store.Created}))
}

func (s *script) finish(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	f := store.Finish{Fence: store.FenceOf(a), Result: store.Created, Reply: []byte("reply to " + c.id), FailKind: 3}
	if c.has("op") || a.Create == nil {
		f.Op = s.key(s.op(c))
	} else {
		f.Op = a.Create.Op
	}
	switch {
	case c.has("rejected"):
		f.Result = store.Rejected
	case c.has("failed"):
		f.Result = store.Failed
	}
	return s.Finish(ctx, f)
}

func (s *script) cancel(ctx context.Context, _ *command, a *store.Authority) (store.Change, error) {
	return s.CancelCreation(ctx, a.ID, a.ObjectGen, a.Version)
}

func (s *script) first(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	return s.AdvanceFirst(ctx, store.FenceOf(a), s.op(c), uint64(c.number("cursor", 0)), c.has("done"))
}

func (s *script) delete(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	return s.Delete(ctx, store.FenceOf(a), s.op(c))
}

func (s *script) free(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	f := store.FreeOf(a, s.op(c))
	if c.has("asks") {
		f.By = ownerOf(a)
	}
	return s.Free(ctx, f)
}

func ownerOf(a *store.Authority) store.Lease {
	return store.Lease{RID: a.RID, OwnerID: a.OwnerID, Gen: a.LeaseGen}
}

func (s *script) changeSpot(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	return s.ChangeSpot(ctx, store.ChangeSpot{Fence: store.FenceOf(a), Op: s.op(c), SpotID: c.args["to"], InUserSpot: !c.has("entry")})
}

func (s *script) move(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	p := s.process(c.args["to"])
	m := store.ReserveMove{
		Fence: store.FenceOf(a), Op: s.op(c), Epoch: s.epoch(c), Relocation: store.RelocationID{byte(c.number("move", 1))},
		Attempt: uint32(c.number("attempt", 1)), Validity: time.Hour, TargetRID: p.RID, TargetLifecycle: p.Gen,
	}
	if kindOf(c.id) == store.Actor {
		m.SpotID, m.InUserSpot = c.get("in", p.RID+"-entry"), c.has("in")
	}
	if c.has("short") {
		m.Validity = time.Millisecond
		defer s.Elapse()
	}
	return s.ReserveMove(ctx, m)
}

// moved is the row's move, or one that never was.
func moved(a *store.Authority) (store.MoveRef, store.Lease) {
	if a.Move == nil {
		b := *a
		b.Move = &store.Move{
			ID: store.RelocationID{1}, Attempt: 1, SpotID: a.SpotID, TargetRID: "nobody", TargetOwnerID: "nobody", TargetLifecycle: store.GenMax,
		}
		b.Epoch = max(a.Epoch, 1)
		a = &b
	}
	return store.MoveOf(a), store.Lease{RID: a.Move.TargetRID, OwnerID: a.Move.TargetOwnerID, Gen: a.Move.TargetLifecycle}
}

func (s *script) commit(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	ref, target := moved(a)
	m := store.CommitMove{MoveRef: ref, Op: s.op(c), SourceOwnerID: a.OwnerID, SourceLease: a.LeaseGen, Target: target}
	if by := c.args["by"]; by != "" {
		m.Target = s.process(by).Lease
	}
	if a.Move != nil && a.Move.Prepared != nil {
		m.Root = a.Move.Prepared.Root
	}
	if root := c.args["root"]; root != "" {
		m.Root = sha256.Sum256([]byte(root))
	}
	return s.CommitMove(ctx, m)
}

func (s *script) end(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	ref, target := moved(a)
	e := store.EndMove{MoveRef: ref, Op: s.op(c), By: store.Target, Asker: target}
	switch c.name {
	case "abort":
		e.By, e.Asker = store.Source, ownerOf(a)
	case "sweep":
		e.By = store.Sweep
	}
	if by := c.args["by"]; by != "" {
		e.Asker = s.process(by).Lease
	}
	return s.EndMove(ctx, e)
}

func (s *script) put(ctx context.Context, c *command) (string, error) {
	a, err := s.row(ctx, c)
	if err != nil {
		return "", err
	}
	ref, _ := moved(&a)
	reason, err := s.PutInventory(ctx, ref, []byte(c.args["chunk"]))
	return reason.String(), err
}

func (s *script) prepare(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	ref, _ := moved(a)
	members := 0
	if a.Move != nil {
		members = a.Move.Members
	}
	return s.PrepareAggregate(ctx, store.PrepareAggregate{
		MoveRef: ref, Op: s.op(c), Asker: ownerOf(a),
		Inventory: store.Inventory{Root: sha256.Sum256([]byte(c.args["chunk"])), Count: c.number("count", members+1)},
	})
}

func (s *script) complete(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	return s.CompleteMove(ctx, store.FenceOf(a), store.RelocationID{byte(c.number("move", 1))})
}

func (s *script) reassert(ctx context.Context, c *command, a *store.Authority) (store.Change, error) {
	r := store.Reassert{
		Op: s.op(c), Epoch: s.epoch(c), Owner: ownerOf(a), ID: a.ID, Kind: a.Kind, Type: a.Type, Wide: a.Wide, ObjectGen: a.ObjectGen,
		OwnerGen: a.OwnerGen, Version: a.Version, Mesh: a.Mesh, SpotID: a.SpotID, InUserSpot: a.InUserSpot, Shares: a.SpotVersion != 0,
	}
	if by := c.args["by"]; by != "" {
		r.Owner = s.process(by).Lease
	}
	return s.Reassert(ctx, r)
}

func (s *script) read(ctx context.Context, c *command) (string, error) {
	a, found, err := s.Read(ctx, c.id)
	if err != nil || !found {
		return "none", err
	}
	s.answered = a
	return s.names.Record(&a), nil
}

func (s *script) readFirst(ctx context.Context, c *command) (string, error) {
	a, err := s.row(ctx, c)
	if err != nil {
		return "", err
	}
	f, found, err := s.ReadFirst(ctx, c.id, a.ObjectGen)
	if !found {
		return "none", err
	}
	return fmt.Sprintf("%q from %d", f.Message, f.Cursor), err
}

func (s *script) readChunk(ctx context.Context, c *command) (string, error) {
	chunk := []byte(c.args["chunk"])
	got, found, err := s.ReadInventory(ctx, c.id, sha256.Sum256(chunk))
	if !found {
		return "none", err
	}
	return fmt.Sprint("is as it was put: ", bytes.Equal(got, chunk)), err
}

func (s *script) terminal(ctx context.Context, c *command) (string, error) {
	t, found, err := s.ReadTerminal(ctx, s.key(s.op(c)))
	if !found {
		return "none", err
	}
	return fmt.Sprintf("%v %s %s %q kind %d", t.Result, t.ID, s.names.Object(t.ObjectGen), t.Reply, t.FailKind), err
}

func (s *script) members(ctx context.Context, c *command) (string, error) {
	ids, err := s.Members(ctx, c.id, "", store.PageMax)
	return fmt.Sprint(ids), err
}

func sorted(ids []string) []string {
	slices.Sort(ids)
	return ids
}
