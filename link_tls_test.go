package zlnode_test

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/certtest"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/wire"
)

// The authorities of all tests: of the nodes, of nodes in time to come, and of nobody here.
var ourRoot, nextRoot, strangeRoot = lazyRoot("ours"), lazyRoot("next"), lazyRoot("strange")

func lazyRoot(name string) func(t *testing.T) *certtest.Authority {
	var once sync.Once
	var root *certtest.Authority
	return func(t *testing.T) *certtest.Authority {
		t.Helper()
		once.Do(func() { root = certtest.New(t, name) })
		return root
	}
}

// inOneWorld runs f in a world whose Store makes no difference.
func inOneWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Parallel()
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	f(t, newWorld(t, e.URL()))
}

// certified is a node that proves itself by a certificate, and what it logs.
type certified struct {
	*zlnode.Node
	dir string // of its files
	log rawLog
}

// renew has other files in the place of the node's.
func (n *certified) renew(t *testing.T, p certtest.Pair, roots ...*certtest.Authority) zlnode.TLSFiles {
	t.Helper()
	pair, root := p.Write(t, n.dir, roots...)
	return zlnode.TLSFiles{CertFile: pair, KeyFile: pair, ClientCAFile: root}
}

// said reports whether the node has logged a line that has all of that.
func (n *certified) said(words ...string) bool {
	return slices.ContainsFunc(n.log.lines(), func(line string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
	})
}

// certified starts a node with that certificate; without one its links are not encrypted.
func (w *world) certified(c zlnode.Config, app *zlnode.App, p certtest.Pair, roots ...*certtest.Authority) *certified {
	w.t.Helper()
	n := &certified{dir: w.t.TempDir()}
	if p != nil {
		c.MeshTLS = n.renew(w.t, p, roots...)
	}
	n.Node = w.tuned(c, app, func(c *node.Config) { c.Logger = zerolog.New(&n.log).Level(zerolog.InfoLevel) })
	return n
}

// Everything that nodes do together they do over links by mutual TLS: a Session is bound to
// an Actor of another node, and the Actor moves in chunks.
func TestAnActorMovesOverLinksByTLS(t *testing.T) {
	inOneWorld(t, func(t *testing.T, w *world) {
		root := ourRoot(t)
		x := &crossing{world: w, walk: &walkWorld{}, release: func() {}}
		app := x.walk.preserving()
		small := zlnode.Config{RID: "a", Role: zlnode.RoleServer, RelocationChunkBytes: 2 << 10}
		x.a = w.certified(small, app, root.Issue(t, "a"), root).Node
		small.RID = "b.servers"
		x.b = w.certified(small, app, root.Issue(t, "*.servers"), root).Node
		x.c = w.certified(zlnode.Config{
			RID: "c", Role: zlnode.RoleClient, Listen: "127.0.0.1:0", Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player"}},
		}, app, root.Issue(t, "gateway", "c"), root).Node
		x.linked(x.c, 2)
		x.linked(x.a, 1)
		x.spot = x.createSpotAt(x.c, "b.servers", "wide")
		x.ref = x.createActorAt(x.c, "a", "walker")
		x.bound().playerReaches("first")
		x.asks(x.b, strings.Repeat("x", 64<<10))
		x.goes(walkTo{})
		x.arrives("b.servers", x.spot.ID)
		x.playerReaches("after")
		x.asks(x.a, "last")
	})
}

