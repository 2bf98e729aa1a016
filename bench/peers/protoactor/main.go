package main

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/asynkron/protoactor-go/scheduler"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type (
	msg    = wrapperspb.BytesValue
	ackMsg = wrapperspb.StringValue // any second registered proto type
)

const timeout = 5 * time.Second

func newSystem() *actor.ActorSystem {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
}

// sink counts one-way messages, echoes requests.
type sink struct{ shard int }

func (s *sink) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *msg:
		if c.Sender() != nil {
			c.Respond(m)
			return
		}
		env.Recv(s.shard, stampOf(m.Value))
	}
}

// roomMsg is for a member of a room.
type roomMsg struct {
	member string
	value  []byte
}

// theRoom is the one actor of a room, which has its members in a map.
type theRoom struct{ members map[string]*sink }

func (r *theRoom) Receive(c actor.Context) {
	if m, ok := c.Message().(*roomMsg); ok {
		env.RecvInRoom(r.members[m.member].shard, stampOf(m.value))
	}
}

func room(members int) (tellFunc, func()) {
	sys, r, ids := newSystem(), &theRoom{map[string]*sink{}}, make([]string, members)
	for i := range ids {
		ids[i] = "member-" + strconv.Itoa(i)
		r.members[ids[i]] = &sink{shard: i}
	}
	pid := sys.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return r }))
	tell := func(_, a int, pl []byte) { sys.Root.Send(pid, &roomMsg{ids[a], pl}) }
	return tell, func() { sys.Shutdown() }
}

func local(actors int) (func(int, int, []byte), func(int, int, []byte) error, func()) {
	sys := newSystem()
	pids := make([]*actor.PID, actors)
	for i := range pids {
		i := i
		pids[i] = sys.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &sink{shard: i} }))
	}
	tell := func(_, a int, pl []byte) { sys.Root.Send(pids[a], &msg{Value: pl}) }
	ask := func(_, a int, pl []byte) error {
		_, err := sys.Root.RequestFuture(pids[a], &msg{Value: pl}, timeout).Result()
		return err
	}
	return tell, ask, func() { sys.Shutdown() }
}

// ownTimers are an actor's timers: the scheduler knows none by a name.
type ownTimers struct {
	shard     int
	self      *actor.PID
	scheduler *scheduler.TimerScheduler
	cancel    map[string]scheduler.CancelFunc
}

type fired struct{ name string }

func (t *ownTimers) start(name string, d time.Duration) {
	t.cancel[name] = t.scheduler.SendOnce(d, t.self, fired{name})
}

func (t *ownTimers) stop(name string) {
	if cancel := t.cancel[name]; cancel != nil {
		cancel()
		delete(t.cancel, name)
	}
}

func (t *ownTimers) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case timerPhase:
		t.self = c.Self()
		env.Step(t.shard, m, t)
	case fired:
		delete(t.cancel, m.name)
		env.Fired(t.shard, m.name)
	}
}

func timers(actors int) (func(int, int, timerPhase), func()) {
	sys := newSystem()
	s := scheduler.NewTimerScheduler(sys.Root)
	pids := make([]*actor.PID, actors)
	for i := range pids {
		pids[i] = sys.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
			return &ownTimers{shard: i, scheduler: s, cancel: map[string]scheduler.CancelFunc{}}
		}))
	}
	return func(_, a int, phase timerPhase) { sys.Root.Send(pids[a], phase) }, func() { sys.Shutdown() }
}

func spawn(n int) func() {
	sys := newSystem()
	props := actor.PropsFromProducer(func() actor.Actor { return &sink{} })
	var last *actor.PID
	for i := 0; i < n; i++ {
		last = sys.Root.Spawn(props)
	}
	_, _ = sys.Root.RequestFuture(last, &msg{Value: sharedPayload}, timeout).Result()
	return func() { sys.Shutdown() }
}

// echo is the server actor: requests carry a sender that is not the ack actor.
type echo struct {
	ack *actor.PID
	cnt AckCounter
}

func (e *echo) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *ackMsg: // hello: its sender receives the credits
		e.ack, e.cnt = c.Sender(), AckCounter{}
		c.Respond(&ackMsg{Value: "hello"})
	case *msg:
		if c.Sender() != nil {
			c.Respond(m)
			return
		}
		if due, n, s := e.cnt.On(m.Value); due && e.ack != nil {
			c.Send(e.ack, &msg{Value: encAck(n, s)})
		}
	}
}

func serve(addr string, ready func(string)) {
	sys := newSystem()
	h, p := splitAddr(addr)
	remote.NewRemote(sys, remote.Configure(h, p)).Start()
	_, err := sys.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return &echo{} }), "echo")
	if err != nil {
		panic(err)
	}
	ready(addr)
	select {}
}

func remoteSide(addr string, acked func(int64, int64)) (func([]byte), func(int, []byte) error, func()) {
	sys := newSystem()
	h, p := splitAddr(freeAddr())
	r := remote.NewRemote(sys, remote.Configure(h, p))
	r.Start()
	to := actor.NewPID(addr, "echo")
	hello := make(chan struct{}, 1)
	me := sys.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *ackMsg:
			hello <- struct{}{}
		case *msg:
			acked(decAck(m.Value))
		}
	}))
	sys.Root.RequestWithCustomSender(to, &ackMsg{Value: "hello"}, me)
	select {
	case <-hello:
	case <-time.After(timeout):
		panic(fmt.Sprint("no hello from ", addr))
	}
	tell := func(pl []byte) { sys.Root.Send(to, &msg{Value: pl}) }
	ask := func(_ int, pl []byte) error {
		_, err := sys.Root.RequestFuture(to, &msg{Value: pl}, timeout).Result()
		return err
	}
	return tell, ask, func() {} // r.Shutdown(true) may wait 10 s; the process ends anyway
}

func main() {
	runMain(Peer{Name: "protoactor-go", Local: local, Room: room, Timers: timers, Spawn: spawn, Serve: serve, Remote: remoteSide})
}
