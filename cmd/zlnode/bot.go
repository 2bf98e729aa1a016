package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zlnode/zlnode/client"
)

const (
	// openMax bounds a bot's ops without an answer; at the bound it leaves out
	// ticks. The Actor's queue holds more.
	openMax = 512
	// loginTime bounds one log-in, requestTime a request.
	loginTime   = 15 * time.Second
	requestTime = 10 * time.Second
	// settleTime bounds the wait for what is outstanding when a bot has stopped
	// sending. It is longer than requestTime, so requests have ended by then.
	settleTime = requestTime + time.Second
	// playersPerArena is how many bots share an arena.
	playersPerArena = 10
)

// bot is one client of the demo: it logs in, plays, and checks every answer.
//
// Its sends come from one goroutine at a time, which is the only caller of its
// methods; answers come from the client's reader goroutine.
type bot struct {
	login loginRequest
	meter *meter

	client *client.Client
	place  loginReply // where its Actors live, once it is logged in

	mu      sync.Mutex
	ledger  *ledger
	stopped bool          // it sends nothing any more
	settled chan struct{} // closed when it is stopped and nothing is open
	over    bool          // what comes now is not counted
	gone    chan struct{} // closed when it met a dead node
	cause   error         // what it met; read it after gone
}

// newBot returns the bot with that number, counted from 0.
func newBot(n int, m *meter) *bot {
	return &bot{
		login:  loginRequest{Player: fmt.Sprintf("player-%d", n), Arena: fmt.Sprintf("arena-%d", n/playersPerArena)},
		meter:  m,
		ledger: newLedger(), settled: make(chan struct{}), gone: make(chan struct{}),
	}
}

// enter connects to the gateway and logs in. It reports whether the bot can play;
// what went wrong is counted.
func (b *bot) enter(ctx context.Context, gateway string) bool {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{
		Addr: gateway, OnPush: b.onPush, OnState: b.onState,
		RequestTimeout: requestTime,
	})
	if err == nil {
		b.client = c
		err = c.RequestJSON(ctx, packetLogin, b.login, &b.place)
	}
	if err != nil {
		b.trouble(fmt.Errorf("log-in: %w", err))
		return false
	}
	b.meter.online.Add(1)
	return true
}

// play sends moves one-way messages and one request each tick until ctx ends or
// the bot's Actor is gone. The first tick comes after delay, by which the bots
// spread. It does not wait for answers, so that slow ones delay nothing.
func (b *bot) play(ctx context.Context, delay, tick time.Duration, moves int) {
	first := time.NewTimer(delay)
	defer first.Stop()
	select {
	case <-first.C:
	case <-ctx.Done():
		return
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		b.tick(ctx, moves)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		case <-b.gone:
			b.meter.online.Add(-1)
			return
		}
	}
}

func (b *bot) tick(ctx context.Context, moves int) {
	if b.outstanding()+moves >= openMax {
		return
	}
	var room [opSize]byte
	for range moves {
		op := b.begin(false)
		if err := b.client.Send(ctx, packetMove, appendOp(room[:0], op)); err != nil {
			b.notSent(err)
			return
		}
		b.meter.moves.Add(1)
	}
	op := b.begin(true)
	err := b.client.RequestFunc(client.Call{Name: packetAct, Payload: appendOp(room[:0], op)}, func(m *client.Message, err error) {
		b.onReply(op, m, err)
	})
	if err != nil {
		b.notSent(err)
		return
	}
	b.meter.acts.Add(1)
}

func (b *bot) outstanding() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ledger.open)
}

// begin takes the op into the ledger before it is sent: the answer may be there
// before the call that sends it has returned.
func (b *bot) begin(request bool) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.begin(request, time.Now())
}

// notSent takes the newest op back.
func (b *bot) notSent(err error) {
	b.mu.Lock()
	b.ledger.cancel()
	b.mu.Unlock()
	if !errors.Is(err, context.Canceled) {
		b.trouble(err)
	}
}

// onReply runs on the client's reader.
func (b *bot) onReply(op uint64, m *client.Message, err error) {
	now := time.Now()
	var a answer
	if err == nil {
		if a, err = parseAnswer(m.Payload); err == nil {
			b.mu.Lock()
			at := b.ledger.replied(op, a)
			b.checkSettled()
			b.mu.Unlock()
			b.meter.requests.record(now.Sub(at))
			return
		}
	}
	b.mu.Lock()
	b.ledger.failed(op)
	b.checkSettled()
	b.mu.Unlock()
	b.trouble(err)
}

// onPush runs on the client's reader.
func (b *bot) onPush(m *client.Message) {
	now := time.Now()
	a, push, err := parseMoved(m.Payload)
	if m.Name != packetMoved || err != nil {
		b.trouble(fmt.Errorf("push %q: %w", m.Name, err))
		return
	}
	b.mu.Lock()
	at, ok := b.ledger.pushed(push, a)
	b.checkSettled()
	b.mu.Unlock()
	if ok {
		b.meter.pushes.record(now.Sub(at))
	}
}

// onState runs on the client's reader: the connection was lost.
func (b *bot) onState(_ client.State, err error) {
	b.trouble(fmt.Errorf("connection to the gateway: %w: %w", client.ErrDisconnected, err))
}
