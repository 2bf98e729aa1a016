package zlnode_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
)

// jobsApp has the handlers of the channel "jobs": "who" tells who handles it, "stop" does so
// when the gate lets it.
func jobsApp(g *gate) *zlnode.App {
	app := zlnode.NewApp()
	jobs := zlnode.DefineChannel(app, "jobs", zlnode.HandlerOptions{})
	zlnode.OnChannelRequest(jobs, "who", func(c *zlnode.NodeCall, _ struct{}) (string, error) {
		if c.Mesh() != "" || c.Channel() != "jobs" {
			return "", fmt.Errorf("it came by mesh %q, channel %q", c.Mesh(), c.Channel())
		}
		return c.Node().RID() + " to " + c.From(), nil
	})
	zlnode.OnChannelRequest(jobs, "stop", func(c *zlnode.NodeCall, _ struct{}) (string, error) {
		g.pass()
		return c.Node().RID(), nil
	})
	zlnode.OnNodeRequest(app, "ask", func(c *zlnode.NodeCall, _ struct{}) (string, error) {
		return zlnode.Request[string](c, c.Node().Channel("jobs"), "who", struct{}{})
	})
	return app
}

var (
	servesJobs = []zlnode.ChannelServer{{Name: "jobs", Listen: "127.0.0.1:0"}}
	sendsJobs  = []zlnode.ChannelClient{{Name: "jobs"}}
)

// whoOf sends that many requests to "jobs" and counts who replies.
func whoOf(w *world, n *zlnode.Node, count int) string {
	w.t.Helper()
	got := map[string]int{}
	for range count {
		rid, err := zlnode.Request[string](w.ctx, n.Channel("jobs"), "who", struct{}{})
		if err != nil {
			w.t.Fatal(err)
		}
		got[rid]++
	}
	return fmt.Sprint(got)
}

// jobServers waits until n is connected to that many servers of "jobs".
func jobServers(w *world, n *zlnode.Node, servers int) {
	w.t.Helper()
	if err := n.WaitChannel(w.ctx, "jobs", servers); err != nil {
		w.t.Fatal(err)
	}
}

// toJobs is what n knows of a node about the channel.
func toJobs(n *zlnode.Node, rid string) (p zlnode.PeerStatus) {
	for _, p := range n.Peers() {
		if p.Channel == "jobs" && p.RID == rid {
			return p
		}
	}
	return p
}

// waited is a context that tells when somebody waits for its end.
type waited struct {
	context.Context
	once sync.Once
	tell chan struct{}
}

func (c *waited) Done() <-chan struct{} {
	c.once.Do(func() { close(c.tell) })
	return c.Context.Done()
}