// Who dials a node must have a certificate, one that is valid, from a root that the node
// trusts, and for the RID that the hello has.
func TestACertificateMakesNoOtherNode(t *testing.T) {
	inOneWorld(t, func(t *testing.T, w *world) {
		root := ourRoot(t)
		n := w.certified(zlnode.Config{RID: "m", Role: zlnode.RoleServer}, counterApp(), root.Issue(t, "m"), root)
		dial := func(p certtest.Pair) (*peer, error) {
			cfg := &tls.Config{RootCAs: certtest.Pool(root), ServerName: "m"}
			if p != nil {
				own := p.TLS(t) // which is shown to whoever asks
				cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
			}
			conn, err := tls.Dial("tcp", n.Endpoint(), cfg)
			if err != nil {
				return nil, err
			}
			return newPeer(t, conn), nil
		}
		for _, c := range []struct {
			name string
			pair certtest.Pair
			says string
		}{
			{"none", nil, "certificate required"},
			{"another root's", strangeRoot(t).Issue(t, evil), "unknown certificate authority"},
			{"one that is expired", root.IssueExpired(t, evil), "expired certificate"},
			{"a server's", root.IssueServer(t, evil), "bad certificate"},
		} {
			p, err := dial(c.pair)
			if err != nil {
				t.Fatalf("%s: by TLS 1.3 who dials hears of it later: %v", c.name, err)
			}
			if record, err := p.next(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("with %s: %x, %v, want %s", c.name, record, err, c.says)
			}
		}
		w.eventually("the node says why, once a second", func() bool { return n.said("a connection is refused", "tls: ") })
		refused := n.Stats().LinksRefused
		p, err := dial(root.Issue(t, "y", "*."+evil))
		if err != nil {
			t.Fatal(err)
		}
		if reason := p.handshake(linkConfig(t, nil), "m"); reason != wire.RejectBadCertificate {
			t.Errorf("a certificate of another node: %v", reason)
		}
		p.end()
		w.eventually("it is counted", func() bool { return n.Stats().LinksRefused == refused+1 })
		if !n.said("link refused", "badCertificate", "is not for node z-evil but for", "y *.z-evil") {
			t.Errorf("the node said %q", n.log.lines())
		}
		// Before it has shown that it has the key it is not told.
		if p, err = dial(root.Issue(t, "y")); err != nil {
			t.Fatal(err)
		}
		wrong := linkConfig(t, func(c *link.Config) { c.Keys = [][]byte{[]byte("not the key of this mesh")} })
		if reason := p.handshake(wrong, "m"); reason != wire.RejectBadKey {
			t.Errorf("a certificate of another node without the key: %v", reason)
		}
		if p, err = dial(root.Issue(t, evil)); err != nil {
			t.Fatal(err)
		}
		if reason := p.handshake(linkConfig(t, nil), "m"); reason != 0 {
			t.Errorf("its own certificate: %v", reason)
		}
		old := &tls.Config{RootCAs: certtest.Pool(root), ServerName: "m", MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{root.Issue(t, evil).TLS(t)}}
		if conn, err := tls.Dial("tcp", n.Endpoint(), old); err == nil {
			conn.Close()
			t.Error("TLS 1.2 is taken")
		}
	})
}

