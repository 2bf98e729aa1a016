package zlnode_test

import (
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/faultproxy"
	"github.com/zlnode/zlnode/internal/wire"
)

// linkRoads are the roads between the nodes of a test, which ends them.
type linkRoads struct {
	*faultproxy.Roads
	t *testing.T
}

// passing is what passes: a kind of record, from one node to another.
type passing struct {
	from, to string
	cmd      wire.Command
}

type roadAction = faultproxy.Action

const (
	cutBefore   = faultproxy.CutBefore
	cutBehind   = faultproxy.CutBehind
	stallBefore = faultproxy.StallBefore
)

func newLinkRoads(t *testing.T) *linkRoads {
	r := &linkRoads{faultproxy.New(), t}
	t.Cleanup(r.Close)
	return r
}

// behind has the node of that configuration be dialled through its road.
func (r *linkRoads) behind(c zlnode.Config) zlnode.Config {
	r.t.Helper()
	var err error
	if c.Advertise, c.Listen, err = r.Behind(c.RID); err != nil {
		r.t.Fatal(err)
	}
	return c
}
