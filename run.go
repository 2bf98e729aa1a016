package zlnode

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Times of RunOptions that are not set.
const (
	runBudget = 25 * time.Second
	runHurry  = 5 * time.Second
	// runShutdownShare is the part of the budget that is kept for the end of what Relocate has
	// begun, and for Shutdown: a quarter.
	runShutdownShare = 4
	// runFollowPoll is how often it is looked whether messages still follow what has left.
	runFollowPoll = 50 * time.Millisecond
)

// RunOptions say how RunUntilSignal ends a node.
type RunOptions struct {
	// Signals is where the process's signals come from, for a program that has them already.
	// Default: SIGTERM and SIGINT, which RunUntilSignal takes from its call to its return.
	Signals <-chan os.Signal
	// Budget is the time from the first signal to the end, whatever happens, and a little more
	// if Shutdown is cut short. Let whatever kills the process later (terminationGracePeriodSeconds,
	// TimeoutStopSec) wait for longer. Default 25 s.
	Budget time.Duration
	// Lead is how long the node only is not Ready, before anything else: for load balancers to
	// see it and send nobody else. It is part of the Budget. Default 0.
	Lead time.Duration
	// Relocate is with which mode and version the node's objects go to others. Its Timeout is
	// at most, and by default, what Lead leaves of three quarters of the Budget. Behind it, what
	// is under way has an eighth of the Budget to come to its end.
	Relocate Relocate
	// StayAndEnd has the node's objects end with it: nothing is relocated.
	StayAndEnd bool
	// Follow bounds for how long messages by old routes may follow the objects that have left,
	// before Shutdown: what comes later fails at its sender. Default, and at most, what is left
	// of three quarters of the Budget, of which it takes no more than it needs
	// (Config.MessageFollowDuration); negative: not at all.
	Follow time.Duration
	// Hurry is how long Shutdown may take after a second signal. Default 5 s.
	Hurry time.Duration
}

// RunResult is how a node has ended.
type RunResult struct {
	// Signal is the first one; nil: ctx has ended, or the node by itself.
	Signal os.Signal
	// Relocation is the result of Relocate; nil: there was none, or it was cut short.
	Relocation *RelocateResult
	// ObjectsLeft is how many Actors and Spots that were to go to other nodes were still here when
	// Shutdown began. They have ended with the node.
	ObjectsLeft int
	// Shutdown is what Shutdown returned; nil if that was Abandoned.
	Shutdown error
	// Lost is why the node ended without being asked: Node.Err.
	Lost error
	// Abandoned is the third signal, at which Shutdown was waited for no longer; nil: there was
	// none.
	Abandoned os.Signal
}

// The exit statuses that RunResult.ExitCode returns, beside 128 and the number of a signal.
const (
	ExitStopped     = 0 // all has ended in order
	ExitLost        = 1 // the node's lease was lost
	ExitDisorder    = 3 // not all could be ended in order
	ExitObjectsLeft = 4 // in order, but objects have ended that were to go to other nodes
)

// ExitCode returns the exit status that tells how the node ended, for os.Exit. The first that
// fits: 128 and the signal's number, as shells say it, if it was Abandoned; ExitLost;
// ExitDisorder; ExitObjectsLeft; ExitStopped. A program that shall tell a stop by SIGTERM from
// others, as shells do by 143 (128+15), has the Signal to say that in place of ExitStopped.
func (r *RunResult) ExitCode() int {
	switch {
	case r.Abandoned != nil:
		return 128 + signalNumber(r.Abandoned)
	case r.Lost != nil:
		return ExitLost
	case r.Shutdown != nil:
		return ExitDisorder
	case r.ObjectsLeft > 0:
		return ExitObjectsLeft
	}
	return ExitStopped
}

