package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/zlnode/zlnode"
)

// player is the Actor of one client: the ordered chain of the ops that it has
// executed, and how many messages it has sent. Only its turns touch it. It may hop
// between rooms, also those of other nodes.
type player struct {
	arena string
	kind  partyKind

	ops      sequence
	position uint64 // executed ops
	chain    uint64
	pushes   uint64
	reports  uint64
	// arenaLost: the arena's node is gone; nothing is reported any more.
	arenaLost bool

	cheers  sequence // one-way messages of its arena
	visits  sequence // messages of its visitor, by the gateway
	crossed uint64   // changes of its node
	hop     *hop     // that is under way

	self  ownAddr
	still standstill
	out   []byte // the last payload sent; its room is used again
}

// hop is what a player remembers of one from the op that asked for it to its end, at
// whatever node that is. Times are by the sharedClock.
type hop struct {
	Op       uint64        `json:"op,string"`
	Position uint64        `json:"position,string"`
	Chain    uint64        `json:"chain,string"`
	Asked    time.Duration `json:"asked"`    // the end of the op's handler
	Captured time.Duration `json:"captured"` // 0: it has not left its node
}

func newPlayer(c *zlnode.ActorContext) (*player, error) {
	return &player{self: c.Node().Actor(c.ID())}, nil
}

// playerState is a player on its way between two nodes.
type playerState struct {
	Arena     string         `json:"arena"`
	Kind      partyKind      `json:"kind"`
	Ops       *sequenceState `json:"ops"`
	Position  uint64         `json:"position,string"`
	Chain     uint64         `json:"chain,string"`
	Pushes    uint64         `json:"pushes,string"`
	Reports   uint64         `json:"reports,string"`
	ArenaLost bool           `json:"arena_lost"`
	Cheers    *sequenceState `json:"cheers"`
	Visits    *sequenceState `json:"visits"`
	Crossed   uint64         `json:"crossed,string"`
	Hop       *hop           `json:"hop"`
	Still     standstill     `json:"still"`
}

// playerMover is the state adapter of players.
type playerMover struct {
	// unasked: a player may be moved that has not asked for it.
	unasked bool
}

var _ zlnode.StateAdapter[player] = playerMover{}

// Capture implements zlnode.StateAdapter.
func (m playerMover) Capture(p *player) ([]byte, error) {
	s := playerState{
		p.arena, p.kind, p.ops.state(), p.position, p.chain, p.pushes, p.reports, p.arenaLost,
		p.cheers.state(), p.visits.state(), p.crossed + 1, nil,
		standstill{},
	}
	switch {
	case p.hop != nil:
		leaving := *p.hop
		leaving.Captured = sharedClock()
		s.Hop = &leaving
	case m.unasked:
		s.Still = captureNow(p.kind.stood())
	default:
		return nil, errors.New("a player is moved that did not ask for it")
	}
	return json.Marshal(s)
}

// Restore implements zlnode.StateAdapter.
func (playerMover) Restore(p *player, b []byte) error {
	var s playerState
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*p = player{
		self: p.self, arena: s.Arena, kind: s.Kind, ops: s.Ops.sequence(), position: s.Position, chain: s.Chain, pushes: s.Pushes, reports: s.Reports, arenaLost: s.ArenaLost,
		cheers: s.Cheers.sequence(), visits: s.Visits.sequence(), crossed: s.Crossed, hop: s.Hop, still: s.Still,
	}
	p.still.restored(p.self)
	return nil
}

// execute does one op, whose number is the payload, and reports it if it is due.
func (p *player) execute(c *zlnode.ActorCall, payload []byte) (answer, error) {
	op, err := parseOp(payload)
	if err != nil {
		return answer{}, zlnode.Errorf(zlnode.ProtocolError, "%v", err)
	}
	p.ops.saw(op)
	p.position++
	p.chain = extend(p.chain, op)
	a := answer{op: op, position: p.position, chain: p.chain}
	if p.position%reportEvery == 0 && !p.arenaLost {
		return a, p.report(c)
	}
	return a, nil
}

// report sends a one-way message to the arena, by its id. It is counted before it
// is sent: one that cannot be sent is lost, unless the arena itself is.
func (p *player) report(c *zlnode.ActorCall) error {
	p.reports++
	p.out = appendReport(p.out[:0], p.reports, c.Actor().ID())
	err := p.kind.reports(c.Node(), p.arena).SendRaw(c, packetReport, p.out)
	if arenaGone(err) {
		p.arenaLost = true
		return nil
	}
	return err
}

