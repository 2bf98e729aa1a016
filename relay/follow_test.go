package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// The scripts of Follows and of what is said about attempts.
//
//	follow [own=n] [for=d]                   unit "u" is another's, as owner generation 4, from now on
//	stray [gen=n] [own=n] [hops=n] [deadline=d]
//	judge [committing] [have and comes: version= attempt= another, with a c before those of what comes]
//
// req: MF-01 MF-02 RL-13 RL-14
func TestFollowScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/follow", func(t *testing.T, path string) {
		var now clock.Mono
		var f Follow
		script(t, path, func(w words) string {
			w.clock(&now, "follow")
			switch w.cmd {
			case "follow":
				f = NewFollow(unitGen, store.OwnerGen(w.number("own", 4)), now, w.span("for", 30*time.Second))
				return fmt.Sprintf("until %v", time.Duration(f.Until()))
			case "stray":
				m := Stray{
					ObjectGen: store.ObjectGen(w.number("gen", 0)), OwnerGen: store.OwnerGen(w.number("own", 3)),
					Hops: uint8(w.number("hops", 0)), Deadline: clock.Never,
				}
				if w.args["deadline"] != "" {
					m.Deadline = clock.Mono(w.span("deadline", 0))
				}
				to, no := f.Decide(now, m)
				if no != nil {
					return no.says()
				}
				return fmt.Sprintf("goes on by owner generation %d, hop %d", to.OwnerGen, to.Hops)
			default:
				return w.verdict()
			}
		})
	})
}

func (w words) verdict() string {
	have := fenceArg(words{t: w.t}, w.number("version", 10))
	have.Attempt = uint32(w.number("attempt", 1))
	comes := fenceArg(words{t: w.t}, w.number("cversion", 10))
	comes.Attempt, comes.ObjectGen, comes.OwnerGen = uint32(w.number("cattempt", 1)), store.ObjectGen(w.number("cgen", uint64(unitGen))), store.OwnerGen(w.number("cown", uint64(ownerGen)))
	if w.has("another") {
		comes.Relocation[0] = 1
	}
	return map[Verdict]string{Same: "same", Replace: "replace", Stale: "stale", Forged: "forged"}[Judge(have, comes, w.has("committing"))]
}
