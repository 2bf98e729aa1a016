package engine

import (
	"net/netip"
	"sync"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// ConnRate bounds how often connections come: a token bucket that fills by PerSecond up to
// Burst. The zero value is no bound; a Burst of 0 is one second's worth, 1 at least.
type ConnRate struct {
	PerSecond int
	Burst     int
}

// tokens is a bucket for a ConnRate. The zero value is a full one.
type tokens struct {
	have float64
	at   clock.Mono // of the last refill; 0: none yet, so it is full
}

// take takes a token, if there is one.
func (t *tokens) take(r ConnRate, now clock.Mono) bool {
	if r.PerSecond == 0 {
		return true
	}
	if t.refill(r, now); t.have < 1 {
		return false
	}
	t.have--
	return true
}

func (t *tokens) refill(r ConnRate, now clock.Mono) {
	if t.at == 0 {
		t.have = float64(r.Burst)
	} else {
		t.have = min(float64(r.Burst), t.have+float64(now.Sub(t.at))/float64(time.Second)*float64(r.PerSecond))
	}
	t.at = now
}

// networks counts a listener's connections by network. Safe for concurrent use. Its mutex
// is a leaf: nothing is called while it is held.
type networks struct {
	v4, v6   int // bits of a network
	maxConns int // of one network; ≤ 0: no bound
	rate     ConnRate

	mu    sync.Mutex
	table map[netip.Addr]*network
	idle  int // entries without connections
}

type network struct {
	conns  int
	tokens tokens
}

// refusal is why a network gets no more connections.
type refusal uint8

const (
	notRefused refusal = iota
	refusedConns
	refusedRate
)

// none reports whether nothing is bounded by network.
func (p *networks) none() bool { return p.maxConns <= 0 && p.rate.PerSecond == 0 }

// networkOf returns what ip counts as: whoever has one IPv6 address has the network around
// it.
func (p *networks) networkOf(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	bits := p.v4
	if ip.Is6() {
		bits = p.v6
	}
	n, err := ip.Prefix(bits)
	if err != nil {
		return ip // no address at all
	}
	return n.Addr()
}

// enter takes a place for a connection of ip.
func (p *networks) enter(ip netip.Addr, now clock.Mono) refusal {
	if p.none() {
		return notRefused
	}
	of := p.networkOf(ip)
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.table[of]
	if u == nil {
		if p.idle >= networksMax {
			p.forget(now)
		}
		u = &network{}
		p.table[of] = u
		p.idle++
	}
	switch {
	case p.maxConns > 0 && u.conns >= p.maxConns:
		return refusedConns
	case !u.tokens.take(p.rate, now):
		return refusedRate
	}
	if u.conns++; u.conns == 1 {
		p.idle--
	}
	return notRefused
}

// leave gives a place back.
func (p *networks) leave(ip netip.Addr) {
	if p.none() {
		return
	}
	of := p.networkOf(ip)
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.table[of]
	if u.conns--; u.conns > 0 {
		return
	}
	if p.idle++; p.rate.PerSecond == 0 {
		delete(p.table, of)
		p.idle--
	}
}

// forget removes one entry without connections: of a few the one with most tokens, which
// loses least. Whoever can use so many networks gets its tokens back early; the listener's
// own rate still bounds it.
func (p *networks) forget(now clock.Mono) {
	var best netip.Addr
	most, looked := -1.0, 0
	for of, u := range p.table { // in any order
		if u.conns == 0 {
			if u.tokens.refill(p.rate, now); u.tokens.have > most {
				best, most = of, u.tokens.have
			}
		}
		if looked++; looked >= networksLook && most >= 0 {
			break
		}
	}
	if most >= 0 {
		delete(p.table, best)
		p.idle--
	}
}
