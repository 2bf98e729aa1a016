package zlnode_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
)

var (
	meshKeyB = []byte("the key of another mesh")
	oldKey   = []byte("a key that is going out")
	newKey   = []byte("a key that is coming in")
)

// meshB says what a node is in mesh "b", besides "a", its main one.
func meshB(role zlnode.Role, listen string) []zlnode.Mesh {
	return []zlnode.Mesh{{Name: "b", Keys: [][]byte{meshKeyB}, Role: role, Listen: listen}}
}

// twoMeshes is a gateway that is client in the meshes "a" and "b", and a server of each: that of
// "a" is client in "b", and the other way round.
func twoMeshes(w *world) (s *stage, inA, inB *zlnode.Node) {
	s = newStage(w)
	app := func() *zlnode.App {
		app := s.app()
		t := zlnode.DefineInstanceSpot(app, "oracle", func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.DisableRelocation)
		zlnode.OnSpotRequest(t, "where", func(c *zlnode.SpotCall, _ *struct{}, _ struct{}) (string, error) { return c.Node().RID(), nil })
		zlnode.OnChannelRequest(zlnode.DefineChannel(app, "match", zlnode.HandlerOptions{}), "where",
			func(c *zlnode.NodeCall, _ struct{}) (string, error) { return c.Node().RID(), nil })
		return app
	}
	inA = w.start(zlnode.Config{RID: "in-a", Mesh: "a", Role: zlnode.RoleServer, Meshes: meshB(zlnode.RoleClient, "127.0.0.1:0")}, app())
	inB = w.start(zlnode.Config{
		RID: "in-b", Mesh: "a", Role: zlnode.RoleClient, Meshes: meshB(zlnode.RoleServer, "127.0.0.1:0"), Channels: []zlnode.Channel{{Name: "match", Mesh: "b"}},
	}, app())
	s.gateway = s.startWith(zlnode.Config{RID: "gateway", Mesh: "a", Role: zlnode.RoleClient, Meshes: meshB(zlnode.RoleClient, "")}, func(*zlnode.Config) {})
	for n, servers := range map[*zlnode.Node]int{s.gateway: 2, inA: 1, inB: 1} {
		w.linked(n, servers)
	}
	return s, inA, inB
}

func TestANodeIsPartOfTwoMeshes(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s, inA, inB := twoMeshes(w)
		t.Run("creations name a mesh", func(t *testing.T) { creationsNameAMesh(t, s) })
		refs := map[string]zlnode.ActorRef{}
		for _, mesh := range []string{"a", "b"} {
			r, err := s.gateway.CreateActor(s.ctx, zlnode.CreateActor{ID: "of-" + mesh, Type: "avatar", Mesh: mesh})
			if err != nil {
				t.Fatal(err)
			}
			if refs[mesh] = r.Ref; r.Ref.Mesh != mesh || r.Ref.RID != "in-"+mesh {
				t.Fatalf("for mesh %s it was placed at %+v", mesh, r.Ref)
			}
		}
		t.Run("each is reached", func(t *testing.T) { eachMeshIsReached(t, s, inA, inB) })
		t.Run("a channel is waited for in its mesh", func(t *testing.T) { channelOfAMesh(t, s) })
		t.Run("a session is bound in both", func(t *testing.T) { boundInBothMeshes(t, s, refs) })
		t.Run("a key opens one mesh", func(t *testing.T) { aKeyOpensOneMesh(t, s, inA) })
		t.Run("peers", func(t *testing.T) { peersOfTwoMeshes(t, s, inA, inB) })
		t.Run("who is in one", func(t *testing.T) { inOneMeshOnly(t, s, refs) })
	})
}

