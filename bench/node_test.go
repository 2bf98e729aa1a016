package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/certtest"
	"github.com/zlnode/zlnode/session"
)

type echo struct{}

// startNodes starts servers and a client node on an embedded store; every node
// has a session port. Every Actor of type "echo" returns what it gets.
func startNodes(b *testing.B, servers int) (client *zlnode.Node, others []*zlnode.Node) {
	b.Helper()
	return startNodesOn(b, embeddedStore(b), servers)
}

func embeddedStore(b *testing.B) (url string) {
	b.Helper()
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Close)
	return e.URL()
}

// startNodesOn does the same on the Store at that URL, in a namespace of its own.
func startNodesOn(b *testing.B, url string, servers int) (client *zlnode.Node, others []*zlnode.Node) {
	b.Helper()
	return startApp(b, url, servers, echoApp())
}

// startApp does the same with any application, and with nodes that are unlike the usual.
func startApp(b *testing.B, url string, servers int, app *zlnode.App, change ...func(*zlnode.Config)) (client *zlnode.Node, others []*zlnode.Node) {
	b.Helper()
	namespace := "bench-" + rand.Text()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	start := func(role zlnode.Role, rid string) *zlnode.Node {
		cfg := zlnode.Config{
			RID: rid, Role: role, MeshKey: []byte("a mesh key for benches"), Listen: "127.0.0.1:0", StoreURL: url,
			Namespace: namespace, RecoveryHold: -1, // nobody can have used it
			Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "client"}},
		}
		for _, f := range change {
			f(&cfg)
		}
		n, err := zlnode.Start(ctx, cfg, app)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = n.Shutdown(context.Background()) })
		return n
	}
	if servers == 0 {
		return start(zlnode.RoleServer, "alone"), nil
	}
	for i := range servers {
		others = append(others, start(zlnode.RoleServer, fmt.Sprint("server-", i)))
	}
	n := start(zlnode.RoleClient, "z-client")
	if err := n.WaitPeers(ctx, servers); err != nil {
		b.Fatal(err)
	}
	return n, others
}

// linksByTLS has nodes link by TLS.
func linksByTLS(b *testing.B) func(*zlnode.Config) {
	b.Helper()
	root := certtest.New(b, "root")
	return func(c *zlnode.Config) {
		pair, roots := root.Issue(b, c.RID).Write(b, b.TempDir(), root)
		c.MeshTLS = zlnode.TLSFiles{CertFile: pair, KeyFile: pair, ClientCAFile: roots}
	}
}

func echoApp() *zlnode.App {
	app := zlnode.NewApp()
	actor := zlnode.DefineActor(app, "echo", func(*zlnode.ActorContext) (*echo, error) { return &echo{}, nil }, zlnode.DisableRelocation)
	zlnode.OnRequestRaw(actor, "echo", func(_ *zlnode.ActorCall, _ *echo, payload []byte) ([]byte, error) { return payload, nil })
	zlnode.OnNodeRequestRaw(app, "echo", func(_ *zlnode.NodeCall, payload []byte) ([]byte, error) { return payload, nil })
	channel := zlnode.DefineChannel(app, "echo", zlnode.HandlerOptions{})
	zlnode.OnChannelRequestRaw(channel, "echo", func(_ *zlnode.NodeCall, payload []byte) ([]byte, error) { return payload, nil })
	zlnode.OnChannelSendRaw(channel, "drop", func(*zlnode.NodeCall, []byte) error { return nil })
	zlnode.OnSendRaw(actor, "drop", func(*zlnode.ActorCall, *echo, []byte) error { return nil })
	client := zlnode.DefineSession(app, "client", func(*zlnode.SessionContext) (*echo, error) { return &echo{}, nil })
	zlnode.OnPacketRequest(client, "login", func(c *zlnode.SessionCall, _ *echo, id string) (bool, error) {
		r, err := c.Node().GetOrCreateActor(c, zlnode.CreateActor{ID: id, Type: "echo"})
		if err != nil {
			return false, err
		}
		return true, c.Bind(r.Ref)
	})
	zlnode.OnPacketRequestRaw(client, "back", func(_ *zlnode.SessionCall, _ *echo, payload []byte) ([]byte, error) { return payload, nil })
	zlnode.Relay(client, "echo", "echo")
	return app
}

