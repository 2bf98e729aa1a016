package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/zlnode/zlnode"
)

const (
	racerType  = "racer" // its factory notes each run
	plainType  = "plain" // for measurements
	whoPacket  = "who"   // answers with the Actor's ref
	raceIDForm = "race-"
)

// defineRaced defines the Actors that are raced for.
func defineRaced(app *zlnode.App, runs *runLog) {
	t := zlnode.DefineActor(app, racerType, func(c *zlnode.ActorContext) (*racingActor, error) {
		return &racingActor{}, runs.note(recordOf(runBegan, c.Ref(), 0))
	}, zlnode.DisableRelocation)
	zlnode.OnRequest(t, whoPacket, func(c *zlnode.ActorCall, _ *racingActor, _ struct{}) (zlnode.ActorRef, error) {
		return c.Actor().Ref(), nil
	})
	zlnode.OnCreateActor(app, func(c *zlnode.CreateActorCall) (zlnode.Admission, error) {
		if _, raced := c.Instance.(*racingActor); !raced {
			return zlnode.Accept(nil), nil
		}
		var o raceOrder
		if err := c.DecodeRequest(&o); err != nil {
			return zlnode.Admission{}, err
		}
		end, err := o.follow(c)
		if noted := runs.note(recordOf(end, c.Actor.Ref(), o.Call)); err == nil {
			err = noted
		}
		if end == runRejected {
			return zlnode.Reject(o.reply()), err
		}
		return zlnode.Accept(o.reply()), err
	})
}

// createRaced creates one of them or, with get, finds it.
func createRaced(ctx context.Context, n *zlnode.Node, id string, get bool, o raceOrder) (zlnode.Creation, error) {
	c := zlnode.CreateActor{ID: id, Type: racerType, Request: o}
	if get {
		return n.GetOrCreateActor(ctx, c)
	}
	return n.CreateActor(ctx, c)
}

// askRaced returns what the Actor itself takes for its ref.
func askRaced(ctx context.Context, n *zlnode.Node, id string) (zlnode.ActorRef, error) {
	return zlnode.Request[zlnode.ActorRef](ctx, n.Actor(id), whoPacket, struct{}{})
}

// racingActor is an Actor that is raced for.
type racingActor struct{}

// raceWorld is what object nodes of benchmarks host.
func raceWorld(runs *runLog) *zlnode.App {
	app := zlnode.NewApp()
	defineRaced(app, runs)
	zlnode.DefineActor(app, plainType, func(*zlnode.ActorContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.RecreateOnRelocation)
	return app
}

// raceLease makes leases short: a killed node's name, and what it owned, is free again
// once its lease is over. A node that the machine holds up for as long loses its lease,
// too, and goes on with it when it has been renewed.
func raceLease(cfg *zlnode.Config) {
	cfg.LeaseTTL, cfg.LeaseMargin = 3*time.Second, time.Second
	cfg.LeaseRenew, cfg.LeaseTimeout = 500*time.Millisecond, time.Second
}

// orderedEnd is how a call wants its own creation to end, if it wins.
type orderedEnd uint8

const (
	orderAccept orderedEnd = iota
	orderReject
	orderFail
)

// raceOrder is the creation request of one call.
type raceOrder struct {
	Call uint64 // its number; 0 is none
	Wait time.Duration
	End  orderedEnd
}

// orderedFailure is a kind that nothing else in a race ends with.
const orderedFailure = zlnode.DataLost

// follow does what the order says, for as long as the creation has time.
func (o *raceOrder) follow(ctx context.Context) (runEvent, error) {
	if o.Wait > 0 {
		t := time.NewTimer(o.Wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return runFailed, ctx.Err()
		}
	}
	switch o.End {
	case orderFail:
		return runFailed, zlnode.Errorf(orderedFailure, "as ordered")
	case orderReject:
		return runRejected, nil
	case orderAccept:
	}
	return runAccepted, nil
}

// reply is what the call gets if it wins, and nobody else.
func (o *raceOrder) reply() []byte { return strconv.AppendUint(nil, o.Call, 10) }

// repliedCall is the inverse of reply; 0 if it is none.
func repliedCall(reply []byte) (call uint64) {
	if json.Unmarshal(reply, &call) != nil {
		return 0
	}
	return call
}

func raceID(object uint32) string { return raceIDForm + strconv.FormatUint(uint64(object), 10) }

// raceObject is the inverse of raceID; noObject if it is none.
func raceObject(id string) uint32 {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, raceIDForm), 10, 32)
	if err != nil {
		return noObject
	}
	return uint32(n)
}

// noObject is the number of no object.
const noObject = ^uint32(0)

// recordOf is a record about an Actor.
func recordOf(e runEvent, ref zlnode.ActorRef, call uint64) runRecord {
	return runRecord{Event: e, Object: raceObject(ref.ID), Gen: ref.ObjectGen, Lifecycle: ref.Lifecycle, Call: call}
}
