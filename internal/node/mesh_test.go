package node

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// meshNode is a bare node whose node list is what answer says; asked are the change
// numbers that it was asked from.
func meshNode(t *testing.T, answer func() (store.NodeList, error)) (n *Node, asked *[]uint64) {
	t.Helper()
	asked = &[]uint64{}
	n = storedNode(t, &scripted{list: func(since uint64) (store.NodeList, error) {
		*asked = append(*asked, since)
		return answer()
	}})
	return n, asked
}

// req: FO-18
func TestAfterAFailureTheWholeListIsRead(t *testing.T) {
	list, err := store.NodeList{Change: 7, Nodes: []store.Descriptor{{RID: "b"}}}, error(nil)
	n, asked := meshNode(t, func() (store.NodeList, error) { return list, err })
	n.cfg.StoreFailureGrace = 1 << 60
	n.discovery.refresh()
	list.Nodes = nil
	n.discovery.refresh() // unchanged
	err = errors.New("away")
	n.discovery.refresh()
	err, list.Nodes = nil, []store.Descriptor{{RID: "c"}}
	n.discovery.refresh()
	n.discovery.refresh()
	if want := []uint64{0, 7, 7, 0, 7}; !slices.Equal(*asked, want) {
		t.Errorf("asked from %v, want %v", *asked, want)
	}
}

func TestTheWholeListIsReadNowAndThen(t *testing.T) {
	list := store.NodeList{Change: 7, Nodes: []store.Descriptor{{RID: "b"}}}
	n, asked := meshNode(t, func() (store.NodeList, error) { return list, nil })
	n.discovery.refresh()
	list.Nodes = nil
	for range fullListEvery + 1 {
		n.discovery.refresh()
	}
	if last := len(*asked) - 1; (*asked)[last] != 0 || slices.Contains((*asked)[1:last], 0) {
		t.Errorf("asked from %v", *asked)
	}
}

// A peer is out of the list for a while, as after a long outage, while a connection to
// it is being opened: no second one is.
// req: FO-18
func TestADialIsKnownUntilItsConnectionHasEnded(t *testing.T) {
	d := store.Descriptor{RID: "b", Lifecycle: 3, Mesh: "main", Role: store.RoleServer, Endpoint: "127.0.0.1:1", LeaseLeft: 1}
	list := store.NodeList{Change: 7, Nodes: []store.Descriptor{d}}
	n, _ := meshNode(t, func() (store.NodeList, error) { return list, errors.New("away") })
	n.home.link.Keys, n.home.cfg.Name = [][]byte{{1}}, "main"
	known := n.home.peers.known
	n.discovery.list.Store(&list)
	dialling := &peer{expect: "b", rid: "b", lifecycle: 3, busy: true}
	known["b"] = dialling

	n.discovery.refresh() // there is no grace
	n.discovery.connect(0)
	if len(n.discovery.nodes()) != 0 || known["b"] != dialling {
		t.Fatalf("past the grace: nodes %v, dials %v", n.discovery.nodes(), known)
	}
	n.discovery.list.Store(&list)
	n.discovery.connect(0)
	if known["b"] != dialling || dialling.attempts != 0 {
		t.Error("the peer is dialled a second time")
	}
	n.discovery.list.Store(&store.NodeList{})
	dialling.busy = false
	n.discovery.connect(0)
	if len(known) != 0 {
		t.Errorf("a peer that is gone is remembered: %v", known)
	}
}

// A new object is for the mesh that is named, or for the only one in which the node uses
// objects.
func TestTheMeshOfANewObject(t *testing.T) {
	none, client, server := Mesh{Name: "none"}, Mesh{Name: "c", Role: store.RoleClient}, Mesh{Name: "s", Role: store.RoleServer}
	for _, c := range []struct {
		meshes []Mesh
		name   string
		want   string // or why not
	}{
		{[]Mesh{none, client}, "", "c"},
		{[]Mesh{server, none}, "", "s"},
		{[]Mesh{none}, "", "NotConfigured"},
		{[]Mesh{client, server}, "", "InvalidOperation"},
		{[]Mesh{client, server}, "s", "s"},
		{[]Mesh{client, none}, "x", "NotFound"},
		{[]Mesh{client, none}, "none", "NotFound"},
	} {
		n := bareNode(t)
		n.meshes = nil
		for _, m := range c.meshes {
			n.meshes = append(n.meshes, newMesh(n, m))
		}
		m, err := n.chooseMesh(opCreate, "x", c.name)
		if err == nil && m.cfg.Name != c.want || err != nil && err.Kind.String() != c.want {
			t.Errorf("of %v, for %q: %v %v, want %s", c.meshes, c.name, m, err, c.want)
		}
	}
}

