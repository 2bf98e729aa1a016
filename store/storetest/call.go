package storetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/zlnode/zlnode/store"
)

var callCases = []testCase{
	{"EndedContextChangesNothing", func(w *world) {
		p := w.server("node-a")
		ctx, cancel := context.WithCancel(w.ctx())
		cancel()
		_, err := w.s.Reserve(ctx, request("player-1", p))
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			w.t.Errorf("error is %v; want ErrUnavailable, for it was not sent, and context.Canceled", err)
		}
		w.wantMissing("player-1")
		w.wantActors(p.RID, 0)
	}},
	{"ClosedStoreIsUnavailable", func(w *world) {
		if err := w.s.Ping(w.ctx()); err != nil {
			w.t.Fatal(err)
		}
		if err := w.s.Close(); err != nil {
			w.t.Fatal(err)
		}
		if err := w.s.Close(); err != nil {
			w.t.Errorf("second Close: %v", err)
		}
		_, _, err := w.s.Read(w.ctx(), "player-1")
		if !errors.Is(err, store.ErrUnavailable) {
			w.t.Errorf("Read after Close: %v; want ErrUnavailable", err)
		}
		if err := w.s.Ping(w.ctx()); !errors.Is(err, store.ErrUnavailable) {
			w.t.Errorf("Ping after Close: %v; want ErrUnavailable", err)
		}
	}},
	{"ArgumentsBeyondALimitAreInvalid", func(w *world) {
		p := w.server("node-a")
		good := request("player-1", p)
		over := make([]byte, store.PayloadBytesMax+1)
		for name, edit := range map[string]func(*store.Reserve){
			"empty id":          func(r *store.Reserve) { r.ID = "" },
			"long id":           func(r *store.Reserve) { r.ID = strings.Repeat("x", store.IDBytesMax+1) },
			"id not UTF-8":      func(r *store.Reserve) { r.ID = "\xff" },
			"empty type":        func(r *store.Reserve) { r.Type = "" },
			"RID with a colon":  func(r *store.Reserve) { r.TargetRID = "a:b" },
			"long RID":          func(r *store.Reserve) { r.TargetRID = strings.Repeat("x", store.NameBytesMax+1) },
			"no lifecycle":      func(r *store.Reserve) { r.TargetLifecycle = 0 },
			"lifecycle of 2^63": func(r *store.Reserve) { r.TargetLifecycle = 1 << 63 },
			"no operation id":   func(r *store.Reserve) { r.Op.Op = store.OpID{} },
			"no source":         func(r *store.Reserve) { r.Op.SourceRID = "" },
			"large request":     func(r *store.Reserve) { r.Request = over },
			"no timeout":        func(r *store.Reserve) { r.Timeout = 0 },
			"long timeout":      func(r *store.Reserve) { r.Timeout = store.TimeoutMax + time.Millisecond },
		} {
			r := good
			edit(&r)
			if _, err := w.s.Reserve(w.ctx(), r); !errors.Is(err, store.ErrInvalid) {
				w.t.Errorf("%s: error is %v; want ErrInvalid", name, err)
			}
		}
		a := w.reserve(good, store.Applied)
		finish := store.Finish{Fence: fence(a), Op: good.Op, Result: store.Created}
		for name, edit := range map[string]func(*store.Finish){
			"no result":       func(f *store.Finish) { f.Result = 0 },
			"unknown result":  func(f *store.Finish) { f.Result = 4 },
			"large reply":     func(f *store.Finish) { f.Reply = over },
			"version of 2^63": func(f *store.Finish) { f.Version = 1 << 63 },
			"no generation":   func(f *store.Finish) { f.ObjectGen = 0 },
			"no owner":        func(f *store.Finish) { f.OwnerID = "" },
		} {
			f := finish
			edit(&f)
			if _, err := w.s.Finish(w.ctx(), f); !errors.Is(err, store.ErrInvalid) {
				w.t.Errorf("%s: error is %v; want ErrInvalid", name, err)
			}
		}
		w.wantInvalid(func() error { _, err := w.s.Delete(w.ctx(), fence(a), store.OpID{}); return err })
		w.wantInvalid(func() error { _, _, err := w.s.Read(w.ctx(), ""); return err })
		w.wantInvalid(func() error { _, _, err := w.s.ReadTerminal(w.ctx(), store.OperationKey{}); return err })
		for name, edit := range map[string]func(*store.Descriptor){
			"another RID":       func(d *store.Descriptor) { d.RID = "node-b" },
			"another lifecycle": func(d *store.Descriptor) { d.Lifecycle++ },
			"negative weight":   func(d *store.Descriptor) { d.Weight = -1 },
			"large weight":      func(d *store.Descriptor) { d.Weight = store.WeightMax + 1 },
			"negative limit":    func(d *store.Descriptor) { d.MaxActors = -1 },
			"bad type":          func(d *store.Descriptor) { d.ActorTypes = []string{""} },
			"large":             func(d *store.Descriptor) { d.ActorTypes = strings.Split(strings.Repeat("x,", 1<<19), ",")[:1<<18+1] },
		} {
			d := p.desc
			edit(&d)
			if _, err := w.s.PublishNode(w.ctx(), p.Lease, d); !errors.Is(err, store.ErrInvalid) {
				w.t.Errorf("descriptor, %s: error is %v; want ErrInvalid", name, err)
			}
		}
	}},
}
