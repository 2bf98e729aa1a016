package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// startRooms starts the world on a gateway and two object nodes in this process, with rooms,
// and returns the address for clients.
func startRooms(t *testing.T, change func(w *world)) string {
	t.Helper()
	redis, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	start := func(cfg zlnode.Config) (*zlnode.Node, *world) {
		w := newWorld(false)
		change(w)
		cfg.MeshKey, cfg.StoreURL, cfg.RecoveryHold = make([]byte, meshKeyBytes), redis.URL(), -1
		n, err := zlnode.Start(within(t), cfg, w.app())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := n.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
		return n, w
	}
	for i := range objectNodes {
		start(zlnode.Config{RID: fmt.Sprint("objects-", i+1), Role: zlnode.RoleServer, Listen: "127.0.0.1:0"})
	}
	gateway, w := start(zlnode.Config{
		RID: "gateway", Role: zlnode.RoleClient,
		Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: sessionType, IdleTimeout: -1}},
	})
	if err := gateway.WaitPeers(within(t), objectNodes); err != nil {
		t.Fatal(err)
	}
	rooms, err := openRooms(within(t), gateway, objectNodes)
	if err != nil {
		t.Fatal(err)
	}
	w.open.Store(&rooms)
	return gateway.SessionAddrs()[0].String()
}

// hopAgainst lets a bot play, and a visitor visit, until the player has changed its node
// some times, and returns how it ended.
func hopAgainst(t *testing.T, settle time.Duration, change func(w *world)) (outcome, *demo) {
	t.Helper()
	m := newMeter()
	b := newBot(1, m, time.Millisecond)
	b.settle = settle
	d := &demo{options: demoOptions{join: true}, meter: m, bots: []*bot{b}, visitors: visitors([]*bot{b})}
	gateway := startRooms(t, change)
	b.enter(within(t), gateway)
	t.Cleanup(b.close)
	t.Cleanup(d.closeVisitors)
	v := d.visitors[0]
	if err := v.enter(within(t), gateway, nil); err != nil || !b.plays() {
		t.Fatalf("they do not log in: %v, %q, %v", err, m.told(), b.cause)
	}
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for ctx := within(t); m.hops.crossed.Load() < 5; {
		b.tick(3)
		v.visit(b)
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%d hops crossed, %d within a node, failed %v", m.hops.crossed.Load(), m.hops.within.Load(), m.hops.failures())
		}
	}
	return b.finish(), d
}

func TestABotFindsNoFaultInAPlayerThatHops(t *testing.T) {
	o, d := hopAgainst(t, settleTime, func(*world) {})
	m := d.meter
	if o.tally != (tally{}) || o.nodes != (tally{}) || o.wrong != nil || o.cause != nil || o.visited != nil || o.unsent != "" || !o.crossed {
		t.Errorf("%+v", o)
	}
	if m.errors.Load() != 0 || m.requests.count() == 0 || d.bots[0].visited.sent < 5 || len(m.hops.failures()) > 0 {
		t.Errorf("errors %q, %d requests, %d visits, failed %v", m.told(), m.requests.count(), d.bots[0].visited.sent, m.hops.failures())
	}
	j := d.joins([]outcome{o})
	if j.astray != nil || len(j.census) != objectNodes*roomsPerNode {
		t.Errorf("%v, census %+v", j.astray, j.census)
	}
	if j.sealed.Count != j.crossed || j.took.Count != j.crossed || j.seen.Count != j.crossed || j.apart.Count == 0 {
		t.Errorf("%+v", j)
	}
	if astray(j.census, []outcome{{room: "room-1"}, {room: "room-1"}}) == nil {
		t.Error("players that are not there were not missed")
	}
}

// forgetful loses a part of the state.
type forgetful struct {
	playerMover
	forget func(*playerState)
}

func (f forgetful) Capture(p *player) ([]byte, error) {
	b, err := f.playerMover.Capture(p)
	var s playerState
	if err != nil || json.Unmarshal(b, &s) != nil {
		return nil, err
	}
	f.forget(&s)
	return json.Marshal(s)
}

func TestABotSeesWhatAPlayerLosesOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		forget func(*playerState)
		found  func(o outcome) bool
	}{
		"an op that was executed":     {func(s *playerState) { s.Position--; s.Chain = 0 }, func(o outcome) bool { return o.wrong != nil }},
		"a push that was sent":        {func(s *playerState) { s.Pushes-- }, func(o outcome) bool { return o.tally.Duplicated > 0 }},
		"a push that was not sent":    {func(s *playerState) { s.Pushes++ }, func(o outcome) bool { return o.tally.Lost > 0 }},
		"a message of the visitor":    {func(s *playerState) { s.Visits.Seen.Missing++ }, func(o outcome) bool { return o.nodes.Lost > 0 }},
		"that an op came only once":   {func(s *playerState) { s.Ops.Seen.Duplicated++ }, func(o outcome) bool { return o.tally.Duplicated > 0 }},
		"that a cheer came only once": {func(s *playerState) { s.Cheers.Seen.Duplicated++ }, func(o outcome) bool { return o.nodes.Duplicated > 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := hopAgainst(t, settleTime/20, func(w *world) { w.mover = forgetful{forget: c.forget} })
			if !c.found(o) {
				t.Errorf("not found: %+v", o)
			}
		})
	}
}

func TestAHopThatIsRefusedIsAnsweredToo(t *testing.T) {
	m := newMeter()
	b := newBot(1, m, time.Millisecond)
	b.enter(within(t), startRooms(t, func(*world) {}))
	t.Cleanup(b.close)
	b.travel.rooms = []roomPlace{{"no-such-room", "objects-1"}}
	for range 3 {
		b.tick(1)
	}
	if o := b.finish(); o.tally != (tally{}) || o.wrong != nil || o.cause != nil || o.room != "" {
		t.Errorf("%+v", o)
	}
	if f := m.hops.failures(); f["NotFound"] == 0 || m.errors.Load() != 0 {
		t.Errorf("failed %v, errors %q", f, m.told())
	}
}
