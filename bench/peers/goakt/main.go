package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// RemoteTell in goakt v3 is one blocking RPC per message; RemoteBatchTell carries many in one RPC.
var (
	fBatch = flag.Int("batch", 1, "rtell: messages per RemoteBatchTell (1 = RemoteTell)")
	fComp  = flag.String("compression", "none", "remote compression: none|zstd (goakt's default is zstd)")
)

type (
	msg      = wrapperspb.BytesValue
	tellMsg  = wrapperspb.BytesValue
	reqMsg   = wrapperspb.StringValue // request type: goakt actors cannot see "was this an Ask" cheaply
	helloMsg = wrapperspb.BoolValue
)

const timeout = 5 * time.Second

var ctx = context.Background()

func system(name, addr string) actor.ActorSystem {
	opts := []actor.Option{actor.WithLogger(log.DiscardLogger), actor.WithActorInitMaxRetries(1)}
	if addr != "" {
		h, p := splitAddr(addr)
		c := remote.NoCompression
		if *fComp == "zstd" {
			c = remote.ZstdCompression
		}
		opts = append(opts, actor.WithRemote(remote.NewConfig(h, p, remote.WithCompression(c))))
	}
	s, err := actor.NewActorSystem(name, opts...)
	if err != nil {
		panic(err)
	}
	if err := s.Start(ctx); err != nil {
		panic(err)
	}
	return s
}

type sink struct{ shard int }

func (*sink) PreStart(*actor.Context) error { return nil }
func (*sink) PostStop(*actor.Context) error { return nil }
func (s *sink) Receive(c *actor.ReceiveContext) {
	switch m := c.Message().(type) {
	case *msg:
		env.Recv(s.shard, stampOf(m.Value))
	case *reqMsg:
		c.Response(m)
	}
}

func local(actors int) (func(int, int, []byte), func(int, int, []byte) error, func()) {
	s := system("local", "")
	pids := make([]*actor.PID, actors)
	for i := range pids {
		p, err := s.Spawn(ctx, "sink"+strconv.Itoa(i), &sink{shard: i}, actor.WithLongLived())
		if err != nil {
			panic(err)
		}
		pids[i] = p
	}
	str := string(make([]byte, len(sharedPayload)))
	tell := func(_, a int, pl []byte) { _ = actor.Tell(ctx, pids[a], &msg{Value: pl}) }
	ask := func(_, a int, pl []byte) error {
		_, err := actor.Ask(ctx, pids[a], &reqMsg{Value: str}, timeout)
		return err
	}
	return tell, ask, func() {}
}

// theRoom is the one actor of a room, which has its members in a map. Messages must be
// of protobuf: an Any has the member's id for the url of its type.
type theRoom struct{ members map[string]*sink }

func (*theRoom) PreStart(*actor.Context) error { return nil }
func (*theRoom) PostStop(*actor.Context) error { return nil }
func (r *theRoom) Receive(c *actor.ReceiveContext) {
	if m, ok := c.Message().(*anypb.Any); ok {
		env.RecvInRoom(r.members[m.GetTypeUrl()].shard, stampOf(m.Value))
	}
}

func room(members int) (tellFunc, func()) {
	s, r, ids := system("room", ""), &theRoom{map[string]*sink{}}, make([]string, members)
	for i := range ids {
		ids[i] = "member-" + strconv.Itoa(i)
		r.members[ids[i]] = &sink{shard: i}
	}
	pid, err := s.Spawn(ctx, "room", r, actor.WithLongLived())
	if err != nil {
		panic(err)
	}
	tell := func(_, a int, pl []byte) { _ = actor.Tell(ctx, pid, &anypb.Any{TypeUrl: ids[a], Value: pl}) }
	return tell, func() {}
}

type (
	stepMsg  = wrapperspb.UInt32Value
	firedMsg = wrapperspb.StringValue
)

// ownTimers are an actor's timers. The system's scheduler knows them by a name that is
// unique in the system.
type ownTimers struct {
	shard   int
	self    *actor.PID
	system  actor.ActorSystem
	started map[string]string // by their names here
}

func (t *ownTimers) start(name string, d time.Duration) {
	ref := strconv.Itoa(t.shard) + "/" + name
	if err := t.system.ScheduleOnce(ctx, &firedMsg{Value: name}, t.self, d, actor.WithReference(ref)); err != nil {
		panic(err)
	}
	t.started[name] = ref
}

func (t *ownTimers) stop(name string) {
	if ref, ok := t.started[name]; ok {
		_ = t.system.CancelSchedule(ref) // it may have fired
		delete(t.started, name)
	}
}

