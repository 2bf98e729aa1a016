package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// Peer is one library as the harness drives it. A nil function is a mode that the
// library does not have. Payloads must not be modified: most are sharedPayload.
type Peer struct {
	Name string
	// Local starts that many actors in this process. tell gives actor a one message,
	// of which it calls env.Recv(a, stampOf(payload)); ask waits for an actor's echo.
	// Both get the number of the goroutine that calls, 0 to *fP-1.
	Local func(actors int) (tell tellFunc, ask func(asker, actor int, payload []byte) error, stop func())
	// Room starts a room with that many members, who run one at a time. tell gives a
	// member one message, of which env.RecvInRoom(member, stampOf(payload)) is called.
	Room func(members int) (tell tellFunc, stop func())
	// Timers starts that many actors. step has actor a call env.Step(a, phase, t) in its
	// turn, t being its timers, and each callback of one of them calls env.Fired.
	Timers func(actors int) (step func(producer, actor int, phase timerPhase), stop func())
	// Spawn starts n actors and returns when all exist. They live until stop.
	Spawn func(n int) (stop func())
	// Serve runs the server side in a process of its own until that is ended. It
	// listens on addr and says by ready what Remote gets as address.
	Serve func(addr string, ready func(addr string))
	// Remote connects this process. tell is called by one goroutine; the server counts
	// its messages with an AckCounter, whose credits go to acked. ask is as in Local.
	Remote func(addr string, acked func(n, stamp int64)) (tell func(payload []byte), ask func(asker int, payload []byte) error, stop func())
	// RunRemAsk replaces the ask of Remote if askers must be of the library's own kind:
	// it runs them until stop is closed and tells done how long each request took.
	RunRemAsk func(addr string, askers int, stop <-chan struct{}, done func(ns int64))
	// Subscribe has n subscribers in this process to the one topic, at Serve's address, and
	// calls got for each message that one of them gets, whichever. It returns when the
	// server, if the library has one, knows them.
	Subscribe func(addr string, n int, got func())
	// Publish connects this process, which has no subscribers, and returns when what it
	// publishes gets to those of that many other processes. One goroutine calls publish.
	Publish func(addr string, processes int) (publish func(payload []byte), stop func())
}

type tellFunc = func(producer, actor int, payload []byte)

var (
	fMode    = flag.String("mode", "tell1", "tell1 tellN tellmany room ask askN rask raskN rask256 rtell fanout fanout1 timers spawn")
	fSize    = flag.Int("size", 64, "bytes of a payload, 16 at least")
	fSeconds = flag.Float64("seconds", 3, "how long to measure, after a warm-up")
	fWindow  = flag.Int("window", 16384, "one-way messages under way at most, 64 at least")
	fP       = flag.Int("p", 0, "producers or askers; 0: as the mode says")
	fActors  = flag.Int("actors", 0, "actors of local modes, subscribers of fan-out; 0: as the mode says")
	fN       = flag.Int("n", 50_000, "actors of spawn")
	fNote    = flag.String("note", "", "appended to the peer's name")
	fProfile = flag.String("cpuprofile", "", "write a CPU profile of the time measured, of the server to this name and .server")
)

// modes are how many callers and actors each has.
var modes = map[string]struct{ callers, actors int }{
	"tell1": {1, 1}, "tellN": {4, 1}, "tellmany": {4, 1000}, "room": {4, 100}, "ask": {1, 1}, "askN": {4, 1},
	"rask": {1, 1}, "raskN": {4, 1}, "rask256": {256, 1}, "rtell": {1, 1}, "fanout": {1, 1000}, "fanout1": {1, 1000}, "timers": {4, 1000}, "spawn": {1, 1},
}

// sharedPayload is the payload without a stamp, -size bytes long.
var sharedPayload []byte

// runMain measures what the flags say and prints one line of RESULT or SKIP, and
// WARN for each check that failed.
func runMain(p Peer) {
	if !flag.Parsed() {
		flag.Parse() // else the peer did, to look at its own flags first
	}
	mode, known := modes[*fMode]
	if !known || *fSize < 16 || *fWindow < 64 {
		fmt.Fprintln(os.Stderr, "bad -mode, -size or -window; see -help")
		os.Exit(2)
	}
	if *fP == 0 {
		*fP = mode.callers
	}
	if *fActors == 0 {
		*fActors = mode.actors
	}
	sharedPayload = make([]byte, *fSize)
	if *fNote != "" {
		p.Name += "-" + *fNote
	}
	if inChild() {
		go answerParent()
		if addr, yes := subscribesTo(); yes {
			subscribeChild(p, addr)
		}
		serveChild(p)
		return
	}
	switch *fMode {
	case "tell1", "tellN", "tellmany":
		measureTell(p)
	case "room":
		measureRoom(p)
	case "ask", "askN":
		measureAsk(p)
	case "rask", "raskN", "rask256":
		measureRemoteAsk(p)
	case "rtell":
		measureRemoteTell(p)
	case "fanout", "fanout1":
		measureFanout(p)
	case "timers":
		measureTimers(p)
	case "spawn":
		measureSpawn(p)
	}
}

func skip(p Peer) { fmt.Printf("SKIP %s %s: it has none\n", p.Name, *fMode) }

// rowSize is the number that a row has beside its mode: the bytes of a payload, or the
// actors of modes that have none.
func rowSize() int {
	switch *fMode {
	case "spawn":
		return *fN
	case "timers":
		return *fActors
	}
	return *fSize
}

func warn(p Peer, format string, args ...any) {
	fmt.Printf("WARN %s %s %d: %s\n", p.Name, *fMode, rowSize(), fmt.Sprintf(format, args...))
}

// end lets a library stop, which may take it long: the process ends anyway.
func end(stop func()) {
	done := make(chan struct{})
	go func() { defer close(done); stop() }()
	select {
	case <-done:
	case <-time.After(3 * time.Second):
	}
}