// requestFrame is a STREAM request with a payload of that size.
func requestFrame(b *testing.B, name string, codec session.Codec, payload []byte) []byte {
	b.Helper()
	frame, err := session.Append(nil, &session.Packet{Kind: session.KindRequest, Codec: codec, Seq: 1, Name: []byte(name), Payload: payload})
	if err != nil {
		b.Fatal(err)
	}
	return frame
}

func dial(b *testing.B, addr string, n int) []net.Conn {
	b.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		conns[i] = c
	}
	return conns
}

// BenchmarkSessionEcho is a client's request and its reply: on bare gnet (the same
// bytes), from the Session's handler, from an Actor on the gateway, and from one on
// another node.
func BenchmarkSessionEcho(b *testing.B) {
	for _, size := range []int{64, 1024} {
		frame := requestFrame(b, "echo", session.CodecRaw, make([]byte, size))
		back := requestFrame(b, "back", session.CodecRaw, make([]byte, size))
		for _, conns := range []int{1, 100} {
			kind := func(name string) string { return fmt.Sprintf("%s/%dB/%dconns", name, size, conns) }
			b.Run(kind("bare"), func(b *testing.B) {
				pingPong(b, dial(b, startBare(b), conns), frame)
			})
			b.Run(kind("handler"), func(b *testing.B) {
				node, _ := startNodes(b, 0)
				pingPong(b, dial(b, node.SessionAddrs()[0].String(), conns), back)
			})
			for servers, name := range []string{"here", "there"} {
				b.Run(kind(name), func(b *testing.B) {
					node, _ := startNodes(b, servers)
					all := dial(b, node.SessionAddrs()[0].String(), conns)
					for i, c := range all {
						login := requestFrame(b, "login", session.CodecJSON, fmt.Appendf(nil, `"echo-%d"`, i))
						if _, err := c.Write(login); err != nil {
							b.Fatal(err)
						}
						readFrame(b, c)
					}
					pingPong(b, all, frame)
				})
			}
		}
	}
}

func readFrame(b *testing.B, c net.Conn) {
	b.Helper()
	head := make([]byte, 6)
	if _, err := io.ReadFull(c, head); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, frameSize(head)-6)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRemoteRequest is a raw request from one node to an Actor of another
// and its reply, over a plain link and one by TLS, beside a bare gnet echo of as many bytes
// with one connection per caller.
func BenchmarkRemoteRequest(b *testing.B) {
	for _, size := range []int{64, 1024} {
		for _, callers := range []int{1, 64} {
			kind := func(name string) string { return fmt.Sprintf("%s/%dB/%dcallers", name, size, callers) }
			b.Run(kind("bare"), func(b *testing.B) {
				pingPong(b, dial(b, startBare(b), callers), requestFrame(b, "echo", session.CodecRaw, make([]byte, size)))
			})
			request := func(change ...func(*zlnode.Config)) func(*testing.B) {
				return func(b *testing.B) {
					node, _ := startApp(b, embeddedStore(b), 1, echoApp(), change...)
					actors := createEchoes(b, node, 16)
					run(b, callers, size, func(i int, payload []byte) error {
						r, err := actors[i%len(actors)].RequestRaw(b.Context(), "echo", payload)
						if err == nil {
							r.Release()
						}
						return err
					})
				}
			}
			b.Run(kind("node"), request())
			b.Run(kind("tls"), request(linksByTLS(b)))
		}
	}
}

