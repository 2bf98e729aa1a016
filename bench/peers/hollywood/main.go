package main

import (
	"flag"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/anthdm/hollywood/actor"
	"github.com/anthdm/hollywood/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type (
	msg    = wrapperspb.BytesValue
	ackMsg = wrapperspb.StringValue
)

const timeout = 5 * time.Second

var fRepeat = flag.Bool("repeat", false, "timers: SendRepeat in place of time.AfterFunc")

// sink counts one-way messages, echoes requests.
type sink struct{ shard int }

func (s *sink) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case *msg:
		if c.Sender() != nil {
			c.Respond(m)
			return
		}
		env.Recv(s.shard, stampOf(m.Value))
	}
}

func engine(r *remote.Remote) *actor.Engine {
	cfg := actor.NewEngineConfig()
	if r != nil {
		cfg = cfg.WithRemote(r)
	}
	e, err := actor.NewEngine(cfg)
	if err != nil {
		panic(err)
	}
	return e
}

// roomMsg is for a member of a room.
type roomMsg struct {
	member string
	value  []byte
}

// theRoom is the one actor of a room, which has its members in a map.
type theRoom struct{ members map[string]*sink }

func (r *theRoom) Receive(c *actor.Context) {
	if m, ok := c.Message().(*roomMsg); ok {
		env.RecvInRoom(r.members[m.member].shard, stampOf(m.value))
	}
}

func room(members int) (tellFunc, func()) {
	e, r, ids := engine(nil), &theRoom{map[string]*sink{}}, make([]string, members)
	for i := range ids {
		ids[i] = "member-" + strconv.Itoa(i)
		r.members[ids[i]] = &sink{shard: i}
	}
	pid := e.Spawn(func() actor.Receiver { return r }, "room", actor.WithInboxSize(1024*4))
	return func(_, a int, pl []byte) { e.Send(pid, &roomMsg{ids[a], pl}) }, func() {}
}

func local(actors int) (func(int, int, []byte), func(int, int, []byte) error, func()) {
	e := engine(nil)
	pids := make([]*actor.PID, actors)
	for i := range pids {
		i := i
		pids[i] = e.Spawn(func() actor.Receiver { return &sink{shard: i} }, "sink", actor.WithInboxSize(1024*4))
	}
	tell := func(_, a int, pl []byte) { e.Send(pids[a], &msg{Value: pl}) }
	ask := func(_, a int, pl []byte) error {
		_, err := e.Request(pids[a], &msg{Value: pl}, timeout).Result()
		return err
	}
	return tell, ask, func() {}
}

// ownTimers are an actor's timers.
type ownTimers struct {
	shard  int
	self   *actor.PID
	engine *actor.Engine
	cancel map[string]func()
}

type fired struct{ name string }

func (t *ownTimers) start(name string, d time.Duration) {
	if *fRepeat {
		t.cancel[name] = t.engine.SendRepeat(t.self, fired{name}, d).Stop
		return
	}
	e, self := t.engine, t.self
	timer := time.AfterFunc(d, func() { e.Send(self, fired{name}) })
	t.cancel[name] = func() { timer.Stop() }
}

func (t *ownTimers) stop(name string) {
	if cancel := t.cancel[name]; cancel != nil {
		cancel()
		delete(t.cancel, name)
	}
}

func (t *ownTimers) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case timerPhase:
		t.self, t.engine = c.PID(), c.Engine()
		env.Step(t.shard, m, t)
	case fired:
		t.stop(m.name) // a repeater would go on
		env.Fired(t.shard, m.name)
	}
}

func timers(actors int) (func(int, int, timerPhase), func()) {
	e := engine(nil)
	pids := make([]*actor.PID, actors)
	for i := range pids {
		pids[i] = e.Spawn(func() actor.Receiver { return &ownTimers{shard: i, cancel: map[string]func(){}} }, "timers")
	}
	return func(_, a int, phase timerPhase) { e.Send(pids[a], phase) }, func() {}
}

func spawn(n int) func() {
	e := engine(nil)
	var last *actor.PID
	for i := 0; i < n; i++ {
		last = e.Spawn(func() actor.Receiver { return &sink{} }, "sink") // default inbox: 1024 slots
	}
	_, _ = e.Request(last, &msg{Value: sharedPayload}, timeout).Result()
	return func() { _ = e }
}

// Pitfall: one wire batch that mixes messages with and without a sender gives the sender-less ones
// the batch's first sender on arrival, so the server must not tell requests apart by Sender() != nil.
// One-way messages and requests therefore use two different server actors here.
type echo struct{}

func (echo) Receive(c *actor.Context) {
	if m, ok := c.Message().(*msg); ok {
		c.Respond(m)
	}
}

type counter struct {
	ack *actor.PID
	cnt AckCounter
}

func (e *counter) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case *ackMsg:
		e.ack, e.cnt = c.Sender(), AckCounter{}
		c.Respond(&ackMsg{Value: "hello"})
	case *msg:
		if due, n, s := e.cnt.On(m.Value); due && e.ack != nil {
			c.Send(e.ack, &msg{Value: encAck(n, s)})
		}
	}
}

func serve(addr string, ready func(string)) {
	e := engine(remote.New(addr, remote.NewConfig()))
	e.Spawn(func() actor.Receiver { return echo{} }, "echo", actor.WithID("1"))
	e.Spawn(func() actor.Receiver { return &counter{} }, "count", actor.WithID("1"), actor.WithInboxSize(1024*4))
	ready(addr)
	select {}
}

func remoteSide(addr string, acked func(int64, int64)) (func([]byte), func(int, []byte) error, func()) {
	e := engine(remote.New(freeAddr(), remote.NewConfig()))
	echoPID := actor.NewPID(addr, "echo/1")
	countPID := actor.NewPID(addr, "count/1")
	hello := make(chan struct{}, 1)
	me := e.SpawnFunc(func(c *actor.Context) {
		switch m := c.Message().(type) {
		case *ackMsg:
			hello <- struct{}{}
		case *msg:
			acked(decAck(m.Value))
		}
	}, "me")
	e.SendWithSender(countPID, &ackMsg{Value: "hello"}, me)
	select {
	case <-hello:
	case <-time.After(timeout):
		panic("no hello")
	}
	tell := func(pl []byte) { e.Send(countPID, &msg{Value: pl}) }
	ask := func(_ int, pl []byte) error {
		_, err := e.Request(echoPID, &msg{Value: pl}, timeout).Result()
		return err
	}
	return tell, ask, func() {}
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	runMain(Peer{Name: "hollywood", Local: local, Room: room, Timers: timers, Spawn: spawn, Serve: serve, Remote: remoteSide})
}
