package main

import (
	"context"
	"fmt"
	"time"

	"github.com/zlnode/zlnode"
)

const (
	roomType = "room"
	// roomsPerNode is how many rooms each object node has for players that hop.
	roomsPerNode = 4
)

// room is a User Spot that players hop to. It counts who comes and goes.
type room struct{ joined, left uint64 }

var (
	_ zlnode.JoinObserver  = (*room)(nil)
	_ zlnode.LeaveObserver = (*room)(nil)
)

func newRoom(*zlnode.SpotContext) (*room, error) { return &room{}, nil }

// OnJoinedActor implements zlnode.JoinObserver.
func (r *room) OnJoinedActor(*zlnode.SpotCall, zlnode.ActorRef) error {
	r.joined++
	return nil
}

// OnLeaveActor implements zlnode.LeaveObserver.
func (r *room) OnLeaveActor(*zlnode.SpotCall, zlnode.ActorRef) error {
	r.left++
	return nil
}

// roomPlace is a room and the node that it is on.
type roomPlace struct {
	ID  string `json:"id"`
	RID string `json:"rid"`
}

// roomCensus is what a room tells of itself, and of the moves of its node.
type roomCensus struct {
	ID     string `json:"id"`
	RID    string `json:"rid"`
	Joined uint64 `json:"joined,string"`
	Left   uint64 `json:"left,string"`

	MovedOut     uint64 `json:"moved_out,string"`
	MovedIn      uint64 `json:"moved_in,string"`
	SourceStop   span   `json:"source_stop"`
	TargetResume span   `json:"target_resume"`
}

// span is how long something took, in microseconds.
type span struct {
	P50US int64 `json:"p50_us"`
	P99US int64 `json:"p99_us"`
	MaxUS int64 `json:"max_us"`
}

func spanOf(p50, p99, longest time.Duration) span {
	return span{p50.Microseconds(), p99.Microseconds(), longest.Microseconds()}
}

func defineRooms(app *zlnode.App) {
	t := zlnode.DefineUserSpot(app, roomType, newRoom, zlnode.SpotWide, zlnode.DisableRelocation)
	zlnode.OnSpotRequest(t, packetCensus, func(c *zlnode.SpotCall, r *room, _ struct{}) (roomCensus, error) {
		m := c.Node().Stats().Moves
		stop, resume := m.SourceStop, m.TargetResume
		return roomCensus{
			c.Spot().ID(), c.Node().RID(), r.joined, r.left, m.Out, m.In,
			spanOf(stop.P50, stop.P99, stop.Max), spanOf(resume.P50, resume.P99, resume.Max),
		}, nil
	})
}

// openRooms creates rooms until each of that many object nodes has roomsPerNode, and
// returns those. Two gateways that do so find the same.
func openRooms(ctx context.Context, n *zlnode.Node, nodes int) ([]roomPlace, error) {
	var rooms []roomPlace
	count := map[string]int{}
	for made := 0; len(rooms) < nodes*roomsPerNode; made++ {
		if made == 4*nodes*roomsPerNode {
			return nil, fmt.Errorf("of %d rooms %v are at their nodes, and %d nodes are to have %d each", made, count, nodes, roomsPerNode)
		}
		r, err := n.GetOrCreateSpot(ctx, zlnode.CreateSpot{ID: fmt.Sprint("room-", made+1), Type: roomType})
		if err != nil {
			return nil, err
		}
		if count[r.Ref.RID] < roomsPerNode {
			count[r.Ref.RID]++
			rooms = append(rooms, roomPlace{r.Ref.ID, r.Ref.RID})
		}
	}
	return rooms, nil
}

// census asks all rooms. One whose node is dead is left out.
func (w *world) census(ctx context.Context, n *zlnode.Node) ([]roomCensus, error) {
	all := []roomCensus{}
	for _, r := range w.rooms() {
		one, err := zlnode.Request[roomCensus](ctx, n.Spot(r.ID), packetCensus, struct{}{})
		switch {
		case err == nil:
			all = append(all, one)
		case !arenaGone(err):
			return nil, err
		}
	}
	return all, nil
}