func creationsNameAMesh(t *testing.T, s *stage) {
	for mesh, kind := range map[string]zlnode.Kind{"": zlnode.InvalidOperation, "c": zlnode.NotFound} {
		_, err := s.gateway.CreateActor(s.ctx, zlnode.CreateActor{ID: "x", Type: "avatar", Mesh: mesh})
		wantKind(t, err, kind)
		if mesh == "" && !(strings.Contains(err.Error(), `"a"`) && strings.Contains(err.Error(), `"b"`)) {
			t.Errorf("it does not name the meshes: %v", err)
		}
		_, err = s.gateway.GetOrCreateSpot(s.ctx, zlnode.CreateSpot{ID: "x", Type: "room", Mesh: mesh})
		wantKind(t, err, kind)
		_, err = zlnode.Request[string](s.ctx, s.gateway.Instance("x", "oracle").InMesh(mesh), "where", struct{}{})
		wantKind(t, err, kind)
	}
	for _, mesh := range []string{"a", "b"} {
		at, err := zlnode.Request[string](s.ctx, s.gateway.Instance("oracle-"+mesh, "oracle").InMesh(mesh), "where", struct{}{})
		if err != nil || at != "in-"+mesh {
			t.Errorf("an instance spot of mesh %s is at %q: %v", mesh, at, err)
		}
		// It is there, so nothing has to be chosen.
		if again, err := zlnode.Request[string](s.ctx, s.gateway.Instance("oracle-"+mesh, "oracle"), "where", struct{}{}); err != nil || again != at {
			t.Errorf("it is at %q: %v", again, err)
		}
	}
}

func eachMeshIsReached(t *testing.T, s *stage, inA, inB *zlnode.Node) {
	for _, n := range []*zlnode.Node{s.gateway, inA, inB} {
		for _, id := range []string{"of-a", "of-b"} {
			if _, err := zlnode.Request[int](s.ctx, n.Actor(id), "bound", struct{}{}); err != nil {
				t.Errorf("%s at %s: %v", id, n.RID(), err)
			}
			if ref, found, err := n.FindActor(s.ctx, id); !found || err != nil || "of-"+ref.Mesh != id {
				t.Errorf("%s at %s: %v %v", id, n.RID(), ref, err)
			}
		}
	}
}

func channelOfAMesh(t *testing.T, s *stage) {
	match := s.gateway.Channel("match")
	if err := match.InMesh("b").WaitServers(s.ctx, 1); err != nil {
		t.Fatal(err)
	}
	if at, err := zlnode.Request[string](s.ctx, match.InMesh("b"), "where", struct{}{}); err != nil || at != "in-b" {
		t.Errorf("it is served at %q: %v", at, err)
	}
	over, cancel := context.WithCancel(s.ctx)
	cancel()
	err := s.gateway.WaitChannel(over, "match", 1)
	if wantKind(t, err, zlnode.DeadlineExceeded); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("in the main mesh, where nobody serves it: %v", err)
	}
	wantKind(t, match.InMesh("c").WaitServers(s.ctx, 1), zlnode.NotFound)
	wantKind(t, s.gateway.Peer("in-b").WaitServers(s.ctx, 1), zlnode.InvalidOperation)
}

func boundInBothMeshes(t *testing.T, s *stage, refs map[string]zlnode.ActorRef) {
	p := s.dial(t)
	for mesh, ref := range refs {
		if err := p.bind(ref); err != nil {
			t.Fatal(err)
		}
		if n, err := p.ask("tick", 1); err != nil || n != 1 { // by the last one that was bound
			t.Fatal(n, err)
		}
		pushed[int](p, "tick")
		if n, err := s.ask("of-"+mesh, "tick", 1); err != nil || n != 2 {
			t.Fatal(n, err)
		}
		pushed[int](p, "tick")
	}
	for mesh := range refs { // the one that was bound first still is
		if n, err := s.ask("of-"+mesh, "bound", nil); err != nil || n != 1 {
			t.Errorf("of %s: %d %v", mesh, n, err)
		}
	}
}

