package redislua

import (
	"testing"
	"time"

	"github.com/zlnode/zlnode/store/storetest"
)

// The scripts, one for each subject, prove the Store's part of:
//
// req: ID-02 ID-04 (move, aggregate: what one commit changes)
// req: ID-06 (first, move, spots: fences)
// req: CR-03 (capacity)
// req: AG-03 AG-04 (aggregate)
func TestScriptsAnswerAsWritten(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		storetest.RunScripts(t, "../storetest/testdata", func(t *testing.T, hold time.Duration) storetest.Driver {
			return openRewindable(t, url, func(o *Options) { o.RecoveryHold = hold })
		})
	})
}
