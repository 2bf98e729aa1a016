package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
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
	// settleLook is the pause between two looks at what is outstanding.
	settleLook = 50 * time.Millisecond
	// roomNameMax bounds the name of a room.
	roomNameMax = 32
	// playersPerArena is how many bots share an arena.
	playersPerArena = 10
)

// bot is one client of the demo: it logs in, plays, and checks every answer. One
// goroutine at a time calls its methods; answers come on the client's reader.
type bot struct {
	number int // from 1
	login  loginRequest
	meter  *meter
	settle time.Duration // how long it waits for what is outstanding

	tls     *tls.Config    // of its gateways; nil: not encrypted
	client  *client.Client // nil until it is connected
	place   loginReply     // where its Actors live, once it is logged in
	visited visited        // its visitor's, as long as that plays

	mu      sync.Mutex
	ledger  *ledger
	travel  traveller     // where its player is, and is going to
	online  bool          // it is logged in and has not met a dead node
	stopped bool          // it sends nothing any more
	settled chan struct{} // closed when it is stopped and nothing is open
	closed  bool          // its client is being closed; what ends now is no trouble
	fallback
	home  chan struct{} // closed when its player is in its room, or will not be
	roams bool          // its player moves with its node, unnoticed
	cause error         // what took its Actor or the gateway away, or nil
	needs []string      // the nodes that it needed when it met that
	gone  chan struct{} // closed when cause is set
}

// newBot returns the bot with that number, whose player hops about once every hop; 0: never.
func newBot(n int, m *meter, hop time.Duration) *bot {
	return &bot{
		travel: traveller{every: hop, chance: rand.New(rand.NewPCG(uint64(n), 0))},
		number: n,
		login:  loginRequest{Player: fmt.Sprintf("player-%d", n), Arena: fmt.Sprintf("arena-%d", (n-1)/playersPerArena+1)},
		meter:  m, settle: settleTime,
		ledger: newLedger(), settled: make(chan struct{}), gone: make(chan struct{}),
		fallback: fallback{lost: make(chan struct{})}, home: make(chan struct{}),
	}
}

// newRoamer returns a bot of a world whose nodes are relocated.
func newRoamer(n int, m *meter) *bot {
	b := newBot(n, m, 0)
	b.roams = true
	b.login.Kind, b.login.Arena = partyOf(n)
	return b
}

// enter connects to the gateway and logs in. What goes wrong is counted.
func (b *bot) enter(ctx context.Context, gateway string) {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	err := b.reach(ctx, gateway)
	if kind, _ := client.KindOf(err); kind == client.DeadlineExceeded {
		// A creation that a dying node had begun is open until that node's lease
		// has ended, which is longer than anybody waits here.
		b.lose(fmt.Errorf("log-in: %w", err))
		return
	}
	if err != nil {
		b.trouble(fmt.Errorf("log-in: %w", err))
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.travel.rid, b.ledger.rid = b.place.PlayerRID, b.place.PlayerRID
	if b.travel.every > 0 {
		b.travel.rooms = b.place.Rooms
	}
	if b.cause == nil {
		b.online = true
		b.meter.online.Add(1)
	}
}

// plays reports whether the bot is logged in and its Actor lives.
func (b *bot) plays() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.online
}

// play sends that many one-way messages and one request each tick, until ctx ends
// or the Actor is gone. The first tick comes after delay, by which bots spread. It
// waits for no answer, so that a slow one does not hide the delay of the next.
func (b *bot) play(ctx context.Context, delay, tick time.Duration, moves int) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	lost := b.fallback.lost
	for {
		b.tick(moves)
		select {
		case <-ticker.C:
		case <-lost:
			lost = nil
			b.change()
		case <-ctx.Done():
			if b.isAway() {
				b.change()
			}
			return
		case <-b.gone:
			return
		}
	}
}

// tick sends what is due. It ends with the request: so a bot whose Actor is gone,
// where one-way messages vanish, learns of it within a tick.
func (b *bot) tick(moves int) {
	if b.isAway() || b.outstanding()+moves >= openMax {
		return
	}
	for range moves {
		if !b.sendNew(order{op: b.begin(false)}) {
			return
		}
	}
	if o, ok := b.beginHop(); ok && !b.sendNew(o) {
		return
	}
	b.sendNew(order{op: b.begin(true), request: true})
}