func signalNumber(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

// Ready reports whether the node wants new work: it is HostServing, and RunUntilSignal has not
// begun to end it. A handler of readiness probes can say it; whether the Store answers, and what
// that means for work that is there, is no part of it, so an outage of the Store takes no node
// out of a load balancer. A cordoned node is ready: its clients are served.
func (n *Node) Ready() bool { return n.inner.Ready() }

// RunUntilSignal waits for SIGTERM or SIGINT, for the end of ctx, or for that of the node, and
// ends the node then, as one that others take over from:
//
//  1. The node is not Ready, for RunOptions.Lead.
//  2. Relocate takes its objects to other nodes, while its Sessions stay. A node that hosts none,
//     or has no Store, has no such step.
//  3. If all have left, messages may follow them for a while (Relocation.SafeToShutdown).
//  4. Shutdown has the rest of the Budget. Whatever is still here ends.
//
// A second signal hurries: nothing is waited for any longer but Shutdown, for RunOptions.Hurry. A
// third one ends the wait for that, too: RunUntilSignal returns while the node is yet stopping, and
// the program had better exit. If ctx has ended, there was no first signal, and the next one
// hurries.
//
// Call it once, from main:
//
//	r := node.RunUntilSignal(context.Background(), zlnode.RunOptions{})
//	os.Exit(r.ExitCode())
func (n *Node) RunUntilSignal(ctx context.Context, o RunOptions) RunResult {
	r := runner{node: n, options: o.withDefaults(), signals: o.Signals}
	if r.signals == nil {
		own := make(chan os.Signal, 3)
		signal.Notify(own, syscall.SIGTERM, os.Interrupt)
		defer signal.Stop(own)
		r.signals = own
	}
	if r.await(ctx) {
		r.leave()
	}
	r.shutdown()
	r.result.Lost = n.Err()
	return r.result
}

func (o RunOptions) withDefaults() RunOptions {
	if o.Budget <= 0 {
		o.Budget = runBudget
	}
	if o.Hurry <= 0 {
		o.Hurry = runHurry
	}
	return o
}

// runner is one call of RunUntilSignal.
type runner struct {
	node    *Node
	options RunOptions
	signals <-chan os.Signal // nil: no more will come
	until   time.Time        // the end of the budget
	hurried bool             // by a signal behind the first
	result  RunResult
}

// await returns when it is time to end the node; false: it has ended already.
func (r *runner) await(ctx context.Context) bool {
	why := "the program's context has ended"
	for waits := true; waits; {
		waits = false
		select {
		case s, open := <-r.signals:
			if waits = !r.heard(open); !waits {
				r.result.Signal, why = s, "signal: "+s.String()
			}
		case <-ctx.Done():
		case <-r.node.Done():
			r.until = time.Now().Add(r.options.Hurry)
			return false
		}
	}
	r.until = time.Now().Add(r.options.Budget)
	r.node.inner.Leave(why)
	return true
}

// heard reports whether a signal came; else their channel is closed.
func (r *runner) heard(open bool) bool {
	if !open {
		r.signals = nil
	}
	return open
}

// leave has the node lose what it has to others.
func (r *runner) leave() {
	quarter := r.options.Budget / runShutdownShare
	end := r.until.Add(-quarter)
	if lead := r.options.Lead; lead > 0 {
		r.during(minTime(time.Now().Add(lead), end), func(ctx context.Context) { <-ctx.Done() })
	}
	if r.options.StayAndEnd || !r.node.inner.Hosts() {
		return
	}
	r.during(end.Add(quarter/2), func(ctx context.Context) { r.relocate(ctx, end) })
	if r.result.Relocation != nil && r.result.Relocation.Outcome == RelocateRelocated {
		if follow := r.options.Follow; follow != 0 {
			end = minTime(end, time.Now().Add(max(follow, 0)))
		}
		r.during(end, r.follow)
	}
	s := r.node.Stats()
	r.result.ObjectsLeft = s.Actors + s.Spots
}

// during runs f, whose context ends at that time, with the node, or by a signal. f returns then.
func (r *runner) during(end time.Time, f func(context.Context)) {
	if r.hurried {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		f(ctx)
	}()
	ended := r.node.Done()
	for {
		select {
		case <-over:
			return
		case <-ended:
			ended = nil
			cancel()
		case _, open := <-r.signals:
			if r.heard(open) {
				r.hurried = true
				cancel()
				<-over
				return
			}
		}
	}
}

func (r *runner) relocate(ctx context.Context, end time.Time) {
	ask := r.options.Relocate
	left := time.Until(end)
	if left <= 0 {
		return
	}
	if ask.Timeout <= 0 || ask.Timeout > left {
		ask.Timeout = left
	}
	got, err := r.node.Relocate(ctx, ask)
	switch {
	case err == nil:
		r.result.Relocation = &got
	case KindOf(err) == InvalidOperation:
		r.result.Relocation = &RelocateResult{Outcome: RelocateBlocked, Reason: ReasonRelocationFailed, Text: err.Error()}
	}
}

// follow waits until nothing follows what has left.
func (r *runner) follow(ctx context.Context) {
	tick := time.NewTicker(runFollowPoll)
	defer tick.Stop()
	for {
		if p, ok := r.node.Relocation(); !ok || p.SafeToShutdown {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// shutdown ends the node in what is left of the budget.
func (r *runner) shutdown() {
	end := r.until
	if r.hurried {
		end = minTime(end, time.Now().Add(r.options.Hurry))
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	over := make(chan error, 1)
	go func() { // an abandoned one ends with the process, or soon
		defer cancel()
		over <- r.node.Shutdown(ctx)
	}()
	for {
		select {
		case r.result.Shutdown = <-over:
			return
		case s, open := <-r.signals:
			switch {
			case !r.heard(open):
			case r.hurried:
				r.result.Abandoned = s
				cancel()
				return
			default:
				r.hurried = true
				defer time.AfterFunc(r.options.Hurry, cancel).Stop()
			}
		}
	}
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