// A route of an object of a mesh that the node does not use leads nowhere, and says why.
func TestARouteLeadsThroughItsObjectsMesh(t *testing.T) {
	n := bareNode(t)
	other := newMesh(n, Mesh{Name: "other", Role: store.RoleClient})
	n.meshes = append(n.meshes, other, newMesh(n, Mesh{Name: "none"}))
	l := &linkConn{node: n, mesh: other, peer: link.Peer{RID: "b", Lifecycle: 3}}
	other.links.set("b", l)
	for mesh, want := range map[string]*linkConn{"": nil, "other": l, "none": nil, "unknown": nil} {
		r := n.routes.newRoute(&store.Authority{ID: "x", Mesh: mesh, RID: "b", LeaseGen: 3, LeaseLeft: 1 << 40}, 0)
		if got := r.link(); got != want {
			t.Errorf("mesh %q: %p", mesh, got)
		}
		if kind := r.noLink(opSend).Kind; (kind == errkind.Unavailable) != (mesh == "" || mesh == "other") || kind != errkind.Unavailable && kind != errkind.NotConfigured {
			t.Errorf("mesh %q: %v", mesh, kind)
		}
		if got, err := n.linkTo(mesh, "b", 3); got != want || (err == nil) != (want != nil) {
			t.Errorf("mesh %q: %p %v", mesh, got, err)
		}
	}
}

// What a node says of a route is heard of the one to which the route leads, in its mesh.
func TestARouteIsDroppedByWordOfItsEnd(t *testing.T) {
	n := bareNode(t)
	n.cfg.RouteCacheMaxAge = time.Hour
	other := newMesh(n, Mesh{Name: "other", Role: store.RoleClient})
	n.meshes = append(n.meshes, other)
	row := store.Authority{ID: "x", State: store.Ready, ObjectGen: 5, OwnerGen: 2, Version: 1, Mesh: "other", RID: "b", LeaseGen: 3, LeaseLeft: 1 << 40}
	moved := &wire.FollowNotice{Ref: wire.Ref{ID: []byte("x"), ObjGen: 5, OwnerGen: 3}}
	stale := &wire.RouteStale{ID: []byte("x"), OwnerGen: 2}
	for _, c := range []struct {
		mesh *mesh
		rid  string
		ends bool
	}{{other, "c", false}, {n.home, "b", false}, {other, "b", true}} {
		from := &linkConn{node: n, mesh: c.mesh, peer: link.Peer{RID: c.rid, Lifecycle: 3}}
		for what, say := range map[string]func(){"moved": func() { n.routes.moved(moved, from) }, "stale": func() { n.routes.stale(stale, from) }} {
			n.routes.learn(&row, clock.Now())
			if say(); (n.routes.known.Len() == 0) != c.ends {
				t.Errorf("%s, by %s of mesh %q: %d routes are known", what, c.rid, c.mesh.cfg.Name, n.routes.known.Len())
			}
		}
	}
}

// An answer that came by one mesh ends no request of another, nor one of the node's own.
func TestAnAnswerStaysInItsMesh(t *testing.T) {
	n := bareNode(t)
	other := newMesh(n, Mesh{Name: "other", Role: store.RoleClient})
	n.meshes = append(n.meshes, other)
	peer := link.Peer{RID: "b", Lifecycle: 3}
	tables := map[*mesh]*pendingTable{n.home: newPendingTable(), other: newPendingTable()}
	for m, table := range tables {
		m.links.set("b", &linkConn{node: n, mesh: m, peer: peer, pending: table})
	}
	ended := 0
	add := func(table *pendingTable) uint64 {
		corr, err := table.add(completeFunc(func(result) { ended++ }), clock.Never)
		if err != nil {
			t.Fatal(err)
		}
		return corr
	}
	home, own := add(tables[n.home]), add(n.local)
	n.completeAway(other, process{"b", 3}, home, result{})
	n.completeAway(other, process{}, own, result{})
	n.completeAway(other, process{"c", 1}, home, result{})
	if late := n.counters.lateReplies.Load(); ended != 0 || late != 3 {
		t.Errorf("%d requests ended, %d answers came too late", ended, late)
	}
	n.completeAway(n.home, process{"b", 3}, home, result{})
	n.completeAway(n.home, process{}, own, result{})
	if ended != 2 {
		t.Errorf("%d requests ended", ended)
	}
}
