package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/store"
)

func TestATargetMeetsEachRuleInTurn(t *testing.T) {
	rolling := Request{Mode: RollingUpdate, Version: "1.1.0"}
	for what, c := range map[string]struct {
		edit func(*Node)
		r    Request
		wave string
		need []Load
		why  string // "": it is a target
	}{
		"all is well":               {},
		"another version":           {edit: func(d *Node) { d.AppVersion = "1.1.0" }, why: "another application version"},
		"the version of an update":  {edit: func(d *Node) { d.AppVersion = "1.1.0" }, r: rolling},
		"a later one than that":     {edit: func(d *Node) { d.AppVersion = "1.2.0" }, r: rolling, why: "another application version"},
		"the old one for an update": {r: rolling, why: "another application version"},
		"itself":                    {edit: func(d *Node) { d.RID = "a" }, why: "there is no other node"},
		"it is relocated":           {edit: func(d *Node) { d.State = store.Relocating }, why: "do not serve"},
		"a client":                  {edit: func(d *Node) { d.Role = store.RoleClient }, why: "do not serve"},
		"another mesh":              {edit: func(d *Node) { d.Mesh = "other" }, why: "do not serve"},
		"it takes nothing":          {edit: func(d *Node) { d.Weight = 0 }, why: "do not serve"},
		"its lease is over":         {edit: func(d *Node) { d.LeaseLeft = 0 }, why: "do not serve"},
		"no such type":              {edit: func(d *Node) { d.ActorTypes = []string{"npc"} }, why: "do not host"},
		"another policy":            {edit: func(d *Node) { d.ActorPolicies["player"] = 2 }, why: "do not host"},
		"an old node":               {edit: func(d *Node) { d.ActorPolicies = nil }, why: "do not host"},
		"another gate":              {edit: func(d *Node) { d.SpotTypes[0].Wide = false }, need: []Load{{arenas, 1}}, why: "do not host"},
		"another policy of a Spot":  {edit: func(d *Node) { d.SpotTypes[0].Policy = 1 }, need: []Load{{arenas, 1}}, why: "do not host"},
		"a member's type":           {edit: func(d *Node) { d.ActorTypes = nil }, need: []Load{{arenas, 1}, {actors, 2}}, why: "do not host"},
		"a Spot with members":       {need: []Load{{arenas, 1}, {actors, 2}}},
		"no waves":                  {edit: func(d *Node) { d.Wave = "" }},
		"the same wave":             {edit: func(d *Node) { d.Wave = "w1" }, wave: "w1", why: "same maintenance wave"},
		"another wave":              {edit: func(d *Node) { d.Wave = "w2" }, wave: "w1"},
		"in no wave":                {wave: "w1"},
		"no link":                   {edit: func(d *Node) { d.Linked = false }, why: "not linked"},
		"full":                      {edit: func(d *Node) { d.MaxActors, d.Actors = 5, 5 }, why: "are full"},
		"room for one":              {edit: func(d *Node) { d.MaxActors, d.Actors = 5, 4 }},
		"not for the members":       {edit: func(d *Node) { d.MaxActors, d.Actors = 5, 4 }, need: []Load{{arenas, 1}, {actors, 2}}, why: "are full"},
		"no room for a Spot":        {edit: func(d *Node) { d.MaxSpots, d.Spots = 5, 5 }, need: []Load{{arenas, 1}}, why: "are full"},
		"the first rule tells":      {edit: func(d *Node) { d.AppVersion, d.Linked, d.State = "2.0.0", false, store.Draining }, why: "of the other nodes 1 have another application version"},
	} {
		d := nodeNamed("t")
		if c.edit != nil {
			c.edit(&d)
		}
		me := self
		me.Wave = c.wave
		ts := newTargets(me, c.r)
		ts.list([]Node{d})
		if c.need == nil {
			c.need = []Load{{actors, 1}}
		}
		at, why := ts.choose(0, c.need)
		if (at == 0) != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: target %d, %q; want %q", what, at, why, c.why)
		}
		if lacks := ts.lacks(c.need[:1]); c.need[0].Count == 1 && len(c.need) == 1 && !strings.Contains(lacks, c.why) {
			t.Errorf("%s: before the move it lacks %q; want %q", what, lacks, c.why)
		}
	}
}

func TestUnitsAreSpreadByWeightAndByWhatIsThere(t *testing.T) {
	list := func() []Node {
		b, c, d := nodeNamed("b"), nodeNamed("c"), nodeNamed("d")
		c.Weight = 200
		d.Actors = 90
		return []Node{b, c, d}
	}
	ts := newTargets(self, Request{})
	ts.list(list())
	got := map[string]int{}
	need := []Load{{actors, 1}}
	for i := range 400 {
		if i == 200 { // of the list that comes meanwhile, what was sent is a part
			later := list()
			for j := range later {
				later[j].Actors += got[later[j].RID]
			}
			ts.list(later)
		}
		at, why := ts.choose(0, need)
		if at < 0 {
			t.Fatal(why)
		}
		to := processOf(&ts.nodes[at].Descriptor)
		ts.sendTo(to, need)
		ts.landed(to, need, true)
		got[to.RID]++
	}
	// 490 objects in all, in the share 1:2:1, of which d has 90 before.
	if want := fmt.Sprint(map[string]int{"b": 123, "c": 245, "d": 32}); fmt.Sprint(got) != want {
		t.Errorf("they went to %v; want %v", got, want)
	}
}

func TestWhatIsUnderWayCountsAsTaken(t *testing.T) {
	b, c := nodeNamed("b"), nodeNamed("c")
	b.MaxActors, c.MaxActors, c.Actors = 2, 10, 5
	ts := newTargets(self, Request{})
	ts.list([]Node{b, c})
	need := []Load{{actors, 1}}
	var went []string
	for range 4 {
		at, _ := ts.choose(0, need)
		to := processOf(&ts.nodes[at].Descriptor)
		ts.sendTo(to, need)
		went = append(went, to.RID)
	}
	if fmt.Sprint(went) != "[b b c c]" {
		t.Errorf("they went to %v; b has room for two", went)
	}
	ts.landed(Process{"b", 7}, need, false) // one has not come
	if at, _ := ts.choose(0, need); ts.nodes[at].RID != "b" {
		t.Errorf("the next goes to %s; b has room again", ts.nodes[at].RID)
	}
}

func TestThereIsRoomForAllOrNothingBegins(t *testing.T) {
	b, c := nodeNamed("b"), nodeNamed("c")
	b.MaxActors, c.MaxActors, c.Actors = 2, 10, 5
	ts := newTargets(self, Request{})
	ts.list([]Node{b, c})
	for count, lacks := range map[int]string{7: "", 8: "there is room for 7, and 8 are here"} {
		if got := ts.lacks([]Load{{actors, count}}); !strings.Contains(got, lacks) || (got == "") != (lacks == "") {
			t.Errorf("of %d it lacks %q; want %q", count, got, lacks)
		}
	}
}