// A channel with connections of its own: its clients find the servers by the Store, wait for the
// first, take turns among those that are ready, of which one may be the client itself, and what
// one has taken is sent to no other.
// req: FO-05, FO-01
func TestAChannelWithConnectionsOfItsOwn(t *testing.T) {
	t.Parallel()
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	w, roads, g := newWorld(t, e.URL()), newLinkRoads(t), newGate()
	client := w.start(zlnode.Config{RID: "client", ChannelClients: sendsJobs, RequestTimeout: 10 * time.Second}, jobsApp(g))
	jobs := client.Channel("jobs")

	// Nobody serves it: a message waits for as long as it has, and is not sent.
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Millisecond)
	defer cancel()
	_, err = zlnode.Request[string](ctx, jobs, "who", struct{}{})
	wantKind(t, err, zlnode.Unavailable)
	wantKind(t, zlnode.Send(ctx, jobs, "who", struct{}{}), zlnode.Unavailable)
	if !strings.Contains(err.Error(), "nothing was sent") {
		t.Error(err)
	}
	over, cancelled := context.WithCancel(w.ctx)
	cancelled()
	_, err = zlnode.Request[string](over, jobs, "who", struct{}{})
	wantKind(t, err, zlnode.DeadlineExceeded)
	hasty := w.start(zlnode.Config{RID: "hasty", ChannelClients: sendsJobs, RequestTimeout: 20 * time.Millisecond}, jobsApp(g))
	wantKind(t, zlnode.Send(w.ctx, hasty.Channel("jobs"), "who", struct{}{}), zlnode.Unavailable)

	// The first server comes while somebody waits, in a handler too.
	waiting := &waited{Context: w.ctx, tell: make(chan struct{})}
	first := make(chan string, 2)
	ask := func(ctx context.Context, to zlnode.Addr, packet string) {
		who, err := zlnode.Request[string](ctx, to, packet, struct{}{})
		if err != nil {
			who = err.Error()
		}
		first <- who
	}
	go ask(waiting, jobs, "who")
	receive(t, waiting.tell)
	go ask(w.ctx, client.Peer("client"), "ask")
	w.eventually("the handler runs", func() bool { return client.Stats().ServiceMessages == 1 })
	onRoad := zlnode.ChannelServer{Name: "jobs"}
	if onRoad.Advertise, onRoad.Listen, err = roads.Behind("a"); err != nil {
		t.Fatal(err)
	}
	a := w.start(zlnode.Config{RID: "a", ChannelServers: []zlnode.ChannelServer{onRoad}}, jobsApp(g))
	for range cap(first) {
		if who := receive(t, first); who != "a to client" {
			t.Errorf("one that waited: %s", who)
		}
	}
	if a.ChannelEndpoint("jobs") != onRoad.Advertise || client.ChannelEndpoint("jobs") != "" {
		t.Errorf("clients dial %q", a.ChannelEndpoint("jobs"))
	}

	// Another server, which is a client too, and counts itself, over its socket.
	b := w.start(zlnode.Config{RID: "b", ChannelServers: servesJobs, ChannelClients: sendsJobs}, jobsApp(g))
	for _, n := range []*zlnode.Node{client, b} {
		jobServers(w, n, 2)
		if got, want := whoOf(w, n, 10), fmt.Sprintf("map[a to %[1]s:5 b to %[1]s:5]", n.RID()); got != want {
			t.Errorf("10 requests of %s went to %s, want %s", n.RID(), got, want)
		}
	}
	for _, n := range []*zlnode.Node{a, b} {
		if p := toJobs(client, n.RID()); p.Mesh != "" || p.State != zlnode.PeerReady || p.Manual || p.Endpoint != n.ChannelEndpoint("jobs") || p.Lifecycle != n.Lifecycle() {
			t.Errorf("the client knows %+v", p)
		}
	}
	if p := toJobs(b, "b"); p.State != zlnode.PeerReady {
		t.Errorf("b knows of itself: %+v", p)
	}
	if n := client.Stats().Peers; n != 2 {
		t.Errorf("the client has %d links, want those to the servers", n)
	}
	_, err = zlnode.Request[string](w.ctx, a.Channel("jobs"), "who", struct{}{})
	wantKind(t, err, zlnode.NotConfigured) // which is no client
	_, err = zlnode.Request[string](w.ctx, jobs.InMesh("main"), "who", struct{}{})
	wantKind(t, err, zlnode.InvalidOperation)

	t.Run("hostile", func(t *testing.T) { hostileToChannels(t, w, a, b) })

	// One that is drained gets nothing new.
	if err := b.SetChannelWeight("jobs", 0); err != nil {
		t.Fatal(err)
	}
	w.eventually("b is heard to be drained", func() bool { return !strings.Contains(whoOf(w, client, 2), "b to") })
	if got := whoOf(w, client, 4); got != "map[a to client:4]" {
		t.Errorf("after b was drained: %s", got)
	}
	if err := b.SetChannelWeight("jobs", 100); err != nil {
		t.Fatal(err)
	}
	jobServers(w, client, 2)

	// One is lost with a request: that ends once, and the others go on.
	calls := make(chan error, 2)
	var lost atomic.Int32
	for range cap(calls) { // one for each server
		go func() {
			rid, err := zlnode.Request[string](w.ctx, jobs, "stop", struct{}{})
			if errors.Is(err, zlnode.Unavailable) {
				lost.Add(1)
				err = nil
			} else if err == nil && rid != "b" {
				err = fmt.Errorf("%s answered", rid)
			}
			calls <- err
		}()
	}
	for range cap(calls) {
		receive(t, g.entered)
	}
	cut := roads.At(cutBefore, "client", "a", wire.CmdNodeMessage, 1+passed(roads, "client", "a"))
	for err = nil; err == nil; { // until it is a's turn
		_, err = zlnode.Request[string](w.ctx, jobs, "who", struct{}{})
	}
	wantKind(t, err, zlnode.Unavailable)
	receive(t, cut.Reached)
	if got := whoOf(w, client, 4); got != "map[b to client:4]" {
		t.Errorf("after a was lost: %s", got)
	}
	if err := receive(t, calls); err != nil {
		t.Error(err)
	}
	if n := lost.Load(); n != 1 {
		t.Errorf("%d requests were lost with a, want its one", n)
	}
	roads.Open("client", "a")
	jobServers(w, client, 2)

	// One that stops gets nothing new, and answers what it has.
	stopped := make(chan error, 1)
	go func() { stopped <- b.Shutdown(w.ctx) }()
	w.eventually("b is heard to stop", func() bool { return !strings.Contains(whoOf(w, client, 2), "b to") })
	close(g.open)
	for _, c := range []chan error{calls, stopped} {
		if err := receive(t, c); err != nil {
			t.Error(err)
		}
	}
	if got := whoOf(w, client, 4); got != "map[a to client:4]" {
		t.Errorf("after b has stopped: %s", got)
	}
}

