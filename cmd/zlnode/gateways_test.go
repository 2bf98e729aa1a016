package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/client"
)

// A match whose gateway is lost: all ops are answered but the last three rounds, of which
// the Actor has executed the first, and its answers are lost.
func lostGateway() (m *match, t totals) {
	m = newMatch()
	m.send(3).execute().receive()
	m.send(1).execute()
	m.replies, m.pushes = nil, nil
	m.send(2)
	m.ops = nil // as they were under way
	return m, totals{Ops: m.seen.seen(), Pushes: m.pushed}
}

func TestWhatAnActorHasNotExecutedIsSentAgainInItsOrder(t *testing.T) {
	m, total := lostGateway()
	again := m.ledger.resume(total)
	want := []order{{op: 9}, {op: 10, request: true}, {op: 11}, {op: 12, request: true}}
	if !slices.Equal(again, want) {
		t.Fatalf("%+v, want %+v", again, want)
	}
	for _, o := range again {
		m.ops = append(m.ops, modelOp{o.op, o.request})
	}
	m.execute().receive().send(2).execute().receive()
	if got, err := m.settle(); got != (tally{}) || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if n := len(m.ledger.open); n != 0 {
		t.Errorf("%d ops are open", n)
	}
}

func TestALossBesideThatOfAGatewayIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		again func([]modelOp) []modelOp
		want  tally
	}{
		"an op not sent again": {func(ops []modelOp) []modelOp { return ops[1:] }, tally{Lost: 1}},
		"an op sent twice":     {func(ops []modelOp) []modelOp { return twice(ops, 1) }, tally{Duplicated: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			m, total := lostGateway()
			for _, o := range m.ledger.resume(total) {
				m.ops = append(m.ops, modelOp{o.op, o.request})
			}
			m.ops = c.again(m.ops)
			m.execute().receive()
			got, err := m.settle()
			if err == nil {
				t.Error("the chain is that of all ops")
			}
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAHopGoesOnWhenItsGatewayIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		highest, hop uint64 // what the Actor says
		open         bool   // the op waits for its answer
		under        bool   // the hop is under way, as far as the client knows
		again        int
	}{
		"not executed":        {0, 0, true, true, 1},
		"under way":           {1, 1, true, true, 0},
		"over, and untold":    {1, 0, false, false, 0},
		"over, and a further": {1, 7, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			op := l.beginHop("room-1", time.Time{})
			again := l.resume(totals{Ops: seen{Highest: c.highest}, Hop: c.hop})
			if _, open := l.open[op]; open != c.open || (l.hop != nil) != c.under || len(again) != c.again {
				t.Fatalf("open %v, hop %+v, again %+v", open, l.hop, again)
			}
			if c.again == 1 && (again[0].hop == nil || again[0].hop.room != "room-1") {
				t.Errorf("%+v", again[0])
			}
		})
	}
}

func TestAVerdictWantsEachClientOfAKilledGatewayAtTheOther(t *testing.T) {
	for name, c := range map[string]struct {
		change func(e *evidence)
		ok     bool
		errors uint64
	}{
		"all went on": {func(*evidence) {}, true, 0},
		"one did not": {func(e *evidence) { e.gateway.Resumed = 0 }, false, 1},
		"none was killed": {func(e *evidence) {
			e.gateway.Killed, e.nodes[0].fate = "", fateStopped
		}, false, 1},
		"a bot met something else": {func(e *evidence) { e.outcomes[0].cause = errors.New("gone") }, false, 1},
		"the other one was killed, too": {func(e *evidence) {
			e.nodes = append(e.nodes, nodeEnd{"gateway-2", roleGateway, fateKilled, "down"})
			e.outcomes[0].cause = errors.New("gone")
		}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(evidenceOf(func(e *evidence) {
				e.nodes[0] = nodeEnd{"gateway-1", roleGateway, fateKilled, "down (killed)"}
				e.gateway = &gatewayReport{Killed: "gateway-1", Clients: 1, Resumed: 1, Resent: 1234, Away: spanOf(time.Millisecond, time.Second, time.Second)}
				c.change(e)
			}))
			if v.OK != c.ok || v.Errors != c.errors {
				t.Errorf("%+v", v)
			}
			if text := textOf(t, v); c.ok && !strings.Contains(text, "gateway-1 was killed: its 1 clients went on at the other gateway after 1ms (p50), 1s (max)") {
				t.Errorf("it says\n%s", text)
			}
		})
	}
}

func TestOnlyALostConnectionSendsABotToItsOtherGateway(t *testing.T) {
	lost := fmt.Errorf("request: %w", client.ErrDisconnected)
	b := newBot(1, newMeter(), 0)
	if b.cutOff(lost) {
		t.Error("a bot with one gateway went on")
	}
	b.fallback.gateway = "another"
	if b.cutOff(net.ErrClosed) || b.isAway() {
		t.Error("another error was taken for the loss of the gateway")
	}
	for range 2 { // the connection and each request under way tell it
		if !b.cutOff(lost) || !b.isAway() {
			t.Error("it does not go to the other gateway")
		}
	}
	select {
	case <-b.fallback.lost:
	default:
		t.Error("nobody is told")
	}
	b.close()
	if b.cutOff(lost) {
		t.Error("a bot that is closed goes on")
	}
}
