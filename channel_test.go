package zlnode_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// channelWorld is three servers of channels, a, b and c, and a gateway that only sends. Roads
// lead from each to each.
type channelWorld struct {
	*world
	roads *linkRoads
	app   *zlnode.App
	gate  *zlnode.Node
	nodes map[string]*zlnode.Node

	blocked map[string]*gate // handlers at a node that wait for the test
	ran     sync.Map         // RID → *atomic.Int32: how often "run" ran there
	filters struct {
		sync.Mutex
		said []string
	}
}

const megabyte = 1 << 20

func newChannelWorld(t *testing.T) *channelWorld {
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	x := &channelWorld{world: newWorld(t, e.URL()), roads: newLinkRoads(t), nodes: map[string]*zlnode.Node{}, blocked: map[string]*gate{}}
	for _, rid := range []string{"a", "b", "c"} {
		x.blocked[rid] = newGate()
	}
	x.app = x.handlers()
	x.gate = x.start(x.roads.behind(zlnode.Config{RID: "gate", Role: zlnode.RoleClient}), x.gateApp())
	for i, rid := range []string{"a", "b", "c"} {
		c := zlnode.Config{RID: rid, Role: zlnode.RoleServer, Channels: []zlnode.Channel{
			{Name: "work", Weight: i + 1}, {Name: "once", Weight: 3 - i}, {Name: "bulk"}, {Name: "unwanted", Weight: -1},
		}}
		if rid == "a" {
			c.Channels = append(c.Channels, zlnode.Channel{Name: "serial"}, zlnode.Channel{Name: "tight"})
		}
		if rid == "c" {
			c.Channels = slices.DeleteFunc(c.Channels, func(ch zlnode.Channel) bool { return ch.Name == "bulk" || ch.Name == "once" })
		}
		x.nodes[rid] = x.start(x.roads.behind(c), x.app)
	}
	x.serves("work", 3)
	return x
}

// serves waits until the gateway knows of that many servers of a channel.
func (x *channelWorld) serves(channel string, servers int) {
	x.t.Helper()
	if err := x.gate.WaitChannel(x.ctx, channel, servers); err != nil {
		x.t.Fatal(err)
	}
}

// heard returns when the gateway has heard what a node said before.
func (x *channelWorld) heard(rid string) {
	x.t.Helper()
	if from, err := zlnode.Request[string](x.ctx, x.nodes[rid].Peer("gate"), "ping", struct{}{}); err != nil || from != rid {
		x.t.Fatalf("%s is %q to the gateway: %v", rid, from, err)
	}
}

func who(c *zlnode.NodeCall, _ struct{}) (string, error) { return c.Node().RID(), nil }