func passed(r *linkRoads, from, to string) int {
	n, _ := r.Passed(from, to, wire.CmdNodeMessage)
	return n
}

// By a channel's connection nothing is reached but the channel, and no other way leads there.
func hostileToChannels(t *testing.T, w *world, a, b *zlnode.Node) {
	dial := func(endpoint string, change func(*link.Config)) (*peer, wire.RejectReason) {
		t.Helper()
		conn, err := net.Dial("tcp", endpoint)
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, conn)
		return p, p.handshake(linkConfig(t, func(c *link.Config) {
			c.Mesh, c.Role = "jobs", wire.RoleChannelClient
			change(c)
		}), "")
	}
	endpoint := b.ChannelEndpoint("jobs")
	for what, refused := range map[string]struct {
		at     string
		change func(*link.Config)
		want   wire.RejectReason
	}{
		"a member of a mesh of that name": {endpoint, func(c *link.Config) { c.Role = wire.RoleNone }, wire.RejectBadMesh},
		"another server":                  {endpoint, func(c *link.Config) { c.Role = wire.RoleChannelServer }, wire.RejectBadMesh},
		"a client of another channel":     {endpoint, func(c *link.Config) { c.Mesh = "other" }, wire.RejectBadMesh},
		"another process with its RID":    {endpoint, func(c *link.Config) { c.RID = "b" }, wire.RejectSelfDial},
		"another key":                     {endpoint, func(c *link.Config) { c.Keys = [][]byte{meshKeyB} }, wire.RejectBadKey},
		"a client at the mesh's port":     {b.Endpoint(), func(c *link.Config) { c.Mesh = "main" }, wire.RejectBadMesh},
	} {
		if _, reason := dial(refused.at, refused.change); reason != refused.want {
			t.Errorf("%s: %v, want %v", what, reason, refused.want)
		}
	}
	message := func(channel string) wire.Record {
		return &wire.NodeMessage{Channel: []byte(channel), Op: 1, Correlation: 1, DeadlineMS: 10_000, Name: []byte("who"), Codec: 1, Payload: []byte("{}")}
	}
	join := func() *peer {
		p, reason := dial(endpoint, func(*link.Config) {})
		if reason != 0 {
			t.Fatalf("refused: %v", reason)
		}
		return p
	}
	offer := &wire.Offer{Channels: wire.AppendOffered(nil, []byte("jobs"), 1)}
	records := append(linkRecords(), message(""), message("other"), offer)
	for _, r := range records {
		if m, ok := r.(*wire.NodeMessage); ok && string(m.Channel) == "jobs" {
			continue
		}
		switch r.(type) {
		case *wire.Probe, *wire.Ack, *wire.Credit, *wire.Goodbye, *wire.Reject:
			continue
		}
		p := join()
		p.send(r)
		if reason := p.end(); reason != 0 {
			t.Errorf("%T: an open connection was rejected with %v", r, reason)
		}
	}
	p := join()
	p.send(message("jobs"))
	for { // behind the offer
		if r, ok := p.read().(*wire.Reply); ok {
			if string(r.Payload) != `"b to `+evil+`"` {
				t.Errorf("a client is answered %s", r.Payload)
			}
			return
		}
	}
}

// Without a Store the configuration names the servers; a node's own server needs no name.
func TestChannelsWithConnectionsOfTheirOwnNeedNoStore(t *testing.T) {
	t.Parallel()
	w, g := newWorld(t, ""), newGate()
	start := func(c zlnode.Config) *zlnode.Node {
		c.Logger = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
		n, err := zlnode.Start(w.ctx, c, jobsApp(g))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.stop(n) })
		return n
	}
	keys := [][]byte{newKey}
	server := zlnode.ChannelServer{Name: "jobs", Listen: ":0", Advertise: "127.0.0.1", Keys: keys, Weight: 3}
	b := start(zlnode.Config{RID: "b", ChannelServers: []zlnode.ChannelServer{server}, ChannelClients: []zlnode.ChannelClient{{Name: "jobs", Keys: keys}}})
	endpoint := b.ChannelEndpoint("jobs")
	jobServers(w, b, 1)
	if got := whoOf(w, b, 2); got != "map[b to b:2]" {
		t.Errorf("its own: %s", got)
	}
	server.Weight = 0
	a := start(zlnode.Config{RID: "a", ChannelServers: []zlnode.ChannelServer{server}, ChannelClients: []zlnode.ChannelClient{
		{Name: "jobs", Keys: keys, Peers: []zlnode.Peer{{Endpoint: endpoint}}},
	}})
	client := start(zlnode.Config{RID: "client", ChannelClients: []zlnode.ChannelClient{
		{Name: "jobs", Keys: keys, Peers: []zlnode.Peer{{RID: "b", Endpoint: endpoint}, {Endpoint: a.ChannelEndpoint("jobs")}}},
	}})
	for _, n := range []*zlnode.Node{a, client} {
		jobServers(w, n, 2)
		if got, want := whoOf(w, n, 103), fmt.Sprintf("map[a to %[1]s:100 b to %[1]s:3]", n.RID()); got != want {
			t.Errorf("by weight: %s, want %s", got, want)
		}
	}
	if n := client.Stats().ManualPeers; n != 2 {
		t.Errorf("%d peers of the configuration", n)
	}
	// A later process at the same place.
	w.stop(b)
	server.Listen, server.Weight = strings.Replace(endpoint, "127.0.0.1", "", 1), 3
	start(zlnode.Config{RID: "b", ChannelServers: []zlnode.ChannelServer{server}})
	for _, n := range []*zlnode.Node{a, client} {
		jobServers(w, n, 2)
	}
}

