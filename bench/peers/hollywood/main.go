package main

import (
	"io"
	"log/slog"
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
	runMain(Peer{Name: "hollywood", Local: local, Spawn: spawn, Serve: serve, Remote: remoteSide})
}