func (x *channelWorld) handlers() *zlnode.App {
	app := recorderApp(nil)
	zlnode.NodeHandlers(app, zlnode.HandlerOptions{Concurrency: 4})
	zlnode.OnNodeRequest(app, "ping", func(c *zlnode.NodeCall, _ struct{}) (string, error) { return c.From(), nil })
	zlnode.OnNodeSendRaw(app, "block", func(c *zlnode.NodeCall, _ []byte) error {
		<-x.blocked[c.Node().RID()].open
		return nil
	})
	zlnode.OnNodeRequest(app, "ask", func(c *zlnode.NodeCall, channel string) (string, error) {
		return zlnode.Request[string](c, c.Node().Channel(channel), "who", struct{}{})
	})

	work := zlnode.DefineChannel(app, "work", zlnode.HandlerOptions{Concurrency: 8})
	zlnode.OnChannelRequest(work, "who", who)
	zlnode.OnChannelRequest(work, "describe", func(c *zlnode.NodeCall, m string) (string, error) {
		level, _ := c.Metadata().Lookup("level")
		if _, bounded := c.Deadline(); !bounded {
			return "", errors.New("the request has no deadline here")
		}
		return fmt.Sprint(c.From(), " ", c.Mesh(), " ", c.Channel(), " ", c.Packet(), " ", c.Codec(), " ", c.IsRequest(), " ", string(level), " ", m), nil
	})
	zlnode.OnChannelRequest(work, "stop", func(c *zlnode.NodeCall, _ struct{}) (string, error) {
		x.blocked[c.Node().RID()].pass()
		return c.Node().RID(), nil
	})
	zlnode.OnChannelRequest(work, "fail", func(_ *zlnode.NodeCall, how string) (int, error) {
		if how == "panic" {
			panic("boom")
		}
		return 0, zlnode.Errorf(zlnode.Rejected, "you may not")
	})

	once := zlnode.DefineChannel(app, "once", zlnode.HandlerOptions{})
	zlnode.OnChannelRequest(once, "run", func(c *zlnode.NodeCall, _ struct{}) (string, error) {
		n, _ := x.ran.LoadOrStore(c.Node().RID(), new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
		return c.Node().RID(), nil
	})

	bulk := zlnode.DefineChannel(app, "bulk", zlnode.HandlerOptions{})
	zlnode.OnChannelRequestRaw(bulk, "take", func(c *zlnode.NodeCall, _ []byte) ([]byte, error) { return []byte(c.Node().RID()), nil })

	serial := zlnode.DefineChannel(app, "serial", zlnode.HandlerOptions{Concurrency: 1})
	var noted []int // of a, one handler at a time
	zlnode.OnChannelSend(serial, "note", func(_ *zlnode.NodeCall, n int) error {
		noted = append(noted, n)
		return nil
	})
	zlnode.OnChannelRequest(serial, "noted", func(_ *zlnode.NodeCall, n int) ([]int, error) {
		noted = append(noted, n)
		return noted, nil
	})

	tight := zlnode.DefineChannel(app, "tight", zlnode.HandlerOptions{Concurrency: 1, QueueMessages: 2})
	zlnode.OnChannelRequest(tight, "stop", func(*zlnode.NodeCall, struct{}) (string, error) {
		x.blocked["a"].pass()
		return "", nil
	})
	zlnode.DefineChannel(app, "unwanted", zlnode.HandlerOptions{})
	return app
}

// gateApp has what is sent to the gateway itself, through filters.
func (x *channelWorld) gateApp() *zlnode.App {
	app := zlnode.NewApp()
	zlnode.NodeHandlers(app, zlnode.HandlerOptions{Concurrency: 1, QueueMessages: 1})
	say := func(what string) {
		x.filters.Lock()
		x.filters.said = append(x.filters.said, what)
		x.filters.Unlock()
	}
	zlnode.Filter(app, func(c *zlnode.NodeCall, next func() error) error {
		if c.Packet() == "ping" {
			return next()
		}
		say("outer " + c.Packet())
		err := next()
		say(fmt.Sprint("outer ", err == nil))
		return err
	})
	zlnode.Filter(app, func(c *zlnode.NodeCall, next func() error) error {
		switch c.Packet() {
		case "refused":
			return zlnode.Errorf(zlnode.Rejected, "not from %s", c.From())
		case "swallowed":
			return nil
		case "twice":
			return errors.Join(next(), next())
		case "ping":
		default:
			say("inner " + c.Packet())
		}
		return next()
	})
	for _, packet := range []string{"ping", "seen", "refused", "swallowed", "twice"} {
		zlnode.OnNodeRequest(app, packet, func(c *zlnode.NodeCall, _ struct{}) (string, error) {
			if packet != "ping" {
				say("handler " + packet)
			}
			return c.From(), nil
		})
	}
	g := newGate()
	x.blocked["gate"] = g
	zlnode.OnNodeRequest(app, "stop", func(*zlnode.NodeCall, struct{}) (string, error) {
		g.pass()
		return "", nil
	})
	return app
}

// requests sends that many requests to a channel and counts who replies.
func (x *channelWorld) requests(channel string, count int) map[string]int {
	x.t.Helper()
	got := map[string]int{}
	for range count {
		rid, err := zlnode.Request[string](x.ctx, x.gate.Channel(channel), "who", struct{}{})
		if err != nil {
			x.t.Fatal(err)
		}
		got[rid]++
	}
	return got
}

func (x *channelWorld) wantSpread(count int, want string) {
	x.t.Helper()
	if got := fmt.Sprint(x.requests("work", count)); got != want {
		x.t.Errorf("%d requests went to %s, want %s", count, got, want)
	}
}

// fill sends what a node's handlers do not work off, until the link takes no more.
func (x *channelWorld) fill(rid string) {
	x.t.Helper()
	over, cancel := context.WithCancel(x.ctx)
	cancel()
	for sent := 0; ; sent++ {
		if err := x.gate.Peer(rid).SendRaw(over, "block", make([]byte, megabyte)); err != nil {
			wantKind(x.t, err, zlnode.DeadlineExceeded)
			if sent == 0 {
				x.t.Fatal("the link was full before")
			}
			return
		}
	}
}

func TestChannels(t *testing.T) {
	t.Parallel()
	x := newChannelWorld(t)

	// In the share of the weights, exactly. Only servers whose weight is above 0.
	x.wantSpread(60, "map[a:10 b:20 c:30]")
	if err := x.nodes["c"].SetChannelWeight("work", 0); err != nil {
		t.Fatal(err)
	}
	x.heard("c")
	x.wantSpread(30, "map[a:10 b:20]")
	wantKind(t, x.nodes["c"].SetChannelWeight("work", 10_001), zlnode.InvalidOperation)
	wantKind(t, x.nodes["c"].SetChannelWeight("serial", 1), zlnode.NotConfigured)
	if err := x.nodes["c"].SetChannelWeight("work", 3); err != nil {
		t.Fatal(err)
	}
	x.heard("c")
	x.wantSpread(6, "map[a:1 b:2 c:3]")

	// Nobody there: at once.
	for _, channel := range []string{"unwanted", "unheard of"} {
		_, err := zlnode.Request[string](x.ctx, x.gate.Channel(channel), "who", struct{}{})
		wantKind(t, err, zlnode.Unavailable)
		wantKind(t, zlnode.Send(x.ctx, x.gate.Channel(channel), "note", 1), zlnode.Unavailable)
	}

	// A server's own handlers ask another one: never itself.
	for range 6 {
		rid, err := zlnode.Request[string](x.ctx, x.gate.Peer("a"), "ask", "work")
		if err != nil || rid == "a" {
			t.Errorf("a asked %q: %v", rid, err)
		}
	}
	meta, err := session.NewMetadata(map[string]string{"level": "3"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := zlnode.Request[string](x.ctx, x.gate.Channel("work").As(zlnode.MessagePack).With(meta), "describe", "hello")
	if want := "gate main work describe MessagePack true 3 hello"; err != nil || text != want {
		t.Errorf("described as %q, %v; want %q", text, err, want)
	}

	// The messages of one sender start in order.
	serial := x.gate.Channel("serial")
	const count = 1000
	for i := range count {
		if err := zlnode.Send(x.ctx, serial, "note", i); err != nil {
			t.Fatal(err)
		}
	}
	noted, err := zlnode.Request[[]int](x.ctx, serial, "noted", count)
	if err != nil || len(noted) != count+1 || !slices.IsSorted(noted) {
		t.Errorf("%d noted, in order %v: %v", len(noted), slices.IsSorted(noted), err)
	}

	// What goes wrong at the server is told with its kind, and nobody else is asked.
	for _, c := range []struct {
		packet string
		q      any
		kind   zlnode.Kind
	}{
		{"nothing", 1, zlnode.NotFound},
		{"who", "not an object", zlnode.ProtocolError},
		{"fail", "panic", zlnode.InternalFailure},
		{"fail", "", zlnode.Rejected},
		{"", 1, zlnode.InvalidOperation},
	} {
		_, err := zlnode.Request[string](x.ctx, x.gate.Channel("work"), c.packet, c.q)
		wantKind(t, err, c.kind)
		if e, ok := errors.AsType[*zlnode.Error](err); !ok || e.Op != "request" || e.Object != "work" {
			t.Errorf("%v names no operation or channel", err)
		}
	}
	dropped := x.nodes["a"].Stats().Dropped
	if err := zlnode.Send(x.ctx, serial, "nothing", 1); err != nil {
		t.Fatal(err)
	}
	x.eventually("a one-way message without a handler is counted", func() bool { return x.nodes["a"].Stats().Dropped == dropped+1 })
	if n := x.gate.Stats().Reselected; n != 0 {
		t.Errorf("%d messages went elsewhere than they were meant to", n)
	}

	// Two nodes that host no objects link if one serves channels.
	lobby := x.start(x.roads.behind(zlnode.Config{RID: "lobby", Role: zlnode.RoleClient, Channels: []zlnode.Channel{{Name: "once"}}}), x.app)
	x.serves("once", 3)
	if from, err := zlnode.Request[string](x.ctx, lobby.Peer("gate"), "ping", struct{}{}); err != nil || from != "lobby" {
		t.Errorf("%q, %v", from, err)
	}

	// A full queue.
	tight := x.gate.Channel("tight")
	ended := make(chan error, 3)
	stop := func() {
		_, err := zlnode.Request[string](x.ctx, tight, "stop", struct{}{})
		ended <- err
	}
	go stop()
	receive(t, x.blocked["a"].entered)
	go stop()
	go stop()
	x.eventually("two wait", func() bool { return x.nodes["a"].Stats().ServiceMessages == 3 })
	_, err = zlnode.Request[string](x.ctx, tight, "stop", struct{}{})
	wantKind(t, err, zlnode.Unavailable)
	for range 3 {
		x.blocked["a"].open <- struct{}{}
		if err := receive(t, ended); err != nil {
			t.Error(err)
		}
	}
}

// A full first target is replaced by one that has room, before anything was sent; if none has,
// the message waits for the first that does.
// req: FO-05
func TestAMessageToAChannelGoesWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	x := newChannelWorld(t)
	x.serves("bulk", 2)
	bulk, payload := x.gate.Channel("bulk"), make([]byte, megabyte)
	take := func(ctx context.Context) (string, error) {
		r, err := bulk.RequestRaw(ctx, "take", payload)
		if err != nil {
			return "", err
		}
		defer r.Release()
		return string(r.Payload()), nil
	}
	x.fill("a")
	for i := range 10 {
		if rid, err := take(x.ctx); err != nil || rid != "b" {
			t.Fatalf("request %d: %q, %v", i, rid, err)
		}
	}
	if n := x.gate.Stats().Reselected; n == 0 {
		t.Error("a was never chosen")
	}
	x.fill("b")
	over, cancel := context.WithCancel(x.ctx)
	cancel()
	_, err := take(over)
	wantKind(t, err, zlnode.DeadlineExceeded)
	if !strings.Contains(err.Error(), "nothing was sent") {
		t.Error(err)
	}
	wantKind(t, bulk.SendRaw(over, "take", payload), zlnode.DeadlineExceeded)
	before, _ := x.roads.Passed("gate", "a", wire.CmdNodeMessage)
	waiting := make(chan string, 4)
	for range cap(waiting) {
		go func() {
			rid, err := take(x.ctx)
			if err != nil {
				rid = err.Error()
			}
			waiting <- rid
		}()
	}
	close(x.blocked["b"].open)
	for range cap(waiting) {
		if rid := receive(t, waiting); rid != "b" {
			t.Errorf("one that waited: %s", rid)
		}
	}
	if now, _ := x.roads.Passed("gate", "a", wire.CmdNodeMessage); now != before {
		t.Errorf("%d messages went to a, which had no room", now-before)
	}
	close(x.blocked["a"].open)
}

// Once a server's link has taken a message nobody else gets it: if that link is lost, the
// request has its one failure.
// req: FO-01
func TestAMessageThatALinkHasTakenIsNeverSentElsewhere(t *testing.T) {
	t.Parallel()
	x := newChannelWorld(t)
	x.serves("once", 2)
	for _, do := range []roadAction{cutBehind, cutBefore} { // it arrives, or it does not
		x.ran.Clear()
		toA, _ := x.roads.Passed("gate", "a", wire.CmdNodeMessage)
		toB, _ := x.roads.Passed("gate", "b", wire.CmdNodeMessage)
		end := x.roads.At(do, "gate", "a", wire.CmdNodeMessage, toA+1)
		// a has three parts of five, so a new choice begins with it.
		_, err := zlnode.Request[string](x.ctx, x.gate.Channel("once"), "run", struct{}{})
		wantKind(t, err, zlnode.Unavailable)
		receive(t, end.Reached)
		if now, _ := x.roads.Passed("gate", "b", wire.CmdNodeMessage); now != toB {
			t.Errorf("the message was sent to b too")
		}
		most := int32(0)
		if do == cutBehind {
			most = 1
		}
		x.ran.Range(func(rid, n any) bool {
			if n := n.(*atomic.Int32).Load(); rid != "a" || n > most {
				t.Errorf("it ran %d times at %s", n, rid)
			}
			return true
		})
		// The other server goes on, and a is back when it is linked again.
		if rid, err := zlnode.Request[string](x.ctx, x.gate.Channel("once"), "run", struct{}{}); err != nil || rid != "b" {
			t.Errorf("%q, %v", rid, err)
		}
		x.roads.Open("gate", "a")
		x.serves("once", 2)
		for rid := ""; rid != "b"; { // of whom a's turn is next
			if rid, err = zlnode.Request[string](x.ctx, x.gate.Channel("once"), "run", struct{}{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A message to a node reaches that one or nobody.
// req: FO-02, FO-06
func TestMessagesToANode(t *testing.T) {
	t.Parallel()
	x := newChannelWorld(t)
	ping := func(rid string) (string, error) {
		return zlnode.Request[string](x.ctx, x.gate.Peer(rid), "ping", struct{}{})
	}
	for _, rid := range []string{"a", "b", "c", "gate"} { // the last is the node itself
		if from, err := ping(rid); err != nil || from != "gate" {
			t.Errorf("%s heard from %q: %v", rid, from, err)
		}
	}
	_, err := ping("nobody")
	wantKind(t, err, zlnode.NotFound)
	wantKind(t, zlnode.Send(x.ctx, x.gate.Peer("nobody"), "ping", 1), zlnode.NotFound)
	_, err = ping("no RID")
	wantKind(t, err, zlnode.InvalidOperation)
	// Known and not linked: others, which have the handler too, are not asked.
	toA, _ := x.roads.Passed("gate", "a", wire.CmdNodeMessage)
	end := x.roads.At(cutBefore, "gate", "a", wire.CmdNodeMessage, toA+1)
	_, err = ping("a")
	wantKind(t, err, zlnode.Unavailable)
	receive(t, end.Reached)
	_, err = ping("a")
	wantKind(t, err, zlnode.Unavailable)
	wantKind(t, zlnode.Send(x.ctx, x.gate.Peer("a"), "ping", 1), zlnode.Unavailable)
	x.roads.Open("gate", "a")
	x.serves("work", 3)
	if _, err := ping("a"); err != nil {
		t.Error(err)
	}

	// Filters run around each handler, in the order of their registration.
	for packet, kind := range map[string]zlnode.Kind{"refused": zlnode.Rejected, "swallowed": zlnode.InternalFailure, "twice": zlnode.InvalidOperation} {
		_, err := zlnode.Request[string](x.ctx, x.nodes["a"].Peer("gate"), packet, struct{}{})
		wantKind(t, err, kind)
	}
	x.filters.said = nil // the replies came, so no handler runs
	if from, err := zlnode.Request[string](x.ctx, x.nodes["a"].Peer("gate"), "seen", struct{}{}); err != nil || from != "a" {
		t.Errorf("from %q: %v", from, err)
	}
	if got, want := strings.Join(x.filters.said, ", "), "outer seen, inner seen, handler seen, outer true"; got != want {
		t.Errorf("ran %s; want %s", got, want)
	}

	// A node's own full queue is CapacityExceeded for itself, Unavailable for others.
	stopped := make(chan error, 2)
	stop := func() {
		_, err := zlnode.Request[string](x.ctx, x.gate.Peer("gate"), "stop", struct{}{})
		stopped <- err
	}
	go stop()
	receive(t, x.blocked["gate"].entered)
	go stop()
	x.eventually("one waits", func() bool { return x.gate.Stats().ServiceMessages == 2 })
	_, err = ping("gate")
	wantKind(t, err, zlnode.CapacityExceeded)
	_, err = zlnode.Request[string](x.ctx, x.nodes["a"].Peer("gate"), "ping", struct{}{})
	wantKind(t, err, zlnode.Unavailable)
	close(x.blocked["gate"].open)
	for range 2 {
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
	}
}

// A node that shuts down gets nothing new, and what it has taken is worked off and answered.
// req: FO-06
func TestAServerThatStopsWorksOffWhatItHas(t *testing.T) {
	t.Parallel()
	x := newChannelWorld(t)
	accepted := make(chan string, 6)
	for range cap(accepted) { // each server gets its share
		go func() {
			rid, err := zlnode.Request[string](x.ctx, x.gate.Channel("work"), "stop", struct{}{})
			if err != nil {
				rid = err.Error()
			}
			accepted <- rid
		}()
	}
	for range 2 {
		receive(t, x.blocked["b"].entered)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- x.nodes["b"].Shutdown(x.ctx) }()
	x.eventually("b has said that it takes nothing", func() bool { return x.requests("work", 6)["b"] == 0 })
	// Nothing tells others to ask it itself no more, and its shutdown waits for what it has taken.
	_, err := zlnode.Request[string](x.ctx, x.gate.Peer("b"), "ping", struct{}{})
	wantKind(t, err, zlnode.Unavailable)
	close(x.blocked["a"].open)
	close(x.blocked["b"].open)
	close(x.blocked["c"].open)
	got := map[string]int{}
	for range cap(accepted) {
		got[receive(t, accepted)]++
	}
	if fmt.Sprint(got) != "map[a:1 b:2 c:3]" {
		t.Errorf("answered: %v", got)
	}
	if err := receive(t, stopped); err != nil {
		t.Error(err)
	}
	x.wantSpread(4, "map[a:1 c:3]")
}

func TestMistakesOfChannelsAreFoundAtStart(t *testing.T) {
	t.Parallel()
	f := func(want string, kind zlnode.Kind, define func(app *zlnode.App, c *zlnode.Config)) {
		t.Helper()
		app, c := zlnode.NewApp(), zlnode.Config{RID: "a", MeshKey: meshKey}
		define(app, &c)
		_, err := zlnode.Start(t.Context(), c, app)
		wantKind(t, err, kind)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want something about %q", err, want)
		}
	}
	f(`channel "x" is defined twice`, zlnode.InvalidOperation, func(app *zlnode.App, _ *zlnode.Config) {
		zlnode.DefineChannel(app, "x", zlnode.HandlerOptions{})
		zlnode.DefineChannel(app, "x", zlnode.HandlerOptions{})
	})
	f(`request "q" of "channel x" is registered twice`, zlnode.InvalidOperation, func(app *zlnode.App, _ *zlnode.Config) {
		ch := zlnode.DefineChannel(app, "x", zlnode.HandlerOptions{})
		zlnode.OnChannelRequest(ch, "q", who)
		zlnode.OnChannelRequest(ch, "q", who)
	})
	f(`send "m" of "the node" is registered twice`, zlnode.InvalidOperation, func(app *zlnode.App, _ *zlnode.Config) {
		zlnode.OnNodeSend(app, "m", func(*zlnode.NodeCall, int) error { return nil })
		zlnode.OnNodeSendRaw(app, "m", func(*zlnode.NodeCall, []byte) error { return nil })
	})
	f("a channel name has 1 to 255 bytes", zlnode.InvalidOperation, func(app *zlnode.App, _ *zlnode.Config) {
		zlnode.DefineChannel(app, "", zlnode.HandlerOptions{})
	})
	f("Concurrency -1 of channel x", zlnode.InvalidOperation, func(app *zlnode.App, _ *zlnode.Config) {
		zlnode.DefineChannel(app, "x", zlnode.HandlerOptions{Concurrency: -1})
	})
	f("QueueBytes 1 of the node", zlnode.InvalidOperation, func(app *zlnode.App, _ *zlnode.Config) {
		zlnode.NodeHandlers(app, zlnode.HandlerOptions{QueueBytes: 1})
	})
	f(`serve channel "y", which is not defined`, zlnode.NotConfigured, func(_ *zlnode.App, c *zlnode.Config) {
		c.Channels = []zlnode.Channel{{Name: "y"}}
	})
	f(`channel "x" is served twice`, zlnode.InvalidOperation, func(app *zlnode.App, c *zlnode.Config) {
		zlnode.DefineChannel(app, "x", zlnode.HandlerOptions{})
		c.Channels = []zlnode.Channel{{Name: "x"}, {Name: "x"}}
	})
	f("weight 10001 of channel", zlnode.InvalidOperation, func(app *zlnode.App, c *zlnode.Config) {
		zlnode.DefineChannel(app, "x", zlnode.HandlerOptions{})
		c.Channels = []zlnode.Channel{{Name: "x", Weight: 10_001}}
	})
	f("needs links", zlnode.NotConfigured, func(app *zlnode.App, c *zlnode.Config) {
		zlnode.DefineChannel(app, "x", zlnode.HandlerOptions{})
		c.Channels, c.MeshKey = []zlnode.Channel{{Name: "x"}}, nil
	})
}

// What a message is part of goes on to all that its handlers send, to nodes, channels and topics.
func TestAFlowGoesThroughNodesChannelsAndTopics(t *testing.T) {
	t.Parallel()
	w := onEmbedded(t)
	var seen journal
	note := func(at string, of zlnode.Flow, meta session.Metadata) { seen.add("%s %s %d", at, of, len(meta)) }
	app := counterApp()
	ch := zlnode.DefineChannel(app, "work", zlnode.HandlerOptions{})
	zlnode.OnChannelRequest(ch, "begin", func(c *zlnode.NodeCall, _ int) (string, error) {
		note("channel", c.Flow(), c.Metadata())
		seen.add("begins %d", zlnode.NewFlow(c).Origin())
		return zlnode.Request[string](c, c.Node().Peer(c.From()), "back", 1)
	})
	zlnode.OnNodeRequest(app, "back", func(c *zlnode.NodeCall, _ int) (string, error) {
		note("node", c.Flow(), c.Metadata())
		_, err := zlnode.Publish(c, c.Node().Topic("news"), "told", 1)
		return c.Flow().String(), err
	})
	a := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, Listen: "127.0.0.1:0", Channels: []zlnode.Channel{{Name: "work"}}}, app)
	b := w.server("b", app)
	for _, n := range []*zlnode.Node{a, b} {
		if _, err := zlnode.Subscribe(n.Topic("news"), "told", func(c *zlnode.TopicCall, _ int) error {
			note("topic at "+c.Node().RID(), c.Flow(), c.Metadata())
			seen.add("begins %d", zlnode.NewFlow(c).Origin())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.WaitChannel(w.ctx, "work", 1); err != nil {
		t.Fatal(err)
	}
	w.eventually("b knows who subscribes", func() bool { return b.Stats().TopicsElsewhere == 1 })
	flow := zlnode.NewFlow(w.ctx)
	got, err := zlnode.Request[string](zlnode.WithFlow(w.ctx, flow), b.Channel("work"), "begin", 1)
	if err != nil || got != flow.String() {
		t.Fatalf("%q, %v; want %s", got, err, flow)
	}
	for _, at := range []string{"channel", "node", "topic at a", "topic at b"} {
		want := fmt.Sprint(flow, " 0")
		w.eventually(at+" knows the flow", func() bool { return slices.Equal(seen.of(at), []string{want}) })
	}
	ofNode := fmt.Sprint(zlnode.FlowOfNode)
	w.eventually("flows that handlers of nodes and topics begin are of the node", func() bool {
		return slices.Equal(seen.of("begins"), []string{ofNode, ofNode, ofNode})
	})
}
