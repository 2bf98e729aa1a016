package sim

import "time"

// Faults say how often each fault comes: in 256ths of what it can happen to; 0 is never.
type Faults struct {
	// Each call of the Store: it is not reached; the request is lost on its way; the answer
	// is; the request arrives long after the caller gave it up; both ways are slow.
	Refuse, LoseRequest, LoseAnswer, Late, SlowStore int
	// Each round of the nemesis: nobody reaches the Store for a while; its clock jumps.
	Outage, Jump int
	// Each round, in a world of moves: the Store loses what it has answered lately.
	Failover int
	// Each message, and each round: a slow way; a link that ends with all that is under way;
	// one direction that stands still; no link between two nodes for a while; one direction
	// that loses all; an end of which the other does not learn.
	SlowNet, Cut, Stall, Partition, OneWay, HalfOpen int
	// Each event of a process, and each round: it dies; it sleeps; it sleeps and another one
	// is started in its place; it takes nothing new and then dies.
	Crash, Pause, Replace, Stop int
	// Clocks of processes and of the Store that go wrong by up to 1 %.
	Drift int
}

// Kind is a set of faults that a run may have.
type Kind struct {
	Name                    string
	store, network, process bool
	moves, drains           bool
}

// Kinds are the kinds of runs. Seed n is of kind n modulo their number.
var Kinds = []Kind{
	{Name: "calm"},
	{Name: "store", store: true},
	{Name: "network", network: true},
	{Name: "process", process: true},
	{Name: "swarm", store: true, network: true, process: true},
}

// draw chooses which of the kind's faults a run has, and how strong. Runs that have few of
// them strongly reach what a mixture of all never does.
func (k Kind) draw(t *Tape) Faults {
	var f Faults
	many := [...]int{3, 5, 8}[t.choose(3)] // two of so many levels are not off
	for _, d := range []struct {
		on           bool
		fault        *int
		weak, strong int
	}{
		{k.store || k.network, &f.Refuse, 4, 40},
		{k.store, &f.LoseRequest, 4, 40},
		{k.store, &f.LoseAnswer, 8, 60},
		{k.store, &f.Late, 4, 40},
		{k.store, &f.SlowStore, 16, 128},
		{k.store, &f.Outage, 10, 40},
		{k.store, &f.Jump, 2, 8},
		{k.network, &f.SlowNet, 16, 128},
		{k.network, &f.Cut, 4, 40},
		{k.network, &f.Stall, 10, 60},
		{k.network, &f.Partition, 10, 60},
		{k.network, &f.OneWay, 4, 40},
		{k.network, &f.HalfOpen, 4, 40},
		{k.process, &f.Crash, 1, 6},
		{k.process, &f.Pause, 1, 6},
		{k.process, &f.Replace, 1, 3},
		{k.process, &f.Stop, 1, 2},
		{k.process || k.store, &f.Drift, 1, 1},
		{k.moves && k.store, &f.Failover, 4, 16},
	} {
		if !d.on {
			continue
		}
		switch many - t.choose(many) {
		case 1:
			*d.fault = d.strong
		case 2:
			*d.fault = d.weak
		}
	}
	return f
}

// Settings are what else differs from run to run.
type Settings struct {
	Faults
	nodes, ids, bursts, racers int
	actorsMax, spotsMax        int // of a node; 0: no limit
	places, waiting            int // of creations at a node
	hold                       time.Duration
	manual                     bool // both of a pair dial
	// What the application's parts and the calls do, in 256ths.
	rejects, breaks, drags, hangs int
	abandons, destroys, others    int
}

func (k Kind) settings(t *Tape) Settings {
	rare := func(strong int) int { return [...]int{0, strong / 4, strong}[t.choose(3)] }
	return Settings{
		Faults:    k.draw(t),
		nodes:     2 + t.choose(3),
		ids:       1 + t.choose(3),
		bursts:    3 + t.choose(10),
		racers:    2 + t.choose(5),
		actorsMax: [...]int{0, 2, 1}[t.choose(3)],
		spotsMax:  [...]int{0, 2, 1}[t.choose(3)],
		places:    [...]int{16, 2, 1}[t.choose(3)],
		waiting:   [...]int{16, 1}[t.choose(2)],
		hold:      [...]time.Duration{0, 0, 0, 6 * time.Second}[t.choose(4)],
		rejects:   rare(80), breaks: rare(60), drags: rare(120), hangs: rare(40),
		abandons: rare(40), destroys: [...]int{40, 90, 140}[t.choose(3)], others: rare(40), manual: k.network && t.choose(3) == 2,
	}
}

// The nemesis looks at the world once in a round.
const nemesisEvery = time.Second

// nemesis does what happens at any time: most of what it does hits nothing that matters,
// and for those hits see strike.
func (w *World) nemesis() {
	if w.healed {
		return
	}
	w.post(nemesisEvery, nil, w.nemesis)
	if w.chance(w.Outage) {
		w.store.away = w.now + w.choosePause()
		w.note(nil, "is away", "", "until "+w.store.away.String(), 0)
		w.Cover.Mark("outage")
	}
	if w.chance(w.Jump) && w.store.jumps < jumpsMax {
		w.store.jumps++
		w.store.ahead += jump
		w.note(nil, "its clock jumps", "", "", 0)
		w.Cover.Mark("jump of the Store's clock")
	}
	if w.chance(w.Failover) {
		w.moves.failover(1 + w.choose(3))
	}
	for _, s := range w.slots {
		if s.process != nil {
			w.strike(s.process)
		}
	}
	w.disturb()
}

// The Store's clock jumps by less than the lease's margin in all.
const (
	jump     = time.Second
	jumpsMax = 3
)

func (w *World) choosePause() time.Duration {
	return [...]time.Duration{100, 600, 2_000, 4_000, 12_000, 25_000}[w.choose(6)] * time.Millisecond
}

// strike draws whether the process dies or sleeps now. It is asked for each event that is
// about to be given to a process with machines, so that faults come between any two steps
// of one.
func (w *World) strike(p *process) {
	if w.healed || p.dead || p.paused || p.stopping {
		return
	}
	switch {
	case w.chance(w.Crash):
		w.hit(p, "crash")
		p.die("crashes")
	case w.chance(w.Pause):
		w.hit(p, "pause")
		p.sleep(w.choosePause())
	case p.serving && w.slots[p.slot].process == p && w.chance(w.Replace):
		w.hit(p, "replace")
		p.sleep(14*time.Second + w.choosePause())
		w.slots[p.slot].process = nil
		w.restart(p.slot, 0)
	case w.chance(w.Stop):
		w.hit(p, "stop")
		w.note(p, "stops", "", "", 0)
		p.stopping = true
		if p.host != nil {
			p.host.stop()
		}
		w.post(w.choosePause(), p, func() { p.die("ends") })
	}
}

// hit counts a fault of a process for each machine that runs there.
func (w *World) hit(p *process, fault string) {
	w.Cover.Mark(fault)
	for _, m := range p.machines {
		w.Cover.Hit(m.doing, fault)
	}
}
