package main

import (
	"errors"

	"github.com/zlnode/zlnode"
)

// The sample world. Every client plays one player Actor, and ten players report
// to one arena Actor. The mesh decides where each lives; the gateway, which the
// clients are connected to, hosts none.
const (
	playerType  = "player"
	arenaType   = "arena"
	sessionType = "game"

	// reportEvery: a player tells its arena of every fourth op.
	reportEvery = 4
)

// newWorld registers the world. All nodes run the same App; their roles decide
// which part of it they serve.
func newWorld() *zlnode.App { return worldWith(onMove) }

// worldWith is the world with that handler of moves.
func worldWith(move func(*zlnode.ActorCall, *player, []byte) error) *zlnode.App {
	app := zlnode.NewApp()

	players := zlnode.DefineActor(app, playerType, newPlayer, zlnode.DisableRelocation)
	zlnode.OnRequestRaw(players, packetAct, onAct)
	zlnode.OnSendRaw(players, packetMove, move)
	zlnode.OnRequest(players, packetTotal, onTotal)

	arenas := zlnode.DefineActor(app, arenaType, newArena, zlnode.DisableRelocation)
	zlnode.OnSendRaw(arenas, packetReport, onReport)
	zlnode.OnRequest(arenas, packetReceived, onReceived)

	zlnode.OnCreateActor(app, onCreate)

	games := zlnode.DefineSession(app, sessionType, newSession)
	zlnode.OnPacketRequest(games, packetLogin, onLogin)
	for _, packet := range []string{packetAct, packetMove, packetTotal} {
		zlnode.Relay(games, packet, playerType)
	}
	return app
}

// gameSession is one client's Session. Who it is stands in its binding.
type gameSession struct{}

func newSession(*zlnode.SessionContext) (*gameSession, error) { return &gameSession{}, nil }

// onLogin makes the client's player and its arena where they do not exist yet,
// and binds the player: from then on the client's packets go straight to it.
func onLogin(c *zlnode.SessionCall, _ *gameSession, in loginRequest) (loginReply, error) {
	a, err := c.Node().GetOrCreateActor(c, zlnode.CreateActor{ID: in.Arena, Type: arenaType})
	if err != nil {
		return loginReply{}, err
	}
	p, err := c.Node().GetOrCreateActor(c, zlnode.CreateActor{ID: in.Player, Type: playerType, Request: in})
	if err != nil {
		return loginReply{}, err
	}
	if err := c.Bind(p.Ref); err != nil {
		return loginReply{}, err
	}
	return loginReply{PlayerRID: p.Ref.RID, ArenaRID: a.Ref.RID}, nil
}

// onCreate gives a new player what its creator said about it.
func onCreate(c *zlnode.CreateActorCall) (zlnode.Admission, error) {
	if p, ok := c.Instance.(*player); ok {
		var in loginRequest
		if err := c.DecodeRequest(&in); err != nil {
			return zlnode.Admission{}, err
		}
		p.arena = in.Arena
	}
	return zlnode.Accept(nil), nil
}

// player is the Actor of one client: the ordered chain of the ops that it has
// executed, and how many messages it has sent. Only its turns touch it.
type player struct {
	arena string

	ops      sequence
	position uint64 // executed ops
	chain    uint64
	pushes   uint64
	reports  uint64
	// arenaLost: the arena's node is gone; nothing is reported any more.
	arenaLost bool

	out []byte // the last payload sent; its room is used again
}

func newPlayer(*zlnode.ActorContext) (*player, error) { return &player{}, nil }

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
	err := c.Node().Actor(p.arena).SendRaw(c, packetReport, p.out)
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

// onTotal tells what the player has done, and asks the arena what came of its
// reports: this request runs there after all of them.
func onTotal(c *zlnode.ActorCall, p *player, _ struct{}) (totals, error) {
	t := totals{Ops: p.ops.seen(), Chain: p.chain, Pushes: p.pushes, Reports: p.reports, ArenaLost: p.arenaLost}
	if t.ArenaLost {
		return t, nil
	}
	arrived, err := zlnode.Request[seen](c, c.Node().Actor(p.arena), packetReceived, c.Actor().ID())
	if arenaGone(err) {
		t.ArenaLost = true
		return t, nil
	}
	t.Arena = arrived
	return t, err
}

// arena is an Actor that players report to. It keeps one sequence for each of its
// few players. Only its turns touch it.
type arena struct{ reports map[string]*sequence }

func newArena(*zlnode.ActorContext) (*arena, error) { return &arena{map[string]*sequence{}}, nil }

func onReport(_ *zlnode.ActorCall, a *arena, payload []byte) error {
	n, player, err := parseReport(payload)
	if err != nil {
		return zlnode.Errorf(zlnode.ProtocolError, "%v", err)
	}
	s := a.reports[string(player)]
	if s == nil {
		s = &sequence{}
		a.reports[string(player)] = s
	}
	s.saw(n)
	return nil
}

func onReceived(_ *zlnode.ActorCall, a *arena, player string) (seen, error) {
	if s := a.reports[player]; s != nil {
		return s.seen(), nil
	}
	return seen{}, nil
}
