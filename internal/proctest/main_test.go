package proctest

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if RunChild() {
		return
	}
	if os.Getenv("GORACE") == "" { // of the children: a race shows, and the run goes on
		_ = os.Setenv("GORACE", "history_size=2")
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // a dependency starts goroutines when it is loaded
}