// arenaGone reports whether err says that the arena is not there: its node is dead,
// or stops, or has stopped in order and taken it out of the Store.
func arenaGone(err error) bool {
	return errors.Is(err, zlnode.Unavailable) || errors.Is(err, zlnode.ShuttingDown) || errors.Is(err, zlnode.NotFound)
}

func onAct(c *zlnode.ActorCall, p *player, payload []byte) ([]byte, error) {
	a, err := p.execute(c, payload)
	if err != nil {
		return nil, err
	}
	p.out = appendAnswer(p.out[:0], a)
	return p.out, nil
}

// onMove answers with a push. Like a report it is counted before it is sent.
func onMove(c *zlnode.ActorCall, p *player, payload []byte) error {
	a, err := p.execute(c, payload)
	if err != nil {
		return err
	}
	p.pushes++
	p.out = appendMoved(p.out[:0], a, p.pushes)
	return c.PushRaw(packetMoved, p.out)
}

// onHop executes an op, and has the player go to a room when the handler has ended, or
// back to the Entry Spot. The answer is a push when it is there, or is to stay.
func onHop(c *zlnode.ActorCall, p *player, payload []byte) error {
	op, to, err := parseHop(payload)
	if err != nil {
		return zlnode.Errorf(zlnode.ProtocolError, "%v", err)
	}
	a, err := p.execute(c, op)
	if err != nil {
		return err
	}
	join := c.JoinEntrySpot()
	if len(to) > 0 {
		join = c.JoinSpot(string(to), nil)
	}
	p.hop = &hop{Op: a.op, Position: a.position, Chain: a.chain, Asked: sharedClock()}
	if err := join.Defer(); err != nil {
		return p.OnJoinCompleted(c, zlnode.JoinDone{Outcome: zlnode.JoinFailed, Err: err})
	}
	return nil
}

// OnJoinCompleted implements zlnode.JoinCompleter.
func (p *player) OnJoinCompleted(c *zlnode.ActorCall, done zlnode.JoinDone) error {
	h := p.hop
	if h == nil {
		return nil // it was told before
	}
	p.hop = nil
	p.pushes++
	t := hopped{
		Op: h.Op, Position: h.Position, Chain: h.Chain, Push: p.pushes,
		Outcome: done.Outcome.String(), RID: c.Node().RID(), Room: c.Actor().SpotID(), TookNS: int64(sharedClock() - h.Asked),
	}
	if done.Outcome == zlnode.JoinFailed {
		t.Failure, t.Why = zlnode.KindOf(done.Err).String(), fmt.Sprint(done.Err)
	}
	if h.Captured != 0 {
		t.Crossed, t.SealedNS = true, int64(sharedClock()-h.Captured)
	}
	_ = c.Push(packetHopped, t) // one that cannot be sent is counted, and so it is lost
	return nil
}

// onCheer takes a one-way message of the arena.
func onCheer(_ *zlnode.ActorCall, p *player, payload []byte) error {
	n, err := parseOp(payload)
	if err != nil {
		return zlnode.Errorf(zlnode.ProtocolError, "%v", err)
	}
	p.cheers.saw(n)
	return nil
}

// onVisit takes a one-way message of the visitor.
func onVisit(_ *zlnode.ActorCall, p *player, n uint64) error {
	p.visits.saw(n)
	return nil
}

// onAskedVisit takes a request of the visitor, and tells which.
func onAskedVisit(_ *zlnode.ActorCall, p *player, n uint64) (uint64, error) {
	p.visits.saw(n)
	return n, nil
}

// onTotal tells what the player has done, and asks the arena what came of its
// reports, if it may: this request runs there after all of them, if neither has moved.
func onTotal(c *zlnode.ActorCall, p *player, _ struct{}) (totals, error) {
	t := totals{
		Ops: p.ops.seen(), Chain: p.chain, Pushes: p.pushes, Reports: p.reports, ArenaLost: p.arenaLost,
		Cheers: p.cheers.seen(), Visits: p.visits.seen(), Crossed: p.crossed,
		Room: c.Actor().SpotID(),
	}
	if p.hop != nil {
		t.Hop = p.hop.Op
	}
	if t.ArenaLost || !p.kind.askedByPlayers() {
		return t, nil
	}
	arrived, err := zlnode.Request[received](c, p.kind.arena(c.Node(), p.arena), packetReceived, c.Actor().ID())
	if arenaGone(err) {
		t.ArenaLost = true
		return t, nil
	}
	t.Arena = arrived
	return t, err
}
