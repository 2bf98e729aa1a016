package main

import "testing"

func TestPacketsComeOutAsTheyWentIn(t *testing.T) {
	if op, err := parseOp(appendOp(nil, 1<<63+5)); op != 1<<63+5 || err != nil {
		t.Errorf("op %d, %v", op, err)
	}
	want := answer{op: 1, position: 2, chain: 1<<64 - 1}
	if a, err := parseAnswer(appendAnswer(nil, want)); a != want || err != nil {
		t.Errorf("answer %+v, %v", a, err)
	}
	if a, push, err := parseMoved(appendMoved(nil, want, 9)); a != want || push != 9 || err != nil {
		t.Errorf("moved %+v, %d, %v", a, push, err)
	}
	if n, player, err := parseReport(appendReport(nil, 7, "player-1")); n != 7 || string(player) != "player-1" || err != nil {
		t.Errorf("report %d, %q, %v", n, player, err)
	}
	for _, to := range []string{"room-1", ""} {
		op, room, err := parseHop(appendHop(nil, 3, to))
		if n, _ := parseOp(op); n != 3 || string(room) != to || err != nil {
			t.Errorf("hop %d to %q, %v", n, room, err)
		}
	}
}

func TestPacketsOfAnotherSizeAreRefused(t *testing.T) {
	for size := range movedSize + 2 {
		b := make([]byte, size)
		if _, err := parseOp(b); (err == nil) != (size == opSize) {
			t.Errorf("op of %d bytes: %v", size, err)
		}
		if _, err := parseAnswer(b); (err == nil) != (size == answerSize) {
			t.Errorf("answer of %d bytes: %v", size, err)
		}
		if _, _, err := parseMoved(b); (err == nil) != (size == movedSize) {
			t.Errorf("moved of %d bytes: %v", size, err)
		}
		if _, _, err := parseReport(b); (err == nil) != (size > opSize) {
			t.Errorf("report of %d bytes: %v", size, err)
		}
		if _, _, err := parseHop(b); (err == nil) != (size >= opSize) {
			t.Errorf("hop of %d bytes: %v", size, err)
		}
	}
}
