package proctest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/witness"
)

const (
	walkerType     = "walker"
	roomType       = "room"
	hallType       = "hall"
	cellType       = "cell"
	playerType     = "player"
	channelName    = "work"
	ownChannelName = "apart"  // has connections of its own
	placePrefix    = "place-" // and the RID of its node: the id of a room

	opBytes    = len(witness.Op{})
	stateBytes = 20 << 10 // of an object, so that it travels in many chunks
	spotBytes  = 64 << 10 // of a Spot
)

// counter is what all objects are: it counts what it has executed.
type counter struct {
	w     *witness.Writer
	count uint32
	ticks bool
	build int
	more  []byte // of its state, that this build knows nothing of
}

// counterState carries one to another node. What a newer build has added to a state an older
// one keeps, as it was.
type counterState[T any] struct {
	of    func(*T) *counter
	bytes int
}

// plainState is the part of a state that all builds have.
const plainState = 5

func (s counterState[T]) Capture(v *T) ([]byte, error) {
	c := s.of(v)
	state := make([]byte, plainState, s.bytes)
	binary.LittleEndian.PutUint32(state, c.count)
	if c.ticks {
		state[4] = 1
	}
	if c.more == nil && c.build > 0 {
		c.more = fmt.Appendf(nil, "since build %d", c.build)
	}
	state = append(state, byte(len(c.more)))
	return append(state, c.more...)[:s.bytes], nil
}

func (s counterState[T]) Restore(v *T, state []byte) error {
	c := s.of(v)
	if len(state) != s.bytes {
		return fmt.Errorf("a state has %d bytes, not %d", len(state), s.bytes)
	}
	c.count, c.ticks = binary.LittleEndian.Uint32(state), state[4] == 1
	if n := int(state[plainState]); n > 0 {
		c.more = bytes.Clone(state[plainState+1:][:n])
	}
	return nil
}

func recordOf(kind witness.Kind, id string, objectGen, ownerGen uint64) witness.Record {
	return witness.Record{Kind: kind, Object: id, ObjGen: objectGen, OwnerGen: ownerGen}
}

func ofActor(kind witness.Kind, ref *zlnode.ActorRef) witness.Record {
	return recordOf(kind, ref.ID, ref.ObjectGen, ref.OwnerGen)
}

// execute is the handler of messages: what they carry is their own name. Whose state does not
// go along has no count to tell.
func (v *counter) execute(r witness.Record, payload []byte, counts bool) error {
	if len(payload) != opBytes {
		return zlnode.Errorf(zlnode.InvalidOperation, "%d bytes are no message's name", len(payload))
	}
	if r.Op = witness.Op(payload); counts {
		v.count++
		r.Count = v.count
	}
	v.w.Note(r)
	return nil
}

// started reports whether a timer was started now.
func (v *counter) started() bool {
	was := v.ticks
	v.ticks = true
	return !was
}

var ticking = zlnode.TimerOptions{Period: 50 * time.Millisecond}

// walker is the Actor.
type walker struct{ counter }

func (v *walker) execute(c *zlnode.ActorCall, payload []byte) error {
	ref := c.Actor().Ref()
	if err := v.counter.execute(ofActor(witness.Executed, &ref), payload, true); err != nil || !v.started() {
		return err
	}
	return c.StartTimer("tick", ticking)
}

// walkOrder has a walker join the first of these Spots that is not at its node; or, if it
// names one, this Spot; or go back to an Entry Spot.
type walkOrder struct {
	Nodes   []string
	Spot    string
	Entry   bool
	Timeout time.Duration
}

func (v *walker) join(c *zlnode.ActorCall, to walkOrder) (string, error) {
	here, spot := c.Node().RID(), to.Spot
	if spot == "" && !to.Entry {
		i := slices.IndexFunc(to.Nodes, func(rid string) bool { return rid != here })
		if i < 0 {
			return here, nil
		}
		spot = placePrefix + to.Nodes[i]
	}
	if spot == c.Actor().SpotID() {
		return here, nil
	}
	call := c.JoinSpot(spot, nil)
	if to.Entry {
		call = c.JoinEntrySpot()
	}
	if err := call.Timeout(to.Timeout).Defer(); err != nil {
		return "", err
	}
	ref := c.Actor().Ref()
	v.w.Note(ofActor(witness.JoinWanted, &ref))
	return here, nil
}

// OnJoinCompleted implements zlnode.JoinCompleter.
func (v *walker) OnJoinCompleted(c *zlnode.ActorCall, done zlnode.JoinDone) error {
	ref := c.Actor().Ref()
	r := ofActor(witness.JoinCompleted, &ref)
	r.Op = witness.Op(done.Operation)
	if done.Outcome != zlnode.JoinAccepted {
		r.Flags = witness.Failed
	}
	v.w.Note(r)
	return nil
}

// place is a Spot, whose callbacks are witnessed.
type place struct{ counter }

// OnJoinedActor implements zlnode.JoinObserver.
func (p *place) OnJoinedActor(_ *zlnode.SpotCall, actor zlnode.ActorRef) error {
	p.w.Note(ofActor(witness.JoinedSpot, &actor))
	return nil
}

// OnLeaveActor implements zlnode.LeaveObserver.
func (p *place) OnLeaveActor(_ *zlnode.SpotCall, actor zlnode.ActorRef) error {
	p.w.Note(ofActor(witness.LeftSpot, &actor))
	return nil
}

