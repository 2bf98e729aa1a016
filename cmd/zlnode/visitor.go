package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/zlnode/zlnode/client"
)

// visited is what a visitor knows of its messages to one player: they are numbered from 1.
type visited struct {
	sent   uint64
	unsure uint64 // of those, that ended with an error
	cause  error  // the first one
}

// visitor is a client without a player. It has the gateway send messages and requests to
// the players of one arena, one after the other, so that senders which know nothing of a
// player's moves are checked, too. One goroutine calls its methods.
type visitor struct {
	bots   []*bot
	client *client.Client
}

// visitors returns one for each arena.
func visitors(bots []*bot) []*visitor {
	var all []*visitor
	for len(bots) > 0 {
		n := min(playersPerArena, len(bots))
		all = append(all, &visitor{bots: bots[:n]})
		bots = bots[n:]
	}
	return all
}

func (v *visitor) enter(ctx context.Context, gateway string, secure *tls.Config) (err error) {
	v.client, err = client.Dial(ctx, client.Options{Addr: gateway, TLS: secure, RequestTimeout: requestTime})
	if err != nil {
		return fmt.Errorf("a visitor's connection to the gateway: %w", err)
	}
	return nil
}

// play visits each player once per tick, as far as answers come in time, until ctx ends.
// Every second visit of one is a request.
func (v *visitor) play(ctx context.Context, tick time.Duration) {
	ticker := time.NewTicker(tick / time.Duration(len(v.bots)))
	defer ticker.Stop()
	for k := 0; ; k++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if b := v.bots[k%len(v.bots)]; b.plays() {
			v.visit(b)
		}
	}
}

// visit does not end with the play: what is sent is waited for.
func (v *visitor) visit(b *bot) {
	b.visited.sent++
	order, got := visit{Player: b.login.Player, Number: b.visited.sent, Ask: b.visited.sent%2 == 0}, uint64(0)
	err := v.client.RequestJSON(context.Background(), packetVisit, order, &got)
	if err == nil && got != order.Number {
		err = fmt.Errorf("the answer to visit %d is %d", order.Number, got)
	}
	if err != nil {
		b.visited.unsure++
		if b.visited.cause == nil {
			b.visited.cause = fmt.Errorf("visit of a player: %w", err)
		}
	}
}

func (v *visitor) close() {
	if v.client != nil {
		_ = v.client.Close() // always nil
		<-v.client.Done()
	}
}
