package node

import (
	"io"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestALogLineThatNobodyReadsAllocatesNothing(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	j := newPendingJoin(Join{Actor: "ada", Spot: "room", Timeout: time.Second}, a)
	o := &moveOut{node: w.node, cell: a, join: j, to: process{rid: "b"}}
	i := &moveIn{node: w.node, cell: a, from: process{rid: "b"}}
	for _, l := range []zerolog.Logger{{}, zerolog.New(io.Discard).Level(zerolog.InfoLevel)} {
		w.node.log = l
		if n := testing.AllocsPerRun(100, func() {
			j.log("a join begins", nil)
			o.log("a move is aborted", errStopping)
			i.log("a move to here is off", errStopping)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