// sendNew sends the newest op, or takes it back.
func (b *bot) sendNew(o order) (ok bool) {
	if err := b.send(o); err != nil {
		b.notSent(err)
		return false
	}
	return true
}

func (b *bot) send(o order) (err error) {
	var room [opSize + roomNameMax]byte
	sent := &b.meter.moves
	switch payload := appendOp(room[:0], o.op); {
	case o.request:
		sent = &b.meter.acts
		act := client.Call{Name: packetAct, Payload: payload}
		err = b.client.RequestFunc(act, func(m *client.Message, err error) { b.onReply(o.op, m, err) })
	case o.hop != nil: // the client's send timeout bounds it, and the next
		err = b.client.Send(context.Background(), packetHop, appendHop(room[:0], o.op, o.hop.room))
	default:
		err = b.client.Send(context.Background(), packetMove, payload)
	}
	if err == nil {
		sent.Add(1)
	}
	return err
}

func (b *bot) outstanding() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ledger.open)
}

// begin takes an op into the ledger before it is sent: the answer may be there
// before the call that sends it has returned.
func (b *bot) begin(request bool) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.begin(request, time.Now())
}

// beginHop takes a hop into the ledger, if one is due and the one before is over.
func (b *bot) beginHop() (o order, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ledger.hop != nil {
		return order{}, false
	}
	now := time.Now()
	room, ok := b.travel.next(now)
	if ok {
		o.op = b.ledger.beginHop(room, now)
		o.hop = b.ledger.hop
	}
	return o, ok
}

// notSent takes the newest op back.
func (b *bot) notSent(err error) {
	if b.cutOff(err) {
		return // it is sent at the other gateway
	}
	b.mu.Lock()
	b.ledger.cancel()
	b.mu.Unlock()
	b.trouble(err)
}

// onReply runs on the client's reader.
func (b *bot) onReply(op uint64, m *client.Message, err error) {
	now := time.Now()
	var a answer
	if err == nil {
		a, err = parseAnswer(m.Payload)
	}
	if b.cutOff(err) {
		return // whether it was executed shows at the other gateway
	}
	if err != nil {
		b.mu.Lock()
		s := b.ledger.failed(op)
		b.checkSettled()
		b.mu.Unlock()
		b.trouble(fmt.Errorf("request %q: %w", packetAct, err), s.rid)
		return
	}
	b.mu.Lock()
	s := b.ledger.replied(op, a)
	b.checkSettled()
	b.mu.Unlock()
	b.meter.requests.record(now.Sub(s.at))
	b.meter.hops.answered(s, now)
}

// onPush runs on the client's reader.
func (b *bot) onPush(m *client.Message) {
	now := time.Now()
	if m.Name == packetHopped {
		b.onHopped(m, now)
		return
	}
	a, push, err := parseMoved(m.Payload)
	if m.Name != packetMoved || err != nil {
		b.trouble(fmt.Errorf("push %q is not understood: %w", m.Name, err))
		return
	}
	b.mu.Lock()
	s, ok := b.ledger.pushed(push, a)
	b.checkSettled()
	b.mu.Unlock()
	if ok {
		b.meter.pushes.record(now.Sub(s.at))
		b.meter.hops.answered(s, now)
	}
}

func (b *bot) onHopped(m *client.Message, now time.Time) {
	var h hopped
	if err := m.Decode(&h); err != nil {
		b.trouble(err)
		return
	}
	b.mu.Lock()
	s, ok := b.ledger.hopped(h.Push, answer{h.Op, h.Position, h.Chain}, h.Crossed)
	b.travel.arrived(h.RID, h.Room)
	b.ledger.rid = h.RID
	b.checkSettled()
	b.mu.Unlock()
	if ok {
		b.meter.hops.ended(&h, now.Sub(s.at))
		if b.roams { // it hops once
			close(b.home)
		}
	}
}