// Who holds the key of one mesh reaches no Actor of another one that lives at the same node.
func aKeyOpensOneMesh(t *testing.T, s *stage, inA *zlnode.Node) {
	conn, err := net.Dial("tcp", inA.EndpointIn("b"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, conn)
	if reason := p.handshake(linkConfig(t, func(c *link.Config) { c.Mesh, c.Keys = "b", [][]byte{meshKeyB} }), inA.RID()); reason != 0 {
		t.Fatalf("refused: %v", reason)
	}
	ref, _, err := inA.FindActor(s.ctx, "of-a")
	if err != nil {
		t.Fatal(err)
	}
	sent := wire.Ref{ID: []byte(ref.ID), ObjGen: ref.ObjectGen, Mesh: []byte(ref.Mesh), RID: []byte(ref.RID), Lifecycle: ref.Lifecycle, OwnerGen: ref.OwnerGen}
	note := &wire.ActorMessage{ID: []byte("of-a"), Op: 1, Name: []byte("note"), Codec: 1, Payload: []byte("666")}
	ask := *note
	ask.Correlation, ask.DeadlineMS = 1, 10_000
	join := &wire.JoinAdmit{Correlation: 4, Ref: sent, StoreVersion: 1, SpotID: []byte("room"), Attempt: 1, DeadlineMS: 10_000}
	join.Relocation[0], join.Op[0] = 1, 1
	p.send(note, &ask, &wire.Bind{Correlation: 2, Ref: sent, Session: 1, BindingGen: 1}, &wire.ActorDestroy{Correlation: 3, Ref: sent, Op: [16]byte{1}}, join,
		&wire.InstanceMessage{Correlation: 5, Asks: true, ID: []byte("new"), Type: []byte("oracle"), Op: 1, DeadlineMS: 10_000, Name: []byte("where"), Codec: 1, Payload: []byte("{}")})
	refused := map[uint64]bool{}
	for len(refused) < 5 {
		switch r := p.read().(type) {
		case *wire.ErrorReply:
			refused[r.Correlation] = true
		case *wire.RouteStale, *wire.Credit, *wire.Probe:
		default:
			t.Fatalf("it answered %+v", r)
		}
	}
	if notes := s.journal.of("note"); len(notes) != 0 {
		t.Errorf("executed %v", notes)
	}
	if _, found, err := inA.FindActor(s.ctx, "of-a"); !found || err != nil {
		t.Errorf("the actor is gone: %v", err)
	}
}

// peerOf returns what the node tells of a peer.
func peerOf(n *zlnode.Node, mesh, rid string) (p zlnode.PeerStatus) {
	for _, p := range n.Peers() {
		if p.Mesh == mesh && p.RID == rid {
			return p
		}
	}
	return p
}

func peersOfTwoMeshes(t *testing.T, s *stage, inA, inB *zlnode.Node) {
	for _, c := range []struct {
		at        *zlnode.Node
		mesh, rid string
		state     zlnode.PeerState
	}{
		{s.gateway, "a", "in-a", zlnode.PeerReady},
		{s.gateway, "a", "in-b", zlnode.PeerNotRequired}, // two object clients
		{s.gateway, "b", "in-a", zlnode.PeerNotRequired},
		{s.gateway, "b", "in-b", zlnode.PeerReady},
		{inA, "a", "in-b", zlnode.PeerReady},
		{inA, "b", "in-b", zlnode.PeerReady},
		{inB, "a", "in-a", zlnode.PeerReady},
		{inB, "b", "in-a", zlnode.PeerReady},
	} {
		p := peerOf(c.at, c.mesh, c.rid)
		if p.State != c.state || p.Manual || p.Attempts != 0 || p.Lifecycle == 0 || p.Since.IsZero() {
			t.Errorf("at %s, %s of mesh %s: %+v", c.at.RID(), c.rid, c.mesh, p)
		}
		if c.rid == "in-b" && p.Endpoint != inB.EndpointIn(c.mesh) {
			t.Errorf("at %s, %s of mesh %s is dialled at %q", c.at.RID(), c.rid, c.mesh, p.Endpoint)
		}
	}
	// A link in each mesh that two nodes share.
	s.eventually("one link of in-a to the gateway and two to in-b", func() bool { return inA.Stats().Peers == 3 })
	if n := s.gateway.Stats().Peers; n != 2 {
		t.Errorf("%d links at the gateway", n)
	}
}

// A node that is in one mesh needs no name for it, finds what is in the other, and does not
// reach it.
func inOneMeshOnly(t *testing.T, s *stage, refs map[string]zlnode.ActorRef) {
	n := s.start(zlnode.Config{RID: "only-a", Mesh: "a", Role: zlnode.RoleClient}, s.app())
	s.linked(n, 1)
	if r, err := n.CreateActor(s.ctx, zlnode.CreateActor{ID: "x", Type: "avatar"}); err != nil || r.Ref.Mesh != "a" {
		t.Errorf("%+v %v", r, err)
	}
	if ref, found, err := n.FindActor(s.ctx, "of-b"); !found || err != nil || ref != refs["b"] {
		t.Errorf("%+v %v", ref, err)
	}
	for range 2 { // by the Store, and by the route that was kept
		_, err := zlnode.Request[int](s.ctx, n.Actor("of-b"), "bound", struct{}{})
		wantKind(t, err, zlnode.NotConfigured)
	}
	wantKind(t, zlnode.Send(s.ctx, n.Actor("of-b"), "note", 1), zlnode.NotConfigured)
	_, err := n.DestroyActor(s.ctx, refs["b"])
	wantKind(t, err, zlnode.NotConfigured)
	_, err = zlnode.Request[string](s.ctx, n.Instance("oracle-b", "oracle"), "where", struct{}{})
	wantKind(t, err, zlnode.NotConfigured)
}

// silent takes connections and says nothing, until the other end closes them.
func silent(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		work.Wait()
	})
	return ln.Addr().String()
}

