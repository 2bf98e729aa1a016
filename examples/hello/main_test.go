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
	// Output:
	// Hello, Ada! You are guest number 1.
	// Hello, world! You are guest number 2.
}