// BenchmarkNodeRequest is a raw request to another node itself and its reply, and the same by
// a channel that one node serves.
func BenchmarkNodeRequest(b *testing.B) {
	for _, callers := range []int{1, 256} {
		for _, by := range []string{"peer", "channel"} {
			b.Run(fmt.Sprintf("%s/64B/%dcallers", by, callers), func(b *testing.B) {
				node, server := startChannel(b)
				to := node.Channel("echo")
				if by == "peer" {
					to = node.Peer(server.RID())
				}
				run(b, callers, 64, func(_ int, payload []byte) error {
					r, err := to.RequestRaw(b.Context(), "echo", payload)
					if err == nil {
						r.Release()
					}
					return err
				})
			})
		}
	}
}

// BenchmarkLocalSend is a raw one-way message within a node, from the call to the
// Actor's queue.
func BenchmarkLocalSend(b *testing.B) {
	for _, callers := range []int{1, 4} {
		b.Run(fmt.Sprintf("64B/%dcallers", callers), func(b *testing.B) {
			node, _ := startNodes(b, 0)
			actors := createEchoes(b, node, 16)
			run(b, callers, 64, func(i int, payload []byte) error {
				return sendUntilTaken(b, actors[i%len(actors)], payload)
			})
		})
	}
}

// BenchmarkRemoteSend is a raw one-way message to another node, paced by its
// credits. What the Actors' queues there have no room for is dropped, and reported.
func BenchmarkRemoteSend(b *testing.B) {
	for _, callers := range []int{1, 4} {
		b.Run(fmt.Sprintf("64B/%dcallers", callers), func(b *testing.B) {
			node, servers := startNodes(b, 1)
			actors := createEchoes(b, node, 16)
			run(b, callers, 64, func(i int, payload []byte) error {
				return sendUntilTaken(b, actors[i%len(actors)], payload)
			})
			b.ReportMetric(float64(servers[0].Stats().Dropped)/float64(b.N), "dropped/op")
		})
	}
}

// BenchmarkChannelSend is a raw one-way message to a channel, paced by the link's credits.
// What the channel's queue at its server has no room for is dropped, and reported.
func BenchmarkChannelSend(b *testing.B) {
	for _, callers := range []int{1, 4} {
		b.Run(fmt.Sprintf("64B/%dcallers", callers), func(b *testing.B) {
			node, server := startChannel(b)
			to := node.Channel("echo")
			run(b, callers, 64, func(_ int, payload []byte) error { return sendUntilTaken(b, to, payload) })
			b.ReportMetric(float64(server.Stats().Dropped)/float64(b.N), "dropped/op")
		})
	}
}

// startChannel starts a node, and another that serves the channel "echo".
func startChannel(b *testing.B) (client, server *zlnode.Node) {
	b.Helper()
	client, others := startApp(b, embeddedStore(b), 1, echoApp(), func(c *zlnode.Config) {
		if c.Role == zlnode.RoleServer {
			c.Channels = []zlnode.Channel{{Name: "echo"}}
		}
	})
	if err := client.WaitChannel(b.Context(), "echo", 1); err != nil {
		b.Fatal(err)
	}
	return client, others[0]
}

func createEchoes(b *testing.B, node *zlnode.Node, n int) []zlnode.Addr {
	b.Helper()
	actors := make([]zlnode.Addr, n)
	for i := range actors {
		id := fmt.Sprint("echo-", i)
		if _, err := node.GetOrCreateActor(b.Context(), zlnode.CreateActor{ID: id, Type: "echo"}); err != nil {
			b.Fatal(err)
		}
		actors[i] = node.Actor(id)
	}
	return actors
}

// sendUntilTaken repeats a send that a full queue refused.
func sendUntilTaken(b *testing.B, a zlnode.Addr, payload []byte) error {
	for {
		err := a.SendRaw(b.Context(), "drop", payload)
		if err == nil || zlnode.KindOf(err) != zlnode.CapacityExceeded {
			return err
		}
	}
}

// run makes b.N calls from that many goroutines.
func run(b *testing.B, callers, size int, call func(i int, payload []byte) error) {
	b.Helper()
	b.ReportAllocs()
	b.SetBytes(int64(size))
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range callers {
		n := b.N / callers
		if c < b.N%callers {
			n++
		}
		wg.Go(func() {
			payload := make([]byte, size)
			for i := range n {
				if err := call(c+i, payload); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}