// One peer refuses, one is half-open, one is nowhere: each is shown so, and the one that is
// ready is used. It is in the Store's list and in the configuration, and has one link.
// req: FO-07
func TestPeersThatFailAreShownAndLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		b := w.server("b", counterApp())
		refuses := w.alone(zlnode.Config{RID: "refuses", MeshKey: []byte("of quite another mesh"), Listen: "127.0.0.1:0"})
		halfOpen := silent(t)
		a := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleClient, Peers: []zlnode.Peer{
			{Endpoint: b.Endpoint()}, {Endpoint: refuses.Endpoint()}, {Endpoint: halfOpen}, {RID: "nowhere", Endpoint: "127.0.0.1:1"},
		}}, counterApp())
		w.linked(a, 1)
		at := func(endpoint string) (p zlnode.PeerStatus) {
			for _, p := range a.Peers() {
				if p.Endpoint == endpoint {
					return p
				}
			}
			return p
		}
		w.eventually("the refusal", func() bool { return at(refuses.Endpoint()).State == zlnode.PeerReconnecting })
		w.eventually("the vain dial", func() bool { return at("127.0.0.1:1").State == zlnode.PeerReconnecting })
		for endpoint, why := range map[string]string{refuses.Endpoint(): "Rejected: badKey", "127.0.0.1:1": "Unavailable: "} {
			if p := at(endpoint); !strings.HasPrefix(p.LastFailure, why) || !p.Manual || p.Attempts == 0 {
				t.Errorf("want %s: %+v", why, p)
			}
		}
		if p := at(halfOpen); p.Attempts == 0 || !p.Manual || p.State != zlnode.PeerConnecting && (p.State != zlnode.PeerReconnecting || p.LastFailure == "") {
			t.Errorf("a peer that says nothing: %+v", p)
		}
		// The one that the list has may be dialled before it is known that it is the one without a name.
		w.eventually("each peer is shown once", func() bool { return len(a.Peers()) == 4 })
		if p := peerOf(a, "main", "b"); p.State != zlnode.PeerReady || !p.Manual || p.Endpoint != b.Endpoint() || p.Lifecycle != b.Lifecycle() {
			t.Errorf("the peer that is there: %+v", p)
		}
		if s := a.Stats(); s.Peers != 1 || s.ManualPeers != 4 {
			t.Errorf("%d links, %d peers of the configuration", s.Peers, s.ManualPeers)
		}
		if _, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"}); err != nil {
			t.Fatal(err)
		}
		if total, err := zlnode.Request[int](w.ctx, a.Actor("x"), "add", 2); err != nil || total != 2 {
			t.Error(total, err)
		}
		if err := a.Err(); err != nil {
			t.Errorf("the node is in error: %v", err)
		}
	})
}

