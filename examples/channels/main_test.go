package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // a dependency starts goroutines when it is loaded
}

func Example() {
	main()
	// Unordered output:
	// matches found by map[match-1:6 match-2:2]
	// match-1 has read the map list again
	// match-2 has read the map list again
	// published to 2 nodes
	// match-1 hears of the season of frost
	// match-2 hears of the season of frost
	// rejected: true
}
