package main

import (
	"context"
	"io"
	"sync"
	"time"
)

// demo is one run: nodes, bots and what is known of them.
type demo struct {
	options demoOptions
	meter   *meter
	bots    []*bot
	// visitors are there if players hop.
	visitors []*visitor

	mu      sync.Mutex
	phase   phase
	cluster *cluster
	roller  *roller       // nil: no node is relocated
	began   time.Time     // of the play
	played  time.Duration // once it has ended
	killed  string        // the gateway that was killed
}

// run does one run from the start of the nodes to their end, and judges it. When
// it returns nothing of the run is left. Every step of it is bounded in time.
func (d *demo) run(ctx context.Context, progress, nodeLogs io.Writer) (verdict, error) {
	w := watch(progress, !d.options.verbose, d.look)
	defer w.stop()
	c, err := startCluster(&d.options, nodeLogs)
	defer c.stop() // a second time does nothing
	d.enter(phaseStart, c)
	if err != nil {
		return verdict{}, err
	}
	if d.options.rolling {
		d.roller = &roller{cluster: c, options: &d.options, stood: newStand()}
	}
	gateways, err := c.awaitReady(ctx)
	if ctx.Err() != nil {
		return verdict{}, errInterrupted
	}
	if err != nil {
		return verdict{}, err
	}

	d.enter(phaseLogin, c)
	defer d.each(len(d.bots), (*bot).close)
	defer d.closeVisitors()
	for _, b := range d.bots {
		b.tls = c.tls
	}
	for _, v := range d.visitors {
		if err := v.enter(ctx, gateways[len(gateways)-1], c.tls); err != nil && ctx.Err() == nil {
			d.meter.fail(err)
		}
	}
	d.logIn(ctx, gateways)
	if ctx.Err() != nil {
		return verdict{}, errInterrupted
	}
	d.play(ctx)

	outcomes := make([]outcome, len(d.bots))
	d.each(len(d.bots), func(b *bot) { outcomes[b.number-1] = b.finish() })
	e := evidence{outcomes: outcomes, requests: d.meter.requests.path(), pushes: d.meter.pushes.path(), played: d.played, gateway: d.gatewayDeath()}
	if d.options.join {
		e.joins = d.joins(outcomes)
	}
	if d.roller != nil {
		e.rolls = d.rolls()
	}
	d.closeVisitors()
	d.each(len(d.bots), (*bot).close)
	d.enter(phaseStop, c)
	c.stop()
	e.nodes, e.errors, e.failures = c.ends(), d.meter.errors.Load(), d.meter.told()
	return judge(e), nil
}

func (d *demo) closeVisitors() {
	for _, v := range d.visitors {
		v.close()
	}
}

// each calls f for every bot, some at once, and returns when all calls have.
func (d *demo) each(atOnce int, f func(*bot)) {
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, b := range d.bots {
		slots <- struct{}{}
		wg.Go(func() {
			f(b)
			<-slots
		})
	}
	wg.Wait()
}

// logIn lets all bots log in, at the gateways in turn.
func (d *demo) logIn(ctx context.Context, gateways []string) {
	ctx, cancel := context.WithTimeout(ctx, loginsTime)
	defer cancel()
	d.each(loginsAtOnce, func(b *bot) {
		at := (b.number - 1) % len(gateways)
		if d.options.killGateway && at+1 < len(gateways) {
			b.fallback.gateway = gateways[at+1]
		}
		b.enter(ctx, gateways[at])
		if b.roams {
			b.goHome(ctx)
		}
	})
}

// playTime returns a context that ends when the bots have played for the time that was asked
// for, and when all nodes that are to be relocated are. After cancel nothing of it is left.
func (d *demo) playTime(ctx context.Context) (_ context.Context, cancel func()) {
	if d.roller == nil {
		return context.WithTimeout(ctx, d.options.duration)
	}
	ctx, end := context.WithCancel(ctx)
	var rolling sync.WaitGroup
	rolling.Go(func() {
		over := time.NewTimer(d.options.duration)
		defer over.Stop()
		d.roller.run(ctx)
		select {
		case <-over.C:
			end()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		end()
		rolling.Wait()
	}
}

// play lets the bots play for the time that was asked for, or until ctx ends or
// no bot is left. They start one after the other, spread over one tick. What visitors wait
// for then is no part of the time that was played.
func (d *demo) play(ctx context.Context) {
	ctx, cancel := d.playTime(ctx)
	defer cancel()
	d.mu.Lock()
	d.phase, d.began = phasePlay, time.Now()
	d.mu.Unlock()
	if d.options.killGateway {
		halfway := time.AfterFunc(d.options.duration/2, d.killGateway)
		defer halfway.Stop()
	}
	over, end := context.WithCancel(ctx)
	var visits sync.WaitGroup
	for _, v := range d.visitors {
		if v.client != nil {
			visits.Go(func() { v.play(over, d.options.tick) })
		}
	}
	d.each(len(d.bots), func(b *bot) {
		if b.plays() {
			delay := d.options.tick * time.Duration(b.number-1) / time.Duration(len(d.bots))
			b.play(ctx, delay, d.options.tick, d.options.moves)
		}
	})
	d.mu.Lock()
	d.phase, d.played = phaseSettle, time.Since(d.began)
	d.mu.Unlock()
	end()
	visits.Wait()
}

// enter begins a phase.
func (d *demo) enter(p phase, c *cluster) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase, d.cluster = p, c
}

// look returns what is shown of the run. Safe for concurrent use.
func (d *demo) look() snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := snapshot{
		Phase: d.phase, For: d.options.duration, Played: d.played, Bots: len(d.bots),
		Online: d.meter.online.Load(), Messages: d.meter.messages(),
		Requests: d.meter.requests.path(), Pushes: d.meter.pushes.path(),
		Errors: d.meter.errors.Load(), Unavailable: d.meter.unavailable.Load(),
		Hopping: d.options.join, Hops: d.meter.hops.crossed.Load(),
	}
	if d.phase == phasePlay && d.played == 0 {
		s.Played = time.Since(d.began)
	}
	if d.roller != nil {
		s.Rolling = true
		s.Rolled, s.ToRoll = d.roller.replaced()
	}
	if d.cluster != nil {
		s.Store, s.Nodes = d.cluster.store, d.cluster.rows()
	}
	return s
}
