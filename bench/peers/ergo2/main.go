package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ergo-services/ergo"
	"github.com/ergo-services/ergo/etf"
	"github.com/ergo-services/ergo/gen"
	"github.com/ergo-services/ergo/lib"
	"github.com/ergo-services/ergo/node"
	"github.com/ergo-services/ergo/proto/dist"
)

type (
	start struct{ run func(p *gen.ServerProcess) } // local only
	pay   struct{ b []byte }                       // local one-way message
	fired struct{ name string }                    // of a timer

	roomPay struct { // for a member of a room
		member string
		b      []byte
	}
)

type stub struct{}

func (stub) Register(context.Context, string, node.RegisterOptions) error { return nil }
func (stub) RegisterProxy(string, int, node.ProxyFlags) error             { return nil }
func (stub) UnregisterProxy(string) error                                 { return nil }
func (stub) Resolve(string) (node.Route, error)                           { return node.Route{}, lib.ErrNoRoute }

func (stub) ResolveProxy(string) (node.ProxyRoute, error) {
	return node.ProxyRoute{}, lib.ErrProxyNoRoute
}

func (stub) Config() (node.RegistrarConfig, error) { return node.RegistrarConfig{}, nil }

func (stub) ConfigItem(string) (etf.Term, error)                        { return nil, lib.ErrUnsupported }
func (stub) SetConfigUpdateCallback(func(string, etf.Term) error) error { return nil }

func newNode(name string, listen int) node.Node {
	o := node.Options{Registrar: stub{}} // StaticRoutesOnly with no registrar panics on the first remote send
	if listen == 0 {
		_, listen = splitAddr(freeAddr())
	}
	o.Listeners = []node.Listener{{Hostname: "127.0.0.1", Listen: uint16(listen)}}
	n, err := ergo.StartNode(name+"@127.0.0.1", "bench", o)
	if err != nil {
		panic(err)
	}
	return n
}

// sink: local messages are pay values, remote ones arrive as []byte (ETF binary).
type sink struct {
	gen.Server
	shard int
	ack   any
	cnt   AckCounter
}

func (s *sink) HandleInfo(p *gen.ServerProcess, m etf.Term) gen.ServerStatus {
	switch m := m.(type) {
	case pay:
		env.Recv(s.shard, stampOf(m.b))
	case []byte:
		if due, n, t := s.cnt.On(m); due && s.ack != nil {
			_ = p.Send(s.ack, encAck(n, t))
		}
	case etf.Pid: // hello: where credits go
		s.ack, s.cnt = m, AckCounter{}
		_ = p.Send(m, etf.Atom("hello"))
	}
	return gen.ServerStatusOK
}

func (s *sink) HandleCall(_ *gen.ServerProcess, _ gen.ServerFrom, m etf.Term) (etf.Term, gen.ServerStatus) {
	return m, gen.ServerStatusOK
}

func (s *sink) HandleDirect(_ *gen.ServerProcess, _ etf.Ref, m any) (any, gen.DirectStatus) {
	return m, gen.DirectStatusOK
}

type runner struct {
	gen.Server
	acked func(int64, int64)
	hello chan struct{}
}

func (r *runner) HandleInfo(p *gen.ServerProcess, m etf.Term) gen.ServerStatus {
	switch m := m.(type) {
	case start:
		m.run(p)
	case etf.Atom:
		r.hello <- struct{}{}
	case []byte:
		r.acked(decAck(m))
	}
	return gen.ServerStatusOK
}

func must(p gen.Process, err error) gen.Process {
	if err != nil {
		panic(err)
	}
	return p
}

// A larger mailbox than the window: v2 mailboxes are channels of 100 by default and a full one
// makes Send fail instead of waiting.
func opts() gen.ProcessOptions {
	return gen.ProcessOptions{MailboxSize: uint16(min(*fWindow*2, 65535))}
}

// send waits for room in a full mailbox.
func send(from gen.Process, to etf.Pid, m any) {
	for from.Send(to, m) != nil {
		time.Sleep(10 * time.Microsecond)
	}
}

func local(actors int) (func(int, int, []byte), func(int, int, []byte) error, func()) {
	n := newNode("local", 0)
	ps := make([]gen.Process, actors)
	pids := make([]etf.Pid, actors)
	for i := range ps {
		ps[i] = must(n.Spawn("", opts(), &sink{shard: i}))
		pids[i] = ps[i].Self()
	}
	snd := must(n.Spawn("", gen.ProcessOptions{}, &runner{}))
	tell := func(_, a int, pl []byte) { send(snd, pids[a], pay{pl}) }
	ask := func(_, a int, pl []byte) error { _, err := ps[a].Direct(pl); return err }
	return tell, ask, n.Stop
}

// theRoom is the one process of a room, which has its members in a map.
type theRoom struct {
	gen.Server
	members map[string]*sink
}

