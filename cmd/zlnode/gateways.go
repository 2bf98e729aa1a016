package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zlnode/zlnode/client"
)

// This file is what a bot does when its gateway is killed and there is another.

// gatewaysToKill is how many gateways there are if one is killed.
const gatewaysToKill = 2

// fallback is a bot's second gateway. The bot's mu guards it; it is used once.
type fallback struct {
	gateway string        // "": there is none, or it is used
	away    bool          // the first one is lost, and the bot is not yet at this one
	lost    chan struct{} // closed when away is set
	since   time.Time     // when it was
}

// reach connects to a gateway and logs in.
func (b *bot) reach(ctx context.Context, gateway string) error {
	c, err := client.Dial(ctx, client.Options{Addr: gateway, TLS: b.tls, OnPush: b.onPush, OnState: b.onState, RequestTimeout: requestTime})
	if err != nil {
		return err
	}
	b.client = c
	return c.RequestJSON(ctx, packetLogin, b.login, &b.place)
}

// cutOff reports whether err is the loss of a gateway for which the bot has another. What
// was under way then is found out when it is there.
func (b *bot) cutOff(err error) bool {
	if !errors.Is(err, client.ErrDisconnected) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &b.fallback
	if b.closed || b.cause != nil || !f.away && f.gateway == "" {
		return false
	}
	if !f.away {
		f.away, f.since = true, time.Now()
		close(f.lost)
	}
	return true
}

// away reports whether the bot has lost its gateway and not yet gone on at another.
func (b *bot) isAway() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fallback.away
}

// change goes to the other gateway: it logs in there, asks the Actor what it has executed,
// and sends what it has not, once more and in order. Of what was under way when the first
// one was killed, the client alone knows nothing; the Actor knows all. It is called where
// the bot plays.
func (b *bot) change() {
	ctx, cancel := context.WithTimeout(context.Background(), loginTime)
	defer cancel()
	_ = b.client.Close() // always nil
	<-b.client.Done()
	b.mu.Lock()
	gateway, lost := b.fallback.gateway, b.fallback.since
	b.fallback.gateway = ""
	b.mu.Unlock()

	t, err := b.catchUp(ctx, gateway)
	b.mu.Lock()
	b.fallback.away = false
	if err != nil {
		b.mu.Unlock()
		b.lose(fmt.Errorf("at the other gateway: %w", err))
		return
	}
	b.travel.arrived(b.place.PlayerRID, t.Room)
	b.ledger.rid = b.place.PlayerRID
	again := b.ledger.resume(t)
	b.mu.Unlock()
	for _, o := range again {
		if err := b.send(o); err != nil {
			b.lose(fmt.Errorf("at the other gateway: %w", err))
			return
		}
	}
	b.meter.resent.Add(uint64(len(again)))
	b.meter.changes.record(time.Since(lost))
}

// catchUp logs in at the gateway and asks the Actor what it has done. The Actor cannot be
// bound while it moves, so that is tried again.
func (b *bot) catchUp(ctx context.Context, gateway string) (t totals, err error) {
	again := time.NewTicker(settleLook)
	defer again.Stop()
	err = b.reach(ctx, gateway)
	for b.client != nil && missing(err) && !errors.Is(err, client.ErrDisconnected) {
		select {
		case <-again.C:
			err = b.client.RequestJSON(ctx, packetLogin, b.login, &b.place)
		case <-ctx.Done():
			return totals{}, err
		}
	}
	if err == nil {
		err = b.client.RequestJSON(ctx, packetTotal, struct{}{}, &t)
	}
	return t, err
}

// killGateway kills the first gateway, with what its clients have under way.
func (d *demo) killGateway() {
	d.mu.Lock()
	victim := d.cluster.present()[0]
	d.killed = victim.set.RID
	d.mu.Unlock()
	victim.kill()
}

// gatewayDeath returns what is known of the gateway that was to be killed, or nil.
func (d *demo) gatewayDeath() *gatewayReport {
	if !d.options.killGateway {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	away := d.meter.changes.path()
	return &gatewayReport{
		Killed: d.killed, Clients: uint64(len(d.bots)+1) / gatewaysToKill, Resumed: away.Count,
		Resent: d.meter.resent.Load(), Away: away.span(),
	}
}

// gatewayReport is the part of a verdict that is about the gateway which the demo killed.
type gatewayReport struct {
	Killed  string `json:"killed"`
	Clients uint64 `json:"clients"` // that it had
	Resumed uint64 `json:"resumed"` // that went on at the other one
	Resent  uint64 `json:"resent"`  // messages that had not reached their Actor
	// Away is from the loss of the connection until all that was under way is settled.
	Away span `json:"away"`
}

// judgeGateway decides about the clients of the gateway that was killed: each must have
// gone on at the other one.
func (v *verdict) judgeGateway(r *gatewayReport) {
	if v.Gateway = r; r == nil {
		return
	}
	switch {
	case r.Killed == "":
		v.fail(errors.New("no gateway was killed: the run ended before"))
	case r.Resumed != r.Clients:
		v.fail(fmt.Errorf("%d clients of the gateway that was killed went on at the other one, and it had %d", r.Resumed, r.Clients))
	}
}

func (r *gatewayReport) text() string {
	us := func(n int64) string { return short(time.Duration(n) * time.Microsecond) }
	return fmt.Sprintf("  %s was killed: its %d clients went on at the other gateway after %s (p50), %s (max), and sent\n  %s messages again that had not reached their players.\n\n",
		r.Killed, r.Resumed, us(r.Away.P50US), us(r.Away.MaxUS), grouped(r.Resent))
}
