package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
)

type moveHandler = func(c *zlnode.ActorCall, p *player, payload []byte) error

// startWorld starts the world on one node, with another handler of moves, and
// returns the address for clients.
func startWorld(t *testing.T, move moveHandler) string {
	t.Helper()
	redis, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	node, err := zlnode.Start(within(t), zlnode.Config{
		Role: zlnode.RoleServer, Listen: "127.0.0.1:0", MeshKey: make([]byte, meshKeyBytes), StoreURL: redis.URL(),
		Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: sessionType}},
	}, (&world{move: move, mover: playerMover{}, stood: newStand()}).app())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := node.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return node.SessionAddrs()[0].String()
}

// playAgainst lets a bot play some ticks, without a clock, and returns how it
// ended.
func playAgainst(t *testing.T, move moveHandler) (outcome, *meter) {
	t.Helper()
	m := newMeter()
	b := newBot(1, m, 0)
	b.enter(within(t), startWorld(t, move))
	t.Cleanup(b.close)
	if !b.plays() {
		t.Fatalf("it does not log in: %q, %v", m.told(), b.cause)
	}
	for range 10 {
		b.tick(3)
	}
	return b.finish(), m
}

func TestABotFindsNoFaultInTheWorldAsItIs(t *testing.T) {
	o, m := playAgainst(t, onMove)
	if o.tally != (tally{}) || o.wrong != nil || o.cause != nil || o.arenaLost {
		t.Errorf("%+v", o)
	}
	if m.errors.Load() != 0 || m.requests.count() != 10 || m.pushes.count() != 30 || m.messages() != 80 {
		t.Errorf("errors %q, %d requests, %d pushes, %d messages", m.told(), m.requests.count(), m.pushes.count(), m.messages())
	}
	if o.arena == "" {
		t.Error("nobody knows where its arena is")
	}
}

func TestABotSeesADoubledPush(t *testing.T) {
	o, _ := playAgainst(t, func(c *zlnode.ActorCall, p *player, payload []byte) error {
		if err := onMove(c, p, payload); err != nil || p.pushes%10 != 0 {
			return err
		}
		return c.PushRaw(packetMoved, p.out)
	})
	if want := (tally{Duplicated: 3}); o.tally != want || o.wrong != nil {
		t.Errorf("%+v, want %+v", o, want)
	}
}

func TestABotSeesPushesOutOfOrder(t *testing.T) {
	var held []byte
	o, _ := playAgainst(t, func(c *zlnode.ActorCall, p *player, payload []byte) error {
		a, err := p.execute(c, payload)
		if err != nil {
			return err
		}
		p.pushes++
		push := appendMoved(nil, a, p.pushes)
		if p.pushes == 4 {
			held = slices.Clone(push)
			return nil
		}
		if err := c.PushRaw(packetMoved, push); err != nil || held == nil {
			return err
		}
		push, held = held, nil
		return c.PushRaw(packetMoved, push)
	})
	if want := (tally{Reordered: 1}); o.tally != want || o.wrong != nil {
		t.Errorf("%+v, want %+v", o, want)
	}
}

func TestABotSeesAMoveThatIsExecutedTwice(t *testing.T) {
	o, _ := playAgainst(t, func(c *zlnode.ActorCall, p *player, payload []byte) error {
		if p.position == 5 {
			if _, err := p.execute(c, payload); err != nil {
				return err
			}
		}
		return onMove(c, p, payload)
	})
	if want := (tally{Duplicated: 1}); o.tally != want || o.wrong == nil {
		t.Errorf("%+v, want %+v and a chain that differs", o, want)
	}
}

func TestOnlyAMissingActorOrGatewayEndsABot(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&client.RemoteError{Kind: client.Unavailable}, true},
		{&client.RemoteError{Kind: client.ShuttingDown}, true},
		{&client.RemoteError{Kind: client.NotFound}, true},
		{&client.RemoteError{Kind: client.InternalFailure}, false},
		{&client.RemoteError{Kind: client.CapacityExceeded}, false},
		{&client.Error{Kind: client.DeadlineExceeded, Err: client.ErrRequestTimeout}, false},
		{&client.Error{Kind: client.Unavailable, Err: client.ErrDisconnected}, true},
		{fmt.Errorf("the connection: %w", client.ErrDisconnected), true},
		{errors.New("malformed"), false},
	} {
		m := newMeter()
		b := newBot(1, m, 0)
		b.trouble(c.err)
		b.trouble(c.err)
		gone := b.cause != nil
		if gone != c.want || gone && (m.unavailable.Load() != 1 || m.errors.Load() != 0) || !gone && m.errors.Load() != 2 {
			t.Errorf("%v, twice: gone %v, %d unavailable, %d errors", c.err, gone, m.unavailable.Load(), m.errors.Load())
		}
	}
}

// deadAddr returns an address that was free a moment ago and has no listener.
func deadAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

func TestABotThatMeetsNoGatewayIsUnavailable(t *testing.T) {
	m := newMeter()
	b := newBot(1, m, 0)
	t.Cleanup(b.close)
	b.enter(within(t), deadAddr(t))
	if o := b.finish(); o.cause == nil || o.tally != (tally{}) {
		t.Errorf("%+v", o)
	}
	if m.unavailable.Load() != 1 || m.errors.Load() != 0 || m.online.Load() != 0 {
		t.Errorf("%d unavailable, %d errors, %d online", m.unavailable.Load(), m.errors.Load(), m.online.Load())
	}
}

func TestABotNeedsAlsoTheNodeThatItsPlayerHasJustLeft(t *testing.T) {
	b := newBot(1, newMeter(), time.Second)
	b.travel.rid, b.ledger.rid = "objects-1", "objects-1"
	op := b.begin(true)
	b.travel.arrived("objects-2", "room-1")
	b.ledger.rid = "objects-2"
	b.travel.toward = "objects-3"
	b.onReply(op, nil, &client.RemoteError{Kind: client.Unavailable})
	if want := []string{"objects-1", "objects-2", "objects-3"}; b.cause == nil || !slices.Equal(b.needs, want) {
		t.Errorf("it needs %q for %v, want %q", b.needs, b.cause, want)
	}
}