// onState runs on the client's reader: the connection is lost.
func (b *bot) onState(_ client.State, err error) {
	err = fmt.Errorf("connection to the gateway: %w: %w", client.ErrDisconnected, err)
	if b.cutOff(err) {
		return
	}
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if !closed {
		b.meter.dropped.Add(1)
	}
	b.trouble(err)
}

// trouble counts what went wrong. An Actor or a gateway that is not there ends the
// bot and counts once; whether its node is really dead is judged at the end. needed are
// nodes that it needed besides those of its Actor.
func (b *bot) trouble(err error, needed ...string) {
	if missing(err) {
		b.lose(err, needed...)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && b.cause == nil {
		b.meter.fail(err)
	}
}

// lose ends the bot for good. A request may have been sent to a node that its Actor has left
// since, and its answer be lost with that.
func (b *bot) lose(cause error, needed ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.cause != nil {
		return
	}
	b.cause = cause
	for _, rid := range append(needed, b.travel.rid, b.travel.toward) {
		if rid != "" && !b.roams { // else it may have needed any
			b.needs = append(b.needs, rid)
		}
	}
	close(b.gone)
	b.meter.unavailable.Add(1)
	if b.online {
		b.online = false
		b.meter.online.Add(-1)
	}
}

// missing reports whether err says that the Actor or the gateway is not there. A
// node that is stopped in order takes its Actors along: then they are not found.
func missing(err error) bool {
	kind, ok := client.KindOf(err)
	return errors.Is(err, client.ErrDisconnected) ||
		ok && (kind == client.Unavailable || kind == client.ShuttingDown || kind == client.NotFound)
}

// checkSettled is called, with mu held, when an op has ended or the bot stopped.
func (b *bot) checkSettled() {
	if b.stopped && len(b.ledger.open) == 0 {
		select {
		case <-b.settled:
		default:
			close(b.settled)
		}
	}
}

// finish waits for what is outstanding, asks the Actor for its totals and compares.
// The bot must have stopped playing.
func (b *bot) finish() outcome {
	b.mu.Lock()
	b.stopped = true
	b.checkSettled()
	b.mu.Unlock()
	timer := time.NewTimer(b.settle)
	defer timer.Stop()
	select {
	case <-b.settled:
	case <-b.gone:
	case <-timer.C: // what is open now is lost, and shows in the totals
	}
	t, ok := b.total()
	b.mu.Lock()
	defer b.mu.Unlock()
	o := outcome{
		needs: b.needs, crossed: t.Crossed > 0, room: b.travel.room, arena: b.place.ArenaRID,
		cause: b.cause, roams: b.roams, arenaLost: t.ArenaLost, unsent: t.Arena.Failure, visited: b.visited.cause,
	}
	if !ok {
		o.tally, o.wrong = b.ledger.abandon()
		return o
	}
	o.tally, o.wrong = b.ledger.settle(t)
	o.nodes, o.overtaken = t.ofNodes(b.visited)
	return o
}

// total asks the Actor for its totals. Messages of nodes have other ways to it than this
// request has, so it is asked again while some are under way.
func (b *bot) total() (t totals, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), b.settle)
	defer cancel()
	again := time.NewTicker(settleLook)
	defer again.Stop()
	for b.plays() {
		t = totals{}
		if err := b.client.RequestJSON(context.Background(), packetTotal, struct{}{}, &t); err != nil {
			b.trouble(fmt.Errorf("request %q: %w", packetTotal, err))
			return totals{}, false
		}
		if !b.login.Kind.askedByPlayers() {
			if err := b.client.RequestJSON(context.Background(), packetReceived, b.login, &t.Arena); err != nil {
				b.trouble(fmt.Errorf("request %q: %w", packetReceived, err))
				return totals{}, false
			}
		}
		if sum, _ := t.ofNodes(b.visited); sum.Lost == 0 {
			return t, true
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return t, true
		}
	}
	return totals{}, false
}

// close ends the connection. A second time it does nothing.
func (b *bot) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	if b.client != nil {
		_ = b.client.Close() // always nil
		<-b.client.Done()
	}
}
