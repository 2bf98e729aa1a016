package node

import (
	"errors"
	"slices"
	"testing"

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
	peer := store.Descriptor{RID: "b", Lifecycle: 3, Mesh: "main", Role: store.RoleServer, Endpoint: "127.0.0.1:1", LeaseLeft: 1}
	list := store.NodeList{Change: 7, Nodes: []store.Descriptor{peer}}
	n, _ := meshNode(t, func() (store.NodeList, error) { return list, errors.New("away") })
	n.home.link.Keys, n.home.cfg.Name = [][]byte{{1}}, "main"
	n.discovery.list.Store(&list)
	dialling := &dialState{lifecycle: 3}
	dialling.busy.Store(true)
	n.home.dial["b"] = dialling

	n.discovery.refresh() // there is no grace
	n.discovery.connect(0)
	if len(n.discovery.nodes()) != 0 || n.home.dial["b"] != dialling {
		t.Fatalf("past the grace: nodes %v, dials %v", n.discovery.nodes(), n.home.dial)
	}
	n.discovery.list.Store(&list)
	n.discovery.connect(0)
	if n.home.dial["b"] != dialling {
		t.Error("the peer is dialled a second time")
	}
	n.discovery.list.Store(&store.NodeList{})
	dialling.busy.Store(false)
	n.discovery.connect(0)
	if len(n.home.dial) != 0 {
		t.Errorf("a peer that is gone is remembered: %v", n.home.dial)
	}
}
