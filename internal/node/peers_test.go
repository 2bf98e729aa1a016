package node

import (
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// meshed is a bare node "a" in the mesh "m", whose peers a test looks at.
type meshed struct {
	*testing.T
	m     *mesh
	nodes []store.Descriptor
	now   clock.Mono
}

func newMeshed(t *testing.T, role store.Role, manual ...Peer) *meshed {
	n := bareNode(t)
	n.home = newMesh(n, Mesh{Name: "m", Role: role, Peers: manual})
	n.meshes, n.home.link.Keys = []*mesh{n.home}, [][]byte{{1}}
	return &meshed{t, n.home, nil, clock.Now()}
}

// lists has the list contain a serving object server.
func (w *meshed) lists(rid string, change func(*store.Descriptor)) {
	d := store.Descriptor{RID: rid, Lifecycle: 3, Mesh: "m", Role: store.RoleServer, Endpoint: "at-" + rid, State: store.Serving, LeaseLeft: 1}
	if change != nil {
		change(&d)
	}
	w.nodes = append(w.nodes, d)
}

// dials returns where is dialled now.
func (w *meshed) dials() (at []string) {
	due, _ := w.m.peers.due(w.nodes, w.now)
	for _, d := range due {
		at = append(at, d.endpoint)
	}
	return at
}

// wants fails the test unless exactly that is dialled now.
func (w *meshed) wants(what string, at ...string) {
	w.Helper()
	if got := strings.Join(w.dials(), " "); got != strings.Join(at, " ") {
		w.Errorf("%s: it dials %q, want %q", what, got, at)
	}
}

func (w *meshed) later(d time.Duration) { w.now = w.now.Add(d) }

// open makes a link to the peer; dial is what opened it, nil for the other side.
func (w *meshed) open(rid string, lifecycle uint64, dial *peer) *linkConn {
	l := &linkConn{node: w.m.node, mesh: w.m, dial: dial, opened: w.now, peer: link.Peer{RID: rid, Lifecycle: lifecycle}}
	w.m.links.mu.Lock()
	w.m.links.set(rid, l)
	w.m.links.mu.Unlock()
	w.m.peers.linked(l)
	return l
}

func (w *meshed) close(l *linkConn) {
	w.m.links.mu.Lock()
	w.m.links.set(l.peer.RID, nil)
	w.m.links.mu.Unlock()
	w.m.peers.unlinked(l, "Lost: it was cut")
}

// is fails the test unless that is what is told of the peer.
func (w *meshed) is(rid string, state PeerState, failure string) {
	w.Helper()
	for _, p := range w.m.node.Peers() {
		if p.RID == rid {
			if p.State != state || p.LastFailure != failure {
				w.Errorf("%+v, want %v and %q", p, state, failure)
			}
			return
		}
	}
	w.Errorf("nothing is told of %q", rid)
}

// req: FO-07, FO-08
func TestAPeerIsDialledUntilItIsLinkedAndWhenItIsNoMore(t *testing.T) {
	w := newMeshed(t, store.RoleClient)
	w.lists("b", nil)
	w.untold("b") // nothing is known of it before the list is read
	w.wants("first", "at-b")
	w.is("b", PeerConnecting, "")
	b := w.m.peers.known["b"]
	w.wants("while it is being dialled")
	w.m.peers.ended(b, 0, "Unavailable: nobody is there")
	w.is("b", PeerReconnecting, "Unavailable: nobody is there")
	w.wants("at once")
	w.later(dialBackoffMin)
	w.wants("behind the pause", "at-b")
	l := w.open("b", 3, b)
	w.is("b", PeerReady, "Unavailable: nobody is there")
	w.nodes[0].State = store.Draining
	w.later(time.Hour)
	w.wants("while it is linked")
	w.is("b", PeerAdmitted, "Unavailable: nobody is there")
	w.close(l)
	w.is("b", PeerReconnecting, "Lost: it was cut")
	w.nodes[0].Endpoint = "elsewhere"
	w.wants("when the link is lost, by the present descriptor", "elsewhere")
	w.nodes[0].Lifecycle = 4
	w.wants("another process of it, at once", "elsewhere")
	w.m.peers.ended(b, 0, "the old one") // which is none of the new one's business
	w.is("b", PeerReconnecting, "Lost: it was cut")
	w.nodes = nil
	w.m.peers.ended(w.m.peers.known["b"], 0, "gone")
	w.wants("when it is out of the list")
	if len(w.m.node.Peers()) != 0 {
		t.Errorf("it is remembered: %+v", w.m.node.Peers())
	}
}

// untold fails the test if anything is told of the peer.
func (w *meshed) untold(rid string) {
	w.Helper()
	for _, p := range w.m.node.Peers() {
		if p.RID == rid {
			w.Errorf("%+v is told", p)
		}
	}
}

// Who needs nobody, and whom nobody needs.
func TestNodesThatNeedNoLinkAreNotDialled(t *testing.T) {
	for _, c := range []struct {
		own, other store.Role
		state      PeerState
	}{
		{store.RoleServer, store.RoleServer, PeerConnecting},
		{store.RoleServer, store.RoleClient, PeerConnecting},
		{store.RoleClient, store.RoleServer, PeerConnecting},
		{store.RoleClient, store.RoleClient, PeerNotRequired},
		{store.RoleServer, store.RoleNone, PeerNotRequired},
		{store.RoleNone, store.RoleServer, PeerNotRequired},
		{store.RoleNone, store.RoleNone, PeerNotRequired},
	} {
		w := newMeshed(t, c.own)
		w.lists("b", func(d *store.Descriptor) { d.Role = c.other })
		w.lists("elsewhere", func(d *store.Descriptor) { d.Mesh = "n" })
		w.lists("a", nil) // itself
		w.dials()
		w.is("b", c.state, "")
		w.untold("elsewhere")
		w.untold("a")
		if c.state == PeerNotRequired { // what is there is kept
			if _, err := w.m.peerLink("b"); err == nil || err.Kind != errkind.Unavailable || !strings.Contains(err.Text, "Peers") {
				t.Errorf("a message to it ends %v, which does not say what to do", err)
			}
			w.open("b", 3, nil)
			w.is("b", PeerReady, "")
		}
	}
}

// A node is in a mesh besides its main one by an entry of its own.
func TestANodeIsDialledInEachMeshByItsOwnEntry(t *testing.T) {
	w := newMeshed(t, store.RoleServer)
	w.lists("b", func(d *store.Descriptor) {
		d.Mesh, d.Meshes = "n", []store.MeshEntry{{Name: "m", Endpoint: "in-m", Role: store.RoleClient}}
	})
	w.wants("in the mesh", "in-m")
}

// Of a pair that has ports the smaller RID dials; a node without a port dials whoever has one.
func TestWhoDials(t *testing.T) {
	w := newMeshed(t, store.RoleServer, Peer{RID: "B", Endpoint: "at-B"})
	w.m.endpoint = "at-a"
	w.lists("Z", nil)                                                // smaller than "a"
	w.lists("b", nil)                                                // larger
	w.lists("c", func(d *store.Descriptor) { d.Endpoint = "" })      // which dials itself
	w.lists("d", func(d *store.Descriptor) { d.LeaseLeft = 0 })      // whose lease is over
	w.nodes = append(w.nodes, store.Descriptor{RID: "e", Mesh: "n"}) // of another mesh
	got := map[string]bool{}
	for _, at := range w.dials() {
		got[at] = true
	}
	if len(got) != 2 || !got["at-b"] || !got["at-B"] { // the last one by the configuration
		t.Errorf("it dials %v", got)
	}
	w.is("Z", PeerConfigured, "")
	w.m.endpoint = ""
	w.wants("without a port", "at-Z")
}

// One that is named, and listed, too, is one peer, at the place that the configuration names.
func TestANamedPeerIsTheListedOne(t *testing.T) {
	w := newMeshed(t, store.RoleClient, Peer{RID: "b", Endpoint: "by hand"})
	w.is("b", PeerConfigured, "")
	w.lists("b", nil)
	w.wants("both", "by hand")
	w.nodes = nil
	w.wants("out of the list, while it is being dialled")
	w.lists("b", nil)
	w.wants("in the list again")
	w.nodes = nil
	w.m.peers.ended(w.m.peers.known["b"], 0, "x")
	w.later(dialBackoffMin)
	w.wants("the named one alone", "by hand")
	if all := w.m.node.Peers(); len(all) != 1 || !all[0].Manual {
		t.Errorf("%+v", all)
	}
}

// One that is named by its endpoint alone gives way to any other connection to the same node,
// and is dialled again when that has ended.
func TestAnUnnamedPeerGivesWay(t *testing.T) {
	w := newMeshed(t, store.RoleClient, Peer{Endpoint: "somewhere"}, Peer{Endpoint: "elsewhere"})
	some, other := w.m.peers.unnamed[0], w.m.peers.unnamed[1]
	is := link.Peer{RID: "b", Lifecycle: 3}
	w.wants("both, as nothing is known", "somewhere", "elsewhere")
	if !w.m.peers.greeted(some, is) {
		t.Error("the first one does not go on")
	}
	w.lists("b", nil)
	w.wants("the listed one, which is being dialled")
	if w.m.peers.greeted(other, is) {
		t.Error("the second one goes on while the first does")
	}
	w.m.peers.ended(other, wire.RejectDuplicate, "")
	l := w.open("b", 3, some)
	w.is("b", PeerReady, "")
	if all := w.m.node.Peers(); len(all) != 1 || !all[0].Manual || all[0].Attempts != 0 {
		t.Errorf("%+v", all)
	}
	w.later(time.Hour)
	w.wants("while the node is linked")
	if w.m.peers.greeted(other, is) || !w.m.peers.greeted(other, link.Peer{RID: "b", Lifecycle: 4}) {
		t.Error("another connection goes on to a process that is linked, or not to a later one")
	}
	w.nodes[0].Lifecycle = 4
	w.wants("a later process, whatever the former's link does", "at-b")
	w.m.peers.ended(w.m.peers.known["b"], 0, "x")
	w.nodes[0].Lifecycle = 3
	w.close(l)
	w.later(time.Hour)
	if due := w.dials(); len(due) != 1 {
		t.Errorf("behind the end it dials %q, want one of the three ways", due)
	}
}

// If the endpoint fails, nobody knows who is there any more: so the listed node is dialled
// where it says that it is.
func TestAnUnnamedPeerThatFailsHidesNobody(t *testing.T) {
	w := newMeshed(t, store.RoleClient, Peer{Endpoint: "somewhere"})
	q := w.m.peers.unnamed[0]
	w.wants("it", "somewhere")
	w.m.peers.greeted(q, link.Peer{RID: "b", Lifecycle: 3})
	w.m.peers.ended(q, wire.RejectBadKey, "Rejected: badKey")
	w.lists("b", nil)
	w.wants("the listed one", "at-b")
	w.is("", PeerReconnecting, "Rejected: badKey")
	w.is("b", PeerConnecting, "")
}

// A dial of oneself is told as a failure and seldom tried again.
func TestADialOfOneselfIsSlow(t *testing.T) {
	w := newMeshed(t, store.RoleNone, Peer{Endpoint: "here"})
	w.wants("it", "here")
	w.now = clock.Now()
	w.m.peers.ended(w.m.peers.unnamed[0], wire.RejectSelfDial, "Rejected: selfDial")
	w.is("", PeerReconnecting, "Rejected: selfDial")
	w.later(dialBackoffMax)
	w.wants("too early")
	w.later(dialBackoffSelf)
	w.wants("later", "here")
	named := newMeshed(t, store.RoleClient) // who is to be somebody else may be so soon
	named.lists("b", nil)
	named.wants("it", "at-b")
	named.m.peers.ended(named.m.peers.known["b"], wire.RejectSelfDial, "Rejected: selfDial")
	named.later(dialBackoffMin)
	named.wants("soon", "at-b")
}

// What a peer says of itself is bounded and text.
func TestAFailureIsBoundedText(t *testing.T) {
	w := newMeshed(t, store.RoleNone, Peer{Endpoint: "there"})
	w.wants("it", "there")
	w.m.peers.ended(w.m.peers.unnamed[0], 0, strings.Repeat("\xff\xfe", 10_000))
	if got := w.m.node.Peers()[0].LastFailure; len(got) > 300 || got[0] != '?' {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
}

// A duplicate that was refused is no failure if the pair has its link; else it is.
func TestARefusedDuplicateIsAFailureWithoutALink(t *testing.T) {
	w := newMeshed(t, store.RoleClient)
	w.lists("b", nil)
	w.wants("it", "at-b")
	l := w.open("b", 3, nil)
	w.m.peers.ended(w.m.peers.known["b"], wire.RejectDuplicate, "Rejected: duplicate")
	w.is("b", PeerReady, "")
	w.close(l)
	w.later(time.Hour)
	w.wants("again", "at-b")
	w.m.peers.ended(w.m.peers.known["b"], wire.RejectDuplicate, "Rejected: duplicate")
	w.is("b", PeerReconnecting, "Rejected: duplicate")
}

func TestPeerStatesHaveNames(t *testing.T) {
	if PeerNotRequired.String() != "NotRequired" || PeerConfigured.String() != "Configured" || PeerState(9).String() != "PeerState(9)" {
		t.Error(PeerNotRequired, PeerConfigured, PeerState(9))
	}
}