// room is a place that asks.
type room struct{ place }

// OnActorJoin implements zlnode.JoinAdmitter.
func (r *room) OnActorJoin(c *zlnode.JoinSpotCall) (zlnode.Admission, error) {
	r.w.Note(ofActor(witness.JoinAdmitted, &c.Actor))
	return zlnode.Accept(nil), nil
}

// hall is a room that moves with its members.
type hall struct{ room }

// cell is an Instance Spot.
type cell struct{ counter }

// spotMessages has Spots of a type execute messages. What a PerActor Spot has counted it forgets
// when it moves, so it does not say so.
func spotMessages[S any](t *zlnode.SpotType[S], of func(*S) *counter, counts bool) {
	execute := func(c *zlnode.SpotCall, s *S, payload []byte) error {
		ref, v := c.Spot().Ref(), of(s)
		err := v.execute(recordOf(witness.Executed, ref.ID, ref.ObjectGen, ref.OwnerGen), payload, counts)
		if err != nil || !counts || !v.started() {
			return err
		}
		return c.StartTimer("tick", ticking)
	}
	zlnode.OnSpotSendRaw(t, "tell", execute)
	zlnode.OnSpotRequestRaw(t, "ask", func(c *zlnode.SpotCall, s *S, payload []byte) ([]byte, error) {
		return payload, execute(c, s, payload)
	})
	zlnode.OnSpotRequest(t, "where", func(c *zlnode.SpotCall, _ *S, _ struct{}) (string, error) { return c.Node().RID(), nil })
	zlnode.OnSpotTimer(t, "tick", func(*zlnode.SpotCall, *S, zlnode.Tick) error { return nil })
}

// newApp is what all nodes run. A build above 0 is a newer program: it adds to the state of
// objects, and says its number.
func newApp(w *witness.Writer, build int) *zlnode.App {
	app, fresh := zlnode.NewApp(), func() counter { return counter{w: w, build: build} }
	t := zlnode.DefineActor(app, walkerType, func(*zlnode.ActorContext) (*walker, error) { return &walker{fresh()}, nil },
		zlnode.PreserveStateWith(counterState[walker]{func(v *walker) *counter { return &v.counter }, stateBytes}))
	zlnode.OnSendRaw(t, "tell", func(c *zlnode.ActorCall, v *walker, payload []byte) error { return v.execute(c, payload) })
	zlnode.OnRequestRaw(t, "ask", func(c *zlnode.ActorCall, v *walker, payload []byte) ([]byte, error) {
		return payload, v.execute(c, payload)
	})
	zlnode.OnRequest(t, "join", func(c *zlnode.ActorCall, v *walker, to walkOrder) (string, error) { return v.join(c, to) })
	zlnode.OnRequest(t, "where", func(c *zlnode.ActorCall, _ *walker, _ struct{}) (string, error) { return c.Node().RID(), nil })
	zlnode.OnRequest(t, "spot", func(c *zlnode.ActorCall, _ *walker, _ struct{}) (string, error) { return c.Actor().SpotID(), nil })
	zlnode.OnRequest(t, "state", func(_ *zlnode.ActorCall, v *walker, _ struct{}) (string, error) { return string(v.more), nil })
	zlnode.OnTimer(t, "tick", func(*zlnode.ActorCall, *walker, zlnode.Tick) error { return nil })
	zlnode.DefineEntrySpot(app, func(*zlnode.SpotContext) (*place, error) { return &place{fresh()}, nil })
	spotMessages(zlnode.DefineUserSpot(app, roomType, func(*zlnode.SpotContext) (*room, error) { return &room{place{fresh()}}, nil },
		zlnode.PerActor, zlnode.RecreateOnRelocation), func(r *room) *counter { return &r.counter }, false)
	ofHall, ofCell := func(h *hall) *counter { return &h.counter }, func(c *cell) *counter { return &c.counter }
	spotMessages(zlnode.DefineUserSpot(app, hallType, func(*zlnode.SpotContext) (*hall, error) { return &hall{room{place{fresh()}}}, nil },
		zlnode.SpotWide, zlnode.PreserveStateWith(counterState[hall]{ofHall, spotBytes})), ofHall, true)
	spotMessages(zlnode.DefineInstanceSpot(app, cellType, func(*zlnode.SpotContext) (*cell, error) { return &cell{fresh()}, nil },
		zlnode.PreserveStateWith(counterState[cell]{ofCell, spotBytes})), ofCell, true)
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

// watched are the types whose turns are witnessed.
var watched = []string{walkerType, roomType, hallType, cellType}

// observe notes what a node says of objects.
func observe(w *witness.Writer) func(*node.Event) {
	kinds := map[node.EventKind]witness.Kind{
		node.TurnBegan: witness.TurnBegan, node.TurnEnded: witness.TurnEnded, node.MessageAccepted: witness.Accepted,
		node.MessageRefused: witness.Refused, node.GateOpened: witness.GateOpened, node.GateClosed: witness.GateClosed,
		node.BoundaryCrossed: witness.Boundary,
	}
	return func(e *node.Event) {
		message := len(e.Payload) == opBytes && (e.What == "tell" || e.What == "ask")
		if !slices.Contains(watched, e.Type) && (e.Is != node.MessageRefused || !message) && e.Is != node.MessageAccepted {
			return
		}
		r := ofActor(kinds[e.Is], &e.Ref)
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