// Whom a node dials must prove itself as well: before that the node says nothing of itself.
func TestANodeSaysNothingToAnotherNodesCertificate(t *testing.T) {
	inOneWorld(t, func(t *testing.T, w *world) {
		root := ourRoot(t)
		ln := w.impostor()
		n := w.certified(zlnode.Config{RID: "m", Role: zlnode.RoleServer}, counterApp(), root.Issue(t, "m"), root)
		for _, c := range []struct {
			name string
			pair certtest.Pair
		}{
			{"another root's", strangeRoot(t).Issue(t, evil)},
			{"one that is expired", root.IssueExpired(t, evil)},
		} {
			p := newPeer(t, tls.Server(accept(t, ln), serverOf(t, c.pair)))
			if record, err := p.next(); err == nil || !strings.Contains(err.Error(), "remote error") {
				t.Errorf("to %s the node says %x: %v", c.name, record, err)
			}
			p.conn.Close()
		}
		p := newPeer(t, tls.Server(accept(t, ln), serverOf(t, root.Issue(t, "y"))))
		if r, ok := p.read().(*wire.Reject); !ok || r.Reason != wire.RejectBadCertificate || len(r.Text) != 0 {
			t.Errorf("to another node's the node says %+v", r)
		}
		p.end()
		distrustful := serverOf(t, root.Issue(t, evil))
		distrustful.ClientAuth, distrustful.ClientCAs = tls.RequireAndVerifyClientCert, certtest.Pool(strangeRoot(t))
		p = newPeer(t, tls.Server(accept(t, ln), distrustful))
		if record, err := p.next(); err == nil {
			t.Errorf("the node says %x", record)
		}
		p.conn.Close()
		w.eventually("the node says that it is not trusted", func() bool { return n.said("a connection ended before it was a link", "certificate authority") })
		w.eventually("the node says why", func() bool {
			return n.said("link refused", "badCertificate", "is not for node z-evil but for", "y") && n.said("dial failed", evil, "the peer's certificate")
		})
		p = newPeer(t, tls.Server(accept(t, ln), serverOf(t, root.Issue(t, evil))))
		if r, ok := p.read().(*wire.Hello); !ok || string(r.RID) != "m" {
			t.Errorf("to the node's own certificate it says %+v", r)
		}
		if s := p.conn.(*tls.Conn).ConnectionState(); len(s.PeerCertificates) != 1 || s.PeerCertificates[0].VerifyHostname("m") != nil {
			t.Errorf("it shows %+v", s.PeerCertificates)
		}
	})
}

func accept(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func serverOf(t *testing.T, p certtest.Pair) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{p.TLS(t)}, ClientAuth: tls.RequireAnyClientCert}
}

// Nodes of one mesh of which only some have TLS do not link, whoever dials, and both say why.
func TestAMeshIsAllTLSOrNotAtAll(t *testing.T) {
	inOneWorld(t, func(t *testing.T, w *world) {
		root := ourRoot(t)
		start := func(rid string, p certtest.Pair) *certified {
			return w.certified(zlnode.Config{RID: rid, Role: zlnode.RoleServer}, counterApp(), p, root)
		}
		dials := start("a-plain", nil)
		n := start("m", root.Issue(t, "m"))
		answers := start("z-plain", nil)
		for of, c := range map[*certified][]string{
			dials:   {"a connection ended before it was a link", "its mesh's links by TLS"},
			answers: {"a connection ended before it was a link", "FrameTooLarge", "the peer speaks TLS"},
		} {
			w.eventually(of.RID()+" says why", func() bool { return of.said(c...) })
		}
		w.eventually("m says why", func() bool {
			return n.said("a connection is refused", "first record does not look like a TLS handshake") && n.said("dial failed", "z-plain")
		})
		w.linked(dials.Node, 1)
		if peers := n.Stats().Peers; peers != 0 {
			t.Errorf("%d links", peers)
		}
	})
}

// Renewed files are used by the next link, roots too; links that are open stay.
func TestRenewedCertificatesOfLinksNeedNoRestart(t *testing.T) {
	inOneWorld(t, func(t *testing.T, w *world) { // it takes the second or two until files are looked at again
		now, next := ourRoot(t), nextRoot(t)
		start := func(rid string, p certtest.Pair, roots ...*certtest.Authority) *certified {
			return w.certified(zlnode.Config{RID: rid, Role: zlnode.RoleServer}, counterApp(), p, roots...)
		}
		a, b := start("a", now.Issue(t, "a"), now), start("b", now.Issue(t, "b"), now)
		w.linked(a.Node, 1)
		a.renew(t, next.Issue(t, "a"), now, next)
		c := start("c", next.Issue(t, "c"), next) // knows the new root only
		w.linked(c.Node, 1)
		w.linked(a.Node, 2)
		if a.said("link closed") || b.said("link closed") {
			t.Error("the link that was open is lost")
		}
		if n := b.Stats().Peers; n != 1 {
			t.Errorf("of b, whose files are the old ones, there are %d links", n)
		}
	})
}