// alone starts a node without Store.
func (w *world) alone(c zlnode.Config) *zlnode.Node {
	w.t.Helper()
	c.Logger = zerolog.New(zerolog.NewTestWriter(w.t)).Level(zerolog.WarnLevel)
	n, err := zlnode.Start(w.ctx, c, zlnode.NewApp())
	if err != nil {
		w.t.Fatalf("start %s: %v", c.RID, err)
	}
	w.t.Cleanup(func() { w.stop(n) })
	return n
}

// Nodes without a Store live on the peers of their configuration. A new link repeats the whole
// handshake and the check of who is there, at the place that the configuration names; while the
// mesh changes its key, too.
// req: FO-08
func TestNodesWithoutAStoreLinkByConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	newB := func(rid, listen string) *zlnode.Node {
		return w.alone(zlnode.Config{RID: rid, MeshKeys: [][]byte{newKey, oldKey}, Listen: listen})
	}
	first := newB("b", "127.0.0.1:0")
	_, port, err := net.SplitHostPort(silent(t)) // is free at every other address
	if err != nil {
		t.Fatal(err)
	}
	self := net.JoinHostPort("127.0.0.2", port)
	endpoint := first.Endpoint()
	a := w.alone(zlnode.Config{RID: "a", MeshKeys: [][]byte{oldKey, newKey}, Listen: self, Peers: []zlnode.Peer{
		{RID: "b", Endpoint: endpoint}, {Endpoint: "[::ffff:127.0.0.1]" + strings.TrimPrefix(endpoint, "127.0.0.1")}, {Endpoint: self},
	}})
	ready := func(b *zlnode.Node) {
		t.Helper()
		w.eventually("the link", func() bool {
			p := peerOf(a, "main", "b")
			return p.State == zlnode.PeerReady && p.Manual && p.Lifecycle == b.Lifecycle() && p.Attempts == 0
		})
		w.eventually("its other end", func() bool { p := peerOf(b, "main", "a"); return p.State == zlnode.PeerReady && !p.Manual })
	}
	ready(first)
	w.eventually("the dial of itself", func() bool {
		p := peerOf(a, "main", "")
		return p.Endpoint == self && p.State == zlnode.PeerReconnecting && strings.Contains(p.LastFailure, "selfDial") && p.Attempts == 1
	})
	if n, peers := a.Stats().Peers, a.Peers(); n != 1 || len(peers) != 2 {
		t.Errorf("%d links and peers %+v, want one to b, which is named twice", n, peers)
	}

	w.stop(first)
	other := newB("other", endpoint)
	w.eventually("another node in its place", func() bool {
		p := peerOf(a, "main", "b")
		return p.State == zlnode.PeerReconnecting && strings.HasPrefix(p.LastFailure, "Rejected: wrongPeer")
	})
	w.eventually("a link to who is there", func() bool { return peerOf(a, "main", "other").State == zlnode.PeerReady })
	w.stop(other)
	again := newB("b", endpoint)
	ready(again)
	if again.Lifecycle() <= first.Lifecycle() {
		t.Error("it is no later process")
	}
}