func (*ownTimers) PreStart(*actor.Context) error { return nil }
func (*ownTimers) PostStop(*actor.Context) error { return nil }
func (t *ownTimers) Receive(c *actor.ReceiveContext) {
	switch m := c.Message().(type) {
	case *stepMsg:
		t.self, t.system = c.Self(), c.ActorSystem()
		env.Step(t.shard, timerPhase(m.GetValue()), t)
	case *firedMsg:
		delete(t.started, m.GetValue())
		env.Fired(t.shard, m.GetValue())
	}
}

func timers(actors int) (func(int, int, timerPhase), func()) {
	s := system("timers", "")
	pids := make([]*actor.PID, actors)
	for i := range pids {
		p, err := s.Spawn(ctx, "timers"+strconv.Itoa(i), &ownTimers{shard: i, started: map[string]string{}}, actor.WithLongLived())
		if err != nil {
			panic(err)
		}
		pids[i] = p
	}
	step := func(_, a int, phase timerPhase) { _ = actor.Tell(ctx, pids[a], &stepMsg{Value: uint32(phase)}) }
	return step, func() {}
}

func spawn(n int) func() {
	s := system("spawn", "")
	var last *actor.PID
	for i := 0; i < n; i++ {
		p, err := s.Spawn(ctx, "a"+strconv.Itoa(i), &sink{}, actor.WithLongLived())
		if err != nil {
			panic(err)
		}
		last = p
	}
	_, _ = actor.Ask(ctx, last, &reqMsg{}, timeout)
	return func() { _ = s }
}

type echo struct {
	cnt AckCounter
	ack func(n, s int64)
}

func (*echo) PreStart(*actor.Context) error { return nil }
func (*echo) PostStop(*actor.Context) error { return nil }
func (e *echo) Receive(c *actor.ReceiveContext) {
	switch m := c.Message().(type) {
	case *helloMsg:
		e.cnt = AckCounter{}
		to := c.RemoteSender()
		self := c.Self()
		ch := make(chan [2]int64, 1024)
		go func() { // credits leave on their own goroutine: RemoteTell blocks for the RPC
			for a := range ch {
				if err := self.RemoteTell(ctx, to, &msg{Value: encAck(a[0], a[1])}); err != nil {
					fmt.Println("ack:", err)
				}
			}
		}()
		e.ack = func(n, s int64) { ch <- [2]int64{n, s} }
	case *msg:
		if due, n, s := e.cnt.On(m.Value); due && e.ack != nil {
			e.ack(n, s)
		}
	case *reqMsg:
		c.Response(m)
	}
}

func serve(addr string, ready func(string)) {
	s := system("server", addr)
	if _, err := s.Spawn(ctx, "echo", &echo{}, actor.WithLongLived()); err != nil {
		panic(err)
	}
	ready(addr)
	select {}
}

type client struct{ acked func(int64, int64) }

func (*client) PreStart(*actor.Context) error { return nil }
func (*client) PostStop(*actor.Context) error { return nil }
func (k *client) Receive(c *actor.ReceiveContext) {
	if m, ok := c.Message().(*msg); ok {
		k.acked(decAck(m.Value))
	}
}

func remoteSide(addr string, acked func(int64, int64)) (func([]byte), func(int, []byte) error, func()) {
	s := system("client", freeAddr())
	me, err := s.Spawn(ctx, "me", &client{acked: acked}, actor.WithLongLived())
	if err != nil {
		panic(err)
	}
	h, p := splitAddr(addr)
	to, err := me.RemoteLookup(ctx, h, p, "echo")
	if err != nil {
		panic(err)
	}
	if err := me.RemoteTell(ctx, to, &helloMsg{}); err != nil {
		panic(err)
	}
	var buf []proto.Message
	str := string(make([]byte, len(sharedPayload)))
	tell := func(pl []byte) {
		if *fBatch <= 1 {
			if err := me.RemoteTell(ctx, to, &msg{Value: pl}); err != nil {
				fmt.Println("tell:", err)
			}
			return
		}
		if buf = append(buf, &msg{Value: pl}); len(buf) >= *fBatch {
			if err := me.RemoteBatchTell(ctx, to, buf); err != nil {
				fmt.Println("tell:", err)
			}
			buf = buf[:0]
		}
	}
	ask := func(_ int, pl []byte) error {
		_, err := me.RemoteAsk(ctx, to, &reqMsg{Value: str}, timeout)
		return err
	}
	return tell, ask, func() {}
}

func main() {
	runMain(Peer{Name: "goakt-v3", Local: local, Room: room, Timers: timers, Spawn: spawn, Serve: serve, Remote: remoteSide})
}