// The connections are by TLS if the mesh's links are: who sends has shown its certificate.
func TestAChannelsConnectionsByTLS(t *testing.T) {
	inOneWorld(t, func(t *testing.T, w *world) {
		root, app := ourRoot(t), jobsApp(newGate())
		b := w.certified(zlnode.Config{RID: "b", ChannelServers: servesJobs, ChannelClients: sendsJobs}, app, root.Issue(t, "b"), root)
		client := w.certified(zlnode.Config{RID: "client", ChannelClients: sendsJobs}, app, root.Issue(t, "client"), root)
		bare := w.certified(zlnode.Config{RID: "bare", ChannelClients: sendsJobs}, app, nil)
		for _, n := range []*zlnode.Node{b.Node, client.Node} {
			jobServers(w, n, 1)
			if got, want := whoOf(w, n, 2), "map[b to "+n.RID()+":2]"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		w.eventually("one without TLS gives up", func() bool {
			p := toJobs(bare.Node, "b")
			return p.State == zlnode.PeerReconnecting && strings.Contains(p.LastFailure, "TLS")
		})
	})
}

func TestMistakesOfChannelSidesAreFoundAtStart(t *testing.T) {
	t.Parallel()
	f := func(want string, kind zlnode.Kind, change func(c *zlnode.Config)) {
		t.Helper()
		c := zlnode.Config{RID: "a", MeshKey: meshKey, ChannelServers: []zlnode.ChannelServer{servesJobs[0]}, ChannelClients: []zlnode.ChannelClient{sendsJobs[0]}}
		change(&c)
		_, err := zlnode.Start(t.Context(), c, jobsApp(newGate()))
		wantKind(t, err, kind)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want something about %q", err, want)
		}
	}
	invalid, lacks := zlnode.InvalidOperation, zlnode.NotConfigured
	f("a channel has one way", invalid, func(c *zlnode.Config) { c.Channels, c.ChannelClients = []zlnode.Channel{{Name: "jobs"}}, nil })
	f("a channel has one way", invalid, func(c *zlnode.Config) {
		c.Channels, c.ChannelServers, c.StoreURL = []zlnode.Channel{{Name: "jobs"}}, nil, "redis://x"
	})
	f("twice in ChannelServers", invalid, func(c *zlnode.Config) { c.ChannelServers = append(c.ChannelServers, c.ChannelServers[0]) })
	f("twice in ChannelClients", invalid, func(c *zlnode.Config) { c.ChannelClients = append(c.ChannelClients, c.ChannelClients[0]) })
	f("are more than 64", invalid, func(c *zlnode.Config) { c.ChannelClients = make([]zlnode.ChannelClient, 65) })
	f(`serve channel "y", which is not defined`, lacks, func(c *zlnode.Config) { c.ChannelServers[0].Name = "y" })
	f("weight 10001 of channel", invalid, func(c *zlnode.Config) { c.ChannelServers[0].Weight = 10_001 })
	f("set Listen", lacks, func(c *zlnode.Config) { c.ChannelServers[0].Listen = "" })
	f("is a wildcard", lacks, func(c *zlnode.Config) { c.ChannelServers[0].Listen = ":0" })
	f("set Keys, or MeshKey", lacks, func(c *zlnode.Config) { c.MeshKey = nil })
	f(`channel "jobs": Keys of at least 16`, lacks, func(c *zlnode.Config) { c.ChannelClients[0].Keys = [][]byte{{1}} })
	f("a channel name has 1 to 255", invalid, func(c *zlnode.Config) { c.ChannelClients[0].Name = "" })
	f("can find no server", lacks, func(c *zlnode.Config) { c.ChannelClients[0].Name = "z" })
	f("TLSFiles needs CertFile", lacks, func(c *zlnode.Config) { c.ChannelClients[0].TLSFiles.CertFile = "x" })
	f("host and port are needed", invalid, func(c *zlnode.Config) { c.ChannelClients[0].Peers = []zlnode.Peer{{Endpoint: ":1"}} })
}
