package link

import (
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// Defaults of a LivenessConfig.
const (
	DefaultProbeEvery  = 5 * time.Second
	DefaultSilentAfter = 15 * time.Second
)

// LivenessConfig says how soon a peer that stopped answering is given up.
type LivenessConfig struct {
	ProbeEvery  time.Duration // 0: DefaultProbeEvery
	SilentAfter time.Duration // > ProbeEvery; 0: DefaultSilentAfter
}

// Validate fills in the defaults and checks that a probe can be answered before
// the peer counts as silent. Its errors wrap ErrConfig.
func (c *LivenessConfig) Validate() error {
	if c.ProbeEvery == 0 {
		c.ProbeEvery = DefaultProbeEvery
	}
	if c.SilentAfter == 0 {
		c.SilentAfter = DefaultSilentAfter
	}
	if c.ProbeEvery < 0 || c.SilentAfter <= c.ProbeEvery {
		return fmt.Errorf("%w: probes every %v cannot keep a peer alive that is silent after %v: make the second larger",
			ErrConfig, c.ProbeEvery, c.SilentAfter)
	}
	return nil
}

// LiveEventKind says what happened to a Liveness.
type LiveEventKind uint8

// The events.
const (
	LiveProbed LiveEventKind = iota + 1 // the peer's probe came
	LiveAcked                           // an acknowledgement came
	LiveTick                            // a deadline may be reached
)

// LiveEvent is one input of a Liveness.
type LiveEvent struct {
	Kind LiveEventKind
	ID   uint64 // of the probe or acknowledgement, not 0
}

// LiveEffectKind says what the shell has to do.
type LiveEffectKind uint8

// The effects.
const (
	LiveSendProbe  LiveEffectKind = iota + 1 // send wire.Probe{ID}
	LiveSendAck                              // send wire.Ack{ID}
	LivePeerSilent                           // close the link; the last effect
)

// LiveEffect is one thing that the shell has to do.
type LiveEffect struct {
	Kind LiveEffectKind
	ID   uint64
}

// Liveness watches one admitted link. Every ProbeEvery it sends a probe; the
// same one again as long as it is not acknowledged, so that there is one
// outstanding id at most. Only the first acknowledgement of the outstanding id
// moves the deadline: other traffic proves that something sends, not that this
// node is heard.
//
// Owned by one goroutine.
type Liveness struct {
	cfg LivenessConfig

	lastID      uint64 // of the newest probe; grows by 1
	outstanding bool   // lastID is not acknowledged yet
	nextProbe   clock.Mono
	deadline    clock.Mono // the peer is silent from here on
	silent      bool       // over; nothing happens any more
	effects     []LiveEffect
}

// NewLiveness starts to watch a link that was admitted at now. cfg must be
// validated.
func NewLiveness(cfg LivenessConfig, now clock.Mono) *Liveness {
	return &Liveness{cfg: cfg, nextProbe: now.Add(cfg.ProbeEvery), deadline: now.Add(cfg.SilentAfter)}
}

// Step takes one event. An acknowledgement that is processed before the tick of
// a deadline counts even if it is late: a node that was paused finds its peers'
// answers in the socket and does not drop them all.
func (l *Liveness) Step(now clock.Mono, ev LiveEvent) {
	if l.silent {
		return
	}
	switch ev.Kind {
	case LiveProbed:
		l.effects = append(l.effects, LiveEffect{Kind: LiveSendAck, ID: ev.ID})
	case LiveAcked:
		if l.outstanding && ev.ID == l.lastID {
			l.outstanding = false
			l.deadline = now.Add(l.cfg.SilentAfter)
		}
	case LiveTick:
		l.tick(now)
	}
}

func (l *Liveness) tick(now clock.Mono) {
	switch {
	case now.Reached(l.deadline):
		l.silent = true
		l.effects = append(l.effects, LiveEffect{Kind: LivePeerSilent})
	case now.Reached(l.nextProbe):
		if !l.outstanding {
			l.lastID++
			l.outstanding = true
		}
		l.nextProbe = now.Add(l.cfg.ProbeEvery)
		l.effects = append(l.effects, LiveEffect{Kind: LiveSendProbe, ID: l.lastID})
	}
}

// Effects appends what is to be done to dst and forgets it.
func (l *Liveness) Effects(dst []LiveEffect) []LiveEffect {
	dst = append(dst, l.effects...)
	l.effects = l.effects[:0]
	return dst
}

// NextDeadline returns when Step wants a LiveTick; ok is false once the peer was
// found silent.
func (l *Liveness) NextDeadline() (at clock.Mono, ok bool) {
	return min(l.nextProbe, l.deadline), !l.silent
}
