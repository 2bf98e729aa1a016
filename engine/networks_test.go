package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
)

func newNetworks(maxConns int, rate ConnRate) *networks {
	return &networks{v4: 32, v6: 64, maxConns: maxConns, rate: rate, table: make(map[netip.Addr]*network)}
}

func TestConnectionsOfANetworkComeAtItsRate(t *testing.T) {
	n := newNetworks(0, ConnRate{PerSecond: 2, Burst: 3})
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	now := clock.Mono(1)
	for range 3 {
		if r := n.enter(one, now); r != notRefused {
			t.Fatal("the burst was refused")
		}
	}
	if n.enter(one, now) != refusedRate || n.enter(other, now) != notRefused {
		t.Error("the fourth at once was let in, or another network was refused")
	}
	for range 3 { // ends do not give tokens back
		n.leave(one)
	}
	if now = now.Add(time.Second/2 - 1); n.enter(one, now) != refusedRate {
		t.Error("let in too early")
	}
	if now = now.Add(2); n.enter(one, now) != notRefused {
		t.Error("refused after half a second")
	}
	now = now.Add(time.Hour)
	for i := range 4 {
		if r := n.enter(one, now); (r == notRefused) != (i < 3) {
			t.Errorf("connection %d after an hour: %v", i, r)
		}
	}
}

func TestNetworksThatComeAndGoTakeBoundedMemory(t *testing.T) {
	n := newNetworks(2, ConnRate{PerSecond: 1, Burst: 10})
	address := func(i int) netip.Addr {
		b := [16]byte{0x20, 0x01}
		binary.BigEndian.PutUint32(b[2:], uint32(i))
		return netip.AddrFrom16(b)
	}
	now := clock.Mono(1)
	stays := address(1 << 30)
	if n.enter(stays, now) != notRefused {
		t.Fatal("refused")
	}
	for i := range networksMax + 5000 {
		if n.enter(address(i), now) != notRefused {
			t.Fatal("refused")
		}
		n.leave(address(i))
		now = now.Add(time.Microsecond)
	}
	if got := len(n.table); got > networksMax+2 {
		t.Errorf("%d networks are remembered", got)
	}
	if u := n.table[n.networkOf(stays)]; u == nil || u.conns != 1 {
		t.Error("a network with a connection was forgotten")
	}
	idle := 0
	for _, u := range n.table {
		if u.conns == 0 {
			idle++
		}
	}
	if idle != n.idle {
		t.Errorf("%d networks without connections, counted %d", idle, n.idle)
	}
	// Without a rate nothing is remembered.
	bare := newNetworks(1, ConnRate{})
	if bare.enter(stays, now) != notRefused || bare.enter(stays, now) != refusedConns {
		t.Error("not one connection for each")
	}
	bare.leave(stays)
	if len(bare.table) != 0 || bare.idle != 0 {
		t.Errorf("%d networks left, %d idle", len(bare.table), bare.idle)
	}
}

func TestAListenersRatesRefuseAndAreCounted(t *testing.T) {
	for name, l := range map[string]Listen{
		"ConnRate":    {ConnRate: ConnRate{PerSecond: 1, Burst: 2}},
		"NetworkRate": {NetworkRate: ConnRate{PerSecond: 1, Burst: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, 1)
			l.Protocol = testProtocol(&hooks{frame: echo})
			addr := listenOn(t, e, l)
			let := 0
			for e.Stats().RefusedRate == 0 { // however slow this machine is, it dials faster than that
				if !refused(t, addr) {
					let++
				}
			}
			if let < 2 {
				t.Errorf("%d were let in, want the burst of 2", let)
			}
		})
	}
}

// Strangers decide how many are refused, not how many lines that takes.
func TestRefusedConnectionsAreSaidOnceASecond(t *testing.T) {
	var log lines
	e, err := New(Config{Loops: 1, Logger: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	began := time.Now()
	addr := listenOn(t, e, Listen{MaxConns: 1, Protocol: testProtocol(&hooks{frame: echo})})
	first := dial(t, addr)
	write(t, first, frame("hi"))
	if got := readFrame(t, first); got != "hi" {
		t.Errorf("got %q", got)
	}
	const n = 50
	for range n {
		if !refused(t, addr) {
			t.Error("not refused")
		}
	}
	waitFor(t, "the refusals", func() bool { return e.Stats().RefusedMaxConns == n })
	if got, most := log.count(), 1+int(time.Since(began)/time.Second); got == 0 || got > most {
		t.Errorf("%d lines for %d refusals, want 1 to %d", got, n, most)
	}
}

// lines counts warnings.
type lines struct{ n atomic.Int64 }

func (l *lines) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"level":"warn"`)) {
		l.n.Add(1)
	}
	return len(p), nil
}

func (l *lines) count() int { return int(l.n.Load()) }

func TestAListenersBoundsAreChecked(t *testing.T) {
	e := start(t, 1)
	for name, l := range map[string]Listen{
		"Transport":      {Transport: transportCount},
		"TLS":            {Transport: TLS},
		"Origins":        {Origins: []string{"https://x"}},
		"NetworkBits4":   {NetworkBits4: 33},
		"NetworkBits6":   {NetworkBits6: -1},
		"ConnRate":       {ConnRate: ConnRate{PerSecond: -1}},
		"NetworkRate":    {NetworkRate: ConnRate{Burst: -1}},
		"TrustedProxies": {TrustedProxies: []netip.Prefix{{}}},
	} {
		l.Addr, l.Protocol = "127.0.0.1:0", testProtocol(&hooks{})
		if _, err := e.Listen(l); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
