package host

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// Host is the core of one node.
type Host struct {
	self    Self
	timing  Timing
	state   store.HostState
	first   Result // of the operation after which it is Relocated
	op      *operation
	tail    *operation // that is over for its callers, and whose PerActor Spots have yet to be whole
	last    *operation // the latest, also when it is over
	numbers uint64
	news    publisher
	effects []Effect
}

// publisher is how the Store is told the state. One call is under way at a time.
type publisher struct {
	busy, again bool // again: the state has changed since
	wake        clock.Mono
	wait        time.Duration
}

// New returns a Host that is Preparing.
func New(self Self, t Timing) *Host {
	return &Host{self: self, timing: t, news: publisher{wake: clock.Never}}
}

// State returns the node's state.
func (h *Host) State() store.HostState { return h.state }

// Busy reports whether anything is under way, or to come, for which Step has to be called.
func (h *Host) Busy() bool {
	return h.op != nil || h.tail != nil || h.news.busy || h.news.wake != clock.Never || len(h.effects) > 0
}

// Effects appends what is to be done to dst, in this order, and forgets it.
func (h *Host) Effects(dst []Effect) []Effect {
	dst = append(dst, h.effects...)
	h.effects = h.effects[:0]
	return dst
}

// NextDeadline returns when Step is to be called with Tick if nothing happens.
func (h *Host) NextDeadline() (clock.Mono, bool) {
	at := h.news.wake
	if h.op != nil {
		at = min(at, h.op.nextDeadline())
	}
	if h.tail != nil {
		at = min(at, h.tail.nextDeadline())
	}
	return at, at != clock.Never
}

// Ask is a call of Relocate.
func (h *Host) Ask(now clock.Mono, r Request) Answer {
	if wrong := h.wrong(&r); wrong != "" {
		return Answer{Wrong: wrong}
	}
	switch h.state {
	case store.Preparing, store.Stopped, store.HostError:
		return Answer{Result: blocked(RuntimeNotReady, "the node is "+h.state.String())}
	case store.Draining:
		return Answer{Result: blocked(ShutdownRequested, stopText)}
	case store.Serving, store.Relocating, store.Relocated:
	}
	if o := h.op; o != nil {
		if o.request.Mode != r.Mode || o.request.Version != r.Version {
			return Answer{Result: blocked(OperationInProgress, "the node is being relocated in another mode or to another version")}
		}
		return Answer{Op: o.number}
	}
	if h.state == store.Relocated {
		return Answer{Result: h.first}
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	h.numbers++
	h.op = newOperation(h, h.numbers, now, r)
	h.last = h.op
	h.op.look()
	return Answer{Op: h.numbers}
}

const stopText = "the node's shutdown has begun"

// wrong says what is wrong with a call.
func (h *Host) wrong(r *Request) string {
	own, want := version(h.self.Version), version(r.Version)
	switch {
	case r.Timeout < 0:
		return fmt.Sprintf("a timeout of %v is negative", r.Timeout)
	case r.Mode == PlannedMaintenance && r.Version != "":
		return "planned maintenance keeps the application version; it takes no target version"
	case r.Mode == PlannedMaintenance:
		return ""
	case r.Mode != RollingUpdate:
		return fmt.Sprintf("there is no mode %d", r.Mode)
	case !semver.IsValid(want):
		return fmt.Sprintf("the target version %q is no semantic version, such as 1.4.0", r.Version)
	case !semver.IsValid(own):
		return fmt.Sprintf("this node's application version %q is no semantic version, so none is higher; set Config.AppVersion", h.self.Version)
	case semver.Compare(want, own) <= 0:
		return fmt.Sprintf("the target version %q is not higher than this node's %q", r.Version, h.self.Version)
	}
	return ""
}

// version is an application version as package semver wants it.
func version(v string) string {
	if v == "" || strings.HasPrefix(v, "v") {
		return v
	}
	return "v" + v
}

// Step takes what happened.
func (h *Host) Step(now clock.Mono, e Event) {
	switch e.Is {
	case Tick:
		h.tick(now)
	case Started:
		if h.state == store.Preparing {
			h.state = store.Serving
		}
	case Stopping:
		h.halt(store.Draining, blocked(ShutdownRequested, stopText))
	case Halted:
		h.halt(store.Stopped, blocked(ShutdownRequested, stopText))
	case Broken:
		if h.state != store.Draining && h.state != store.Stopped {
			h.halt(store.HostError, blocked(RuntimeNotReady, "the node has lost its owner lease"))
		}
	case Published:
		h.published(now, &e)
	case Nodes:
		for _, o := range []*operation{h.op, h.tail} {
			if o != nil {
				o.list(now, e.Nodes)
			}
		}
	case Permitted:
		if o := h.of(e.Op); o != nil && o.permitted(now, &e) || e.Failure != "" {
			break
		}
		h.do(Effect{Do: DoRelease})
	default:
		if o := h.of(e.Op); o != nil {
			o.step(now, &e)
		}
	}
}

// of returns the operation of that number, if it is not forgotten.
func (h *Host) of(number uint64) *operation {
	for _, o := range []*operation{h.op, h.tail, h.last} {
		if o != nil && o.number == number {
			return o
		}
	}
	return nil
}

func (h *Host) do(e Effect) { h.effects = append(h.effects, e) }

func (h *Host) tick(now clock.Mono) {
	if p := &h.news; now.Reached(p.wake) {
		p.wake, p.busy = clock.Never, true
		h.do(Effect{Do: DoPublish})
	}
	for _, o := range []*operation{h.op, h.tail} {
		if o != nil {
			o.tick(now)
		}
	}
}

// become changes the state, and has the Store told.
func (h *Host) become(s store.HostState) {
	h.state = s
	p := &h.news
	if p.busy {
		p.again = true
		return
	}
	p.busy, p.wake, p.wait = true, clock.Never, h.timing.Wait
	h.do(Effect{Do: DoPublish})
}

func (h *Host) published(now clock.Mono, e *Event) {
	p := &h.news
	p.busy = false
	if h.state == store.Draining || h.state == store.Stopped || h.state == store.HostError {
		return // which tells the Store by itself, or nothing any more
	}
	if p.again {
		p.again = false
		h.become(h.state)
		return
	}
	if e.Failure != "" {
		p.wake = now.Add(p.wait)
		p.wait = min(2*p.wait, h.timing.WaitMax)
	}
	if h.op != nil {
		h.op.published(e.Failure)
	}
}

// halt ends all that is under way, as far as that is the Host's.
func (h *Host) halt(s store.HostState, r Result) {
	h.state = s
	h.news.again, h.news.wake = false, clock.Never
	if h.tail != nil {
		h.tail.phase, h.tail = over, nil
	}
	if o := h.op; o != nil {
		if o.phase != concluding { // else it has its result
			o.result = r
		}
		o.finish()
	}
}
