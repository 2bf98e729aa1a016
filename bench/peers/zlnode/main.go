package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zlnode/zlnode"
)

const timeout = 5 * time.Second

var ctx = context.Background()

var fTo = flag.String("to", "actor", "rask, raskN, rask256: who is asked; actor, node or channel")

var fStore = flag.String("store", "", "spawn: URL of the Store, empty at first; in place of an embedded one")

// sink counts one-way messages, echoes requests.
type sink struct {
	shard int
	cnt   AckCounter
}

// newSink makes the Actor with the id "sink-<shard>".
func newSink(c *zlnode.ActorContext) (*sink, error) {
	shard, err := strconv.Atoi(strings.TrimPrefix(c.ID(), "sink-"))
	return &sink{shard: shard}, err
}

// sinks registers the Actors of this side's server.
func sinks() *zlnode.App {
	app := zlnode.NewApp()
	t := zlnode.DefineActor(app, "sink", newSink, zlnode.DisableRelocation)
	zlnode.OnSendRaw(t, "tell", func(_ *zlnode.ActorCall, s *sink, payload []byte) error {
		env.Recv(s.shard, stampOf(payload))
		return nil
	})
	zlnode.OnSendRaw(t, "count", func(c *zlnode.ActorCall, s *sink, payload []byte) error {
		if due, n, stamp := s.cnt.On(payload); due {
			return c.Node().Actor("credits").SendRaw(c, "credit", encAck(n, stamp))
		}
		return nil
	})
	zlnode.OnRequestRaw(t, "ask", func(_ *zlnode.ActorCall, _ *sink, payload []byte) ([]byte, error) { return payload, nil })
	back := func(_ *zlnode.NodeCall, payload []byte) ([]byte, error) { return payload, nil }
	zlnode.OnNodeRequestRaw(app, "ask", back)
	zlnode.OnChannelRequestRaw(zlnode.DefineChannel(app, "echo", zlnode.HandlerOptions{}), "ask", back)
	return app
}

func start(app *zlnode.App, storeURL string, channels ...zlnode.Channel) *zlnode.Node {
	n, err := zlnode.Start(ctx, zlnode.Config{
		Channels: channels, Role: zlnode.RoleServer, MeshKey: []byte("a mesh key for benches"), Listen: "127.0.0.1:0",
		StoreURL: storeURL, RequestTimeout: timeout, RecoveryHold: -1,
		ObjectQueueMessages: *fWindow + 1, ObjectQueueBytes: int64(*fWindow+1)*int64(*fSize+512) + 2<<20,
	}, app)
	check(err)
	return n
}

func create(n *zlnode.Node, id, stableType string) zlnode.Addr {
	_, err := n.CreateActor(ctx, zlnode.CreateActor{ID: id, Type: stableType})
	check(err)
	return n.Actor(id)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// send sends one message. A full queue is waited for: that of another node's Actor may have
// less room than the window.
func send(to zlnode.Addr, packet string, payload []byte) {
	for {
		err := to.SendRaw(ctx, packet, payload)
		if err == nil {
			return
		}
		if zlnode.KindOf(err) != zlnode.CapacityExceeded {
			panic(err)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func request(to zlnode.Addr, payload []byte) error {
	r, err := to.RequestRaw(ctx, "ask", payload)
	if err != nil {
		return err
	}
	defer r.Release()
	if len(r.Payload()) != len(payload) {
		return fmt.Errorf("reply of %d bytes", len(r.Payload()))
	}
	return nil
}

func local(actors int) (tellFunc, func(int, int, []byte) error, func()) {
	addrs, _, stop := startLocal(sinks(), actors)
	tell := func(_, a int, pl []byte) { send(addrs[a], "tell", pl) }
	ask := func(_, a int, pl []byte) error { return request(addrs[a], pl) }
	return tell, ask, stop
}

// startLocal starts a node with that many Actors of type "sink".
func startLocal(app *zlnode.App, actors int) ([]zlnode.Addr, *zlnode.Node, func()) {
	store, err := zlnode.StartEmbeddedStore("")
	check(err)
	n := start(app, store.URL())
	addrs := make([]zlnode.Addr, actors)
	for i := range addrs {
		addrs[i] = create(n, "sink-"+strconv.Itoa(i), "sink")
	}
	return addrs, n, func() { check(n.Shutdown(ctx)); store.Close() }
}

// spawn creates through a Store in another process, which so is not in the heap of this
// one. Callers create at once, as sessions that log in do.
func spawn(k int) func() {
	url, stop := *fStore, func() {}
	if url == "" {
		child := startServer()
		url, stop = storeURL(child.addr), child.end
	}
	n := start(sinks(), url)
	var wg sync.WaitGroup
	const callers = 16
	for c := range callers {
		wg.Go(func() {
			for i := c; i < k; i += callers {
				create(n, "sink-"+strconv.Itoa(i), "sink")
			}
		})
	}
	wg.Wait()
	return func() {
		_ = n.Shutdown(ctx)
		stop()
	}
}

func storeURL(addr string) string { return "redis://" + addr }

// serve runs the Store, whose address is all that the other side needs to know, and a
// node with one Actor.
func serve(addr string, ready func(string)) {
	_, err := zlnode.StartEmbeddedStore(addr)
	check(err)
	switch *fMode {
	case "spawn", "fanout", "fanout1":
	default:
		create(start(sinks(), storeURL(addr), zlnode.Channel{Name: "echo"}), "sink-0", "sink")
	}
	ready(addr)
	select {}
}

// client is what the credits of one-way messages come to, an Actor on the client's
// node.
type client struct{}

func remoteSide(addr string, acked func(int64, int64)) (func([]byte), func(int, []byte) error, func()) {
	app := zlnode.NewApp()
	t := zlnode.DefineActor(app, "client", func(*zlnode.ActorContext) (*client, error) { return &client{}, nil }, zlnode.DisableRelocation)
	zlnode.OnSendRaw(t, "credit", func(_ *zlnode.ActorCall, _ *client, payload []byte) error {
		acked(decAck(payload))
		return nil
	})
	n := start(app, storeURL(addr))
	check(n.WaitPeers(ctx, 1))
	create(n, "credits", "client") // on this node: the other does not have the type
	to := n.Actor("sink-0")
	switch *fTo {
	case "node":
		to = n.Peer(n.Peers()[0].RID)
	case "channel":
		check(n.WaitChannel(ctx, "echo", 1))
		to = n.Channel("echo")
	}
	if err := request(to, sharedPayload); err != nil {
		fmt.Fprintln(os.Stderr, "first request:", err)
	}
	tell := func(pl []byte) { send(to, "count", pl) }
	ask := func(_ int, pl []byte) error { return request(to, pl) }
	return tell, ask, func() { check(n.Shutdown(ctx)) }
}

func main() {
	flag.Parse()
	if *fMode == "rtell" {
		// What the queue of an Actor on another node has no room for is dropped there,
		// so senders must bound what is under way: 4,096 messages, 4 MiB.
		*fWindow = min(*fWindow, 3584, (4<<20)/(*fSize+512))
	}
	runMain(Peer{Name: "zlnode", Local: local, Room: room, Timers: timers, Spawn: spawn, Serve: serve, Remote: remoteSide, Subscribe: subscribe, Publish: publisher})
}
