// Package storetest is the conformance suite of store.Store: what every
// implementation must do, seen through the interface alone.
package storetest

import (
	"testing"

	"github.com/zlnode/zlnode/store"
)

// Run tests the Store that open returns; open is called once for each case and must
// give an empty namespace each time. What open registers with t.Cleanup runs after
// the case, so that it can look at what the case left behind and close the Store.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"Lease", leaseCases},
		{"Node", nodeCases},
		{"Reserve", reserveCases},
		{"Finish", finishCases},
		{"Delete", deleteCases},
		{"Fence", fenceCases},
		{"Race", raceCases},
		{"Spot", spotCases},
		{"Member", memberCases},
		{"Move", moveCases},
		{"Aggregate", aggregateCases},
		{"Inventory", inventoryCases},
		{"First", firstCases},
		{"Free", freeCases},
		{"Epoch", epochCases},
		{"EpochSpot", epochSpotCases},
		{"View", viewCases},
		{"Call", callCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					c.run(&world{t: t, s: open(t)})
				})
			}
		})
	}
}

// testCase is one sentence about the Store.
type testCase struct {
	name string
	run  func(w *world)
}
