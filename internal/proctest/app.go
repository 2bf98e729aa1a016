package proctest

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/witness"
)

const (
	walkerType     = "walker"
	playerType     = "player"
	channelName    = "work"
	ownChannelName = "apart"  // has connections of its own
	placePrefix    = "place-" // and the RID of its node: the id of a User Spot

	opBytes    = len(witness.Op{})
	stateBytes = 20 << 10 // of a walker, so that it travels in many chunks
)

// walker is the Actor: it counts what it has executed.
type walker struct {
	w     *witness.Writer
	count uint32
	ticks bool
}

// walkerState carries a walker to another node.
type walkerState struct{}

func (walkerState) Capture(v *walker) ([]byte, error) {
	state := make([]byte, stateBytes)
	binary.LittleEndian.PutUint32(state, v.count)
	if v.ticks {
		state[4] = 1
	}
	return state, nil
}

func (walkerState) Restore(v *walker, state []byte) error {
	v.count, v.ticks = binary.LittleEndian.Uint32(state), state[4] == 1
	return nil
}

// walkOrder has a walker join the first of these Spots that is not at its node.
type walkOrder struct {
	Nodes   []string
	Timeout time.Duration
}

func recordOf(kind witness.Kind, ref *zlnode.ActorRef) witness.Record {
	return witness.Record{Kind: kind, Object: ref.ID, ObjGen: ref.ObjectGen, OwnerGen: ref.OwnerGen}
}

// execute is the handler of messages: what they carry is their own name.
func (v *walker) execute(c *zlnode.ActorCall, payload []byte) error {
	if len(payload) != opBytes {
		return zlnode.Errorf(zlnode.InvalidOperation, "%d bytes are no message's name", len(payload))
	}
	v.count++
	ref := c.Actor().Ref()
	r := recordOf(witness.Executed, &ref)
	r.Op, r.Count = witness.Op(payload), v.count
	v.w.Note(r)
	if !v.ticks {
		v.ticks = true
		return c.StartTimer("tick", zlnode.TimerOptions{Period: 50 * time.Millisecond})
	}
	return nil
}

func (v *walker) join(c *zlnode.ActorCall, to walkOrder) (string, error) {
	here := c.Node().RID()
	i := slices.IndexFunc(to.Nodes, func(rid string) bool { return rid != here })
	if i < 0 {
		return here, nil
	}
	if err := c.JoinSpot(placePrefix+to.Nodes[i], nil).Timeout(to.Timeout).Defer(); err != nil {
		return "", err
	}
	ref := c.Actor().Ref()
	v.w.Note(recordOf(witness.JoinWanted, &ref))
	return here, nil
}

// OnJoinCompleted implements zlnode.JoinCompleter.
func (v *walker) OnJoinCompleted(c *zlnode.ActorCall, done zlnode.JoinDone) error {
	ref := c.Actor().Ref()
	r := recordOf(witness.JoinCompleted, &ref)
	r.Op = witness.Op(done.Operation)
	if done.Outcome != zlnode.JoinAccepted {
		r.Flags = witness.Failed
	}
	v.w.Note(r)
	return nil
}

// place is a Spot, whose callbacks are witnessed.
type place struct{ w *witness.Writer }

// OnJoinedActor implements zlnode.JoinObserver.
func (p *place) OnJoinedActor(_ *zlnode.SpotCall, actor zlnode.ActorRef) error {
	p.w.Note(recordOf(witness.JoinedSpot, &actor))
	return nil
}

// OnLeaveActor implements zlnode.LeaveObserver.
func (p *place) OnLeaveActor(_ *zlnode.SpotCall, actor zlnode.ActorRef) error {
	p.w.Note(recordOf(witness.LeftSpot, &actor))
	return nil
}

// room is a place that asks.
type room struct{ place }

// OnActorJoin implements zlnode.JoinAdmitter.
func (r *room) OnActorJoin(c *zlnode.JoinSpotCall) (zlnode.Admission, error) {
	r.w.Note(recordOf(witness.JoinAdmitted, &c.Actor))
	return zlnode.Accept(nil), nil
}

// newApp is what all nodes run.
func newApp(w *witness.Writer) *zlnode.App {
	app := zlnode.NewApp()
	t := zlnode.DefineActor(app, walkerType, func(*zlnode.ActorContext) (*walker, error) { return &walker{w: w}, nil }, zlnode.PreserveStateWith(walkerState{}))
	zlnode.OnSendRaw(t, "tell", func(c *zlnode.ActorCall, v *walker, payload []byte) error { return v.execute(c, payload) })
	zlnode.OnRequestRaw(t, "ask", func(c *zlnode.ActorCall, v *walker, payload []byte) ([]byte, error) {
		return payload, v.execute(c, payload)
	})
	zlnode.OnRequest(t, "join", func(c *zlnode.ActorCall, v *walker, to walkOrder) (string, error) { return v.join(c, to) })
	zlnode.OnRequest(t, "where", func(c *zlnode.ActorCall, _ *walker, _ struct{}) (string, error) { return c.Node().RID(), nil })
	zlnode.OnTimer(t, "tick", func(*zlnode.ActorCall, *walker, zlnode.Tick) error { return nil })
	zlnode.DefineEntrySpot(app, func(*zlnode.SpotContext) (*place, error) { return &place{w}, nil })
	zlnode.DefineUserSpot(app, "room", func(*zlnode.SpotContext) (*room, error) { return &room{place{w}}, nil }, zlnode.PerActor, zlnode.RecreateOnRelocation)
	whoami := func(c *zlnode.NodeCall, _ struct{}) (string, error) { return c.Node().RID(), nil }
	zlnode.OnNodeRequest(app, "whoami", whoami)
	for _, name := range []string{channelName, ownChannelName} {
		zlnode.OnChannelRequest(zlnode.DefineChannel(app, name, zlnode.HandlerOptions{}), "whoami", whoami)
	}
	p := zlnode.DefineSession(app, playerType, func(*zlnode.SessionContext) (*struct{}, error) { return &struct{}{}, nil })
	zlnode.Relay(p, "ask", walkerType)
	zlnode.Relay(p, "tell", walkerType)
	zlnode.OnPacketRequest(p, "bind", func(c *zlnode.SessionCall, _ *struct{}, ref zlnode.ActorRef) (string, error) {
		return "bound", c.Bind(ref)
	})
	return app
}

// observe notes what a node says of walkers.
func observe(w *witness.Writer) func(*node.Event) {
	kinds := map[node.EventKind]witness.Kind{
		node.TurnBegan: witness.TurnBegan, node.TurnEnded: witness.TurnEnded, node.MessageAccepted: witness.Accepted,
		node.MessageRefused: witness.Refused, node.GateOpened: witness.GateOpened, node.GateClosed: witness.GateClosed,
		node.BoundaryCrossed: witness.Boundary,
	}
	return func(e *node.Event) {
		message := len(e.Payload) == opBytes && (e.What == "tell" || e.What == "ask")
		if e.Type != walkerType && (e.Is != node.MessageRefused || !message) && e.Is != node.MessageAccepted {
			return
		}
		r := recordOf(kinds[e.Is], &e.Ref)
		switch {
		case message:
			r.Op = witness.Op(e.Payload)
		case e.Is == node.MessageAccepted, e.Is == node.MessageRefused:
			return
		}
		if e.Err != nil {
			r.Flags = witness.Failed
		}
		w.Note(r)
	}
}
