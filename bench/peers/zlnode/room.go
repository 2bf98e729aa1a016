package main

import (
	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/hook"
)

// room makes the actors members of a SpotWide Spot: their handlers have one gate. They
// are placed there as the test kit does it.
func room(members int) (tellFunc, func()) {
	app := zlnode.NewApp()
	t := zlnode.DefineActor(app, "sink", newSink, zlnode.DisableRelocation)
	zlnode.OnSendRaw(t, "tell", func(_ *zlnode.ActorCall, s *sink, payload []byte) error {
		env.RecvInRoom(s.shard, stampOf(payload))
		return nil
	})
	newRoom := func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil }
	zlnode.DefineUserSpot(app, "room", newRoom, zlnode.SpotWide, zlnode.DisableRelocation)

	addrs, n, stop := startLocal(app, members)
	inner := hook.Inner(n)
	check(inner.PlaceSpot("room", "room"))
	for _, a := range addrs {
		check(inner.PlaceMember(a.ID(), "room"))
	}
	return func(_, a int, pl []byte) { send(addrs[a], "tell", pl) }, stop
}
