package main

import (
	"time"

	"github.com/zlnode/zlnode"
)

// ownTimers are an Actor's timers in a turn.
type ownTimers struct{ c *zlnode.ActorCall }

func (t ownTimers) start(name string, d time.Duration) {
	check(t.c.StartTimer(name, zlnode.TimerOptions{Delay: d}))
}

func (t ownTimers) stop(name string) { t.c.StopTimer(name) }

func timers(actors int) (func(int, int, timerPhase), func()) {
	app := zlnode.NewApp()
	t := zlnode.DefineActor(app, "sink", newSink, zlnode.DisableRelocation)
	zlnode.OnSendRaw(t, "step", func(c *zlnode.ActorCall, s *sink, payload []byte) error {
		env.Step(s.shard, timerPhase(payload[0]), ownTimers{c})
		return nil
	})
	for _, name := range timerNames {
		zlnode.OnTimer(t, name, func(_ *zlnode.ActorCall, s *sink, tick zlnode.Tick) error {
			env.Fired(s.shard, tick.Name)
			return nil
		})
	}
	addrs, _, stop := startLocal(app, actors)
	step := func(_, a int, phase timerPhase) { send(addrs[a], "step", []byte{byte(phase)}) }
	return step, stop
}
