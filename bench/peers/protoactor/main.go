package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
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
	runMain(Peer{Name: "protoactor-go", Local: local, Spawn: spawn, Serve: serve, Remote: remoteSide})
}
