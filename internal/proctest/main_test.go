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
	if os.Getenv("GORACE") == "" { // of the children: a race shows, the run goes on, and nobody waits a second at each end
		_ = os.Setenv("GORACE", "history_size=2 atexit_sleep_ms=50")
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // a dependency starts goroutines when it is loaded
}