func (r *theRoom) HandleInfo(_ *gen.ServerProcess, m etf.Term) gen.ServerStatus {
	if m, ok := m.(roomPay); ok {
		env.RecvInRoom(r.members[m.member].shard, stampOf(m.b))
	}
	return gen.ServerStatusOK
}

func room(members int) (tellFunc, func()) {
	n, r, ids := newNode("room", 0), &theRoom{members: map[string]*sink{}}, make([]string, members)
	for i := range ids {
		ids[i] = fmt.Sprint("member-", i)
		r.members[ids[i]] = &sink{shard: i}
	}
	pid := must(n.Spawn("", opts(), r)).Self()
	snd := must(n.Spawn("", gen.ProcessOptions{}, &runner{}))
	tell := func(_, a int, pl []byte) { send(snd, pid, roomPay{ids[a], pl}) }
	return tell, n.Stop
}

// ownTimers are a process's timers: the library knows none by a name.
type ownTimers struct {
	gen.Server
	shard  int
	self   gen.Process
	cancel map[string]gen.CancelFunc
}

func (t *ownTimers) start(name string, d time.Duration) {
	t.cancel[name] = t.self.SendAfter(t.self.Self(), fired{name}, d)
}

func (t *ownTimers) stop(name string) {
	if cancel := t.cancel[name]; cancel != nil {
		cancel()
		delete(t.cancel, name)
	}
}

func (t *ownTimers) HandleInfo(p *gen.ServerProcess, m etf.Term) gen.ServerStatus {
	switch m := m.(type) {
	case timerPhase:
		t.self = p
		env.Step(t.shard, m, t)
	case fired:
		delete(t.cancel, m.name)
		env.Fired(t.shard, m.name)
	}
	return gen.ServerStatusOK
}

func timers(actors int) (func(int, int, timerPhase), func()) {
	n := newNode("timers", 0)
	pids := make([]etf.Pid, actors)
	for i := range pids {
		pids[i] = must(n.Spawn("", opts(), &ownTimers{shard: i, cancel: map[string]gen.CancelFunc{}})).Self()
	}
	snd := must(n.Spawn("", gen.ProcessOptions{}, &runner{}))
	step := func(_, a int, phase timerPhase) { send(snd, pids[a], phase) }
	return step, n.Stop
}

func spawn(k int) func() {
	n := newNode(fmt.Sprint("spawn", k), 0)
	for i := 0; i < k; i++ {
		must(n.Spawn("", gen.ProcessOptions{}, &sink{}))
	}
	return n.Stop
}

func serve(addr string, ready func(string)) {
	_, p := splitAddr(addr)
	n := newNode("srv", p)
	must(n.Spawn("echo", opts(), &sink{}))
	ready(addr)
	select {}
}

var echoID = gen.ProcessID{Name: "echo", Node: "srv@127.0.0.1"}

func client(addr string) node.Node {
	n := newNode("cli", 0)
	_, p := splitAddr(addr)
	if err := n.AddStaticRoute("srv@127.0.0.1", "127.0.0.1", uint16(p), node.RouteOptions{IsErgo: true, Handshake: dist.CreateHandshake(dist.HandshakeOptions{}), Proto: dist.CreateProto(node.DefaultProtoOptions())}); err != nil {
		panic(err)
	}
	return n
}

func runRemAsk(addr string, askers int, stop <-chan struct{}, done func(int64)) {
	n := client(addr)
	var wg sync.WaitGroup
	for k := 0; k < askers; k++ {
		wg.Add(1)
		p := must(n.Spawn("", gen.ProcessOptions{}, &runner{}))
		_ = p.Send(p.Self(), start{func(r *gen.ServerProcess) {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				t := time.Now()
				if _, err := r.Call(echoID, sharedPayload); err != nil {
					fmt.Println("call:", err)
					return
				}
				done(int64(time.Since(t)))
			}
		}})
	}
	wg.Wait()
}

func remoteSide(addr string, acked func(int64, int64)) (func([]byte), func(int, []byte) error, func()) {
	n := client(addr)
	hello := make(chan struct{}, 1)
	me := must(n.Spawn("", opts(), &runner{acked: acked, hello: hello}))
	if err := me.Send(echoID, me.Self()); err != nil {
		panic(err)
	}
	select {
	case <-hello:
	case <-time.After(5 * time.Second):
		panic("no hello")
	}
	tell := func(pl []byte) {
		if err := me.Send(echoID, pl); err != nil {
			fmt.Println("send:", err)
			time.Sleep(time.Millisecond)
		}
	}
	return tell, nil, n.Stop
}

func main() {
	runMain(Peer{Name: "ergo-v2.2.4", Local: local, Room: room, Timers: timers, Spawn: spawn, Serve: serve, Remote: remoteSide, RunRemAsk: runRemAsk})
}
