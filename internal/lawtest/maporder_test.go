package lawtest

import "testing"

func TestRangesOverMapsInCoresAreCaught(t *testing.T) {
	got := MapOrderStaysInside(Tree{
		{Path: "relay/types.go", Text: `package relay

type set map[string]bool
type owner struct{ members set }
`},
		{Path: "relay/loop.go", Text: `package relay

import (
	"maps"
	"slices"

	"github.com/zlnode/zlnode/internal/clock"
)

type hidden = map[clock.Mono]int

func f(o owner, l []int, h func() hidden) {
	for range o.members {
	}
	for range h() {
	}
	for range maps.Keys(o.members) {
	}
	for range slices.Sorted(maps.Keys(o.members)) {
	}
	for range l {
	}
	for range 3 {
	}
	for range o.members { // order does not matter: all are freed
	}
}
`},
	}, compiled(t))
	caught(t, got,
		"relay/loop.go:13: range over a map", "relay/loop.go:15: range over a map", "relay/loop.go:17: range over a map")
}

func TestRangesOverMapsElsewhereAreAllowed(t *testing.T) {
	const text = "package x\n\nfunc f(m map[int]int) {\n\tfor range m {\n\t}\n}\n"
	caught(t, MapOrderStaysInside(Tree{{Path: "mailbox/a.go", Text: text}, {Path: "relay/a_test.go", Text: text}}, compiled(t)))
}

func TestPackagesOfOneFolderAreCheckedApart(t *testing.T) {
	got := MapOrderStaysInside(Tree{
		{Path: "relay/a/a.go", Text: "package a\n\nvar m map[int]int\n"},
		{Path: "relay/b/b.go", Text: "package b\n\nvar m []int\n\nfunc f() {\n\tfor range m {\n\t}\n}\n"},
	}, compiled(t))
	caught(t, got)
}
