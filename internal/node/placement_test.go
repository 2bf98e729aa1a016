package node

import (
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/balance"
	"github.com/zlnode/zlnode/store"
)

// req: CR-03
func TestOnlyFittingNodesMayHost(t *testing.T) {
	fit := store.Descriptor{
		RID: "b", Mesh: "main", Role: store.RoleServer, State: store.Serving, Weight: 1,
		ActorTypes: []string{"npc", "player"}, SpotTypes: []store.SpotType{{Type: "room", Kind: store.UserSpot}}, LeaseLeft: time.Second,
	}
	if !mayHost(&fit, "main", typeKey{store.Actor, "player"}) {
		t.Fatal("a fitting node is refused")
	}
	for name, change := range map[string]func(*store.Descriptor){
		"other mesh":    func(d *store.Descriptor) { d.Mesh = "other" },
		"object client": func(d *store.Descriptor) { d.Role = store.RoleClient },
		"draining":      func(d *store.Descriptor) { d.State = store.Draining },
		"weight zero":   func(d *store.Descriptor) { d.Weight = 0 },
		"lease expired": func(d *store.Descriptor) { d.LeaseLeft = 0 },
		"other type":    func(d *store.Descriptor) { d.ActorTypes = []string{"npc"} },
	} {
		d := fit
		change(&d)
		if mayHost(&d, "main", typeKey{store.Actor, "player"}) {
			t.Errorf("%s: may host", name)
		}
	}
	for typ, want := range map[typeKey]bool{
		{store.UserSpot, "room"}: true, {store.InstanceSpot, "room"}: false, {store.Actor, "room"}: false, {store.UserSpot, "player"}: false,
	} {
		if got := mayHost(&fit, "main", typ); got != want {
			t.Errorf("may host %v %q: %v", typ.kind, typ.name, got)
		}
	}
	full := fit
	full.MaxActors, full.Actors = 3, 3
	full.MaxSpots, full.Spots = 4, 3
	for kind, want := range map[store.Kind]bool{store.Actor: false, store.UserSpot: true, store.InstanceSpot: true} {
		if hasRoom(&full, kind) != want {
			t.Errorf("a node full of actors has room for a %v: %v", kind, !want)
		}
	}
	full.Actors, full.Spots = 2, 4
	for kind, want := range map[store.Kind]bool{store.Actor: true, store.UserSpot: false, store.InstanceSpot: false} {
		if hasRoom(&full, kind) != want {
			t.Errorf("a node full of spots has room for a %v: %v", kind, !want)
		}
	}
}

// What the list says of the room may be old: nobody is turned away for that. A node that has room by
// it goes before.
func TestANodeThatMayBeFullIsAskedIfNoneHasRoom(t *testing.T) {
	n := storedNode(t, &scripted{})
	n.choosers.by = map[chooserKey]*balance.Chooser{}
	d := store.Descriptor{
		RID: n.cfg.RID, Mesh: n.home.cfg.Name, Role: store.RoleServer, State: store.Serving, Weight: 1, LeaseLeft: time.Minute,
		ActorTypes: []string{"thing"}, MaxActors: 1, Actors: 1,
	}
	n.discovery.list.Store(&store.NodeList{Nodes: []store.Descriptor{d}})
	typ := typeKey{store.Actor, "thing"}
	if got, err := n.chooseTarget(d.Mesh, typ, nil, ""); err != nil || got.RID != d.RID {
		t.Errorf("chosen is %q: %v", got.RID, err)
	}
	if got, err := n.chooseTarget(d.Mesh, typ, map[string]bool{d.RID: true}, ""); err == nil {
		t.Errorf("%q was chosen, which the Store has said is full", got.RID)
	}
}
