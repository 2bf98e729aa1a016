package main

import (
	"context"
	"sync/atomic"

	"github.com/zlnode/zlnode"
)

// The sample world. Every client plays one player Actor, and ten players report
// to one arena, which cheers them: an Actor or, where nodes are relocated, a Spot, too. The mesh
// decides where each lives; the gateway, which the clients are connected to, hosts none. If there
// are rooms, players hop between them, and visitors send them messages by way of the gateway.
const (
	playerType  = "player"
	arenaType   = "arena"
	sessionType = "game"

	// reportEvery: a player tells its arena of every fourth op.
	reportEvery = 4
)

// world is what one process knows of the sample world besides its objects.
type world struct {
	move  func(*zlnode.ActorCall, *player, []byte) error
	mover zlnode.StateAdapter[player]
	// open are the rooms that players may hop to; only the gateway knows them.
	open atomic.Pointer[[]roomPlace]
	// stood are the standstills of all that came here with its node.
	stood *stand
}

// newWorld returns a world. If it rolls, its nodes are relocated, and players move unasked.
func newWorld(rolls bool) *world {
	return &world{move: onMove, mover: playerMover{rolls}, stood: newStand()}
}

func (w *world) rooms() []roomPlace {
	if open := w.open.Load(); open != nil {
		return *open
	}
	return nil
}

// app registers the world. All nodes run the same App; their roles decide which part of it
// they serve.
func (w *world) app() *zlnode.App {
	app := zlnode.NewApp()

	players := zlnode.DefineActor(app, playerType, newPlayer, zlnode.PreserveStateWith(w.mover))
	zlnode.OnRequestRaw(players, packetAct, onAct)
	zlnode.OnSendRaw(players, packetMove, w.move)
	zlnode.OnSendRaw(players, packetHop, onHop)
	zlnode.OnSendRaw(players, packetCheer, onCheer)
	zlnode.OnSend(players, packetVisit, onVisit)
	zlnode.OnRequest(players, packetAskedVisit, onAskedVisit)
	zlnode.OnRequest(players, packetTotal, onTotal)
	zlnode.OnSendRaw(players, packetOpened, func(_ *zlnode.ActorCall, p *player, _ []byte) error {
		p.still.ended(w.stood)
		return nil
	})

	arenas := zlnode.DefineActor(app, arenaType, newArena, zlnode.PreserveStateWith(arenaMover{stoodActor}))
	zlnode.OnSendRaw(arenas, packetReport, func(c *zlnode.ActorCall, a *arena, payload []byte) error {
		return a.report(c, c.Node(), payload)
	})
	zlnode.OnRequest(arenas, packetReceived, func(_ *zlnode.ActorCall, a *arena, player string) (received, error) {
		return a.received(player), nil
	})
	zlnode.OnSendRaw(arenas, packetOpened, func(_ *zlnode.ActorCall, a *arena, _ []byte) error {
		a.still.ended(w.stood)
		return nil
	})

	zlnode.OnCreateActor(app, onCreate)
	defineRooms(app)
	w.defineParties(app)

	games := zlnode.DefineSession(app, sessionType, newSession)
	zlnode.OnPacketRequest(games, packetLogin, w.onLogin)
	zlnode.OnPacketRequest(games, packetVisit, onPassVisit)
	zlnode.OnPacketRequest(games, packetReceived, func(c *zlnode.SessionCall, _ *gameSession, in loginRequest) (received, error) {
		return zlnode.Request[received](c, in.Kind.arena(c.Node(), in.Arena), packetReceived, in.Player)
	})
	zlnode.OnPacketRequest(games, packetCensus, func(c *zlnode.SessionCall, _ *gameSession, _ struct{}) ([]roomCensus, error) {
		return w.census(c, c.Node())
	})
	for _, packet := range []string{packetAct, packetMove, packetHop, packetTotal} {
		zlnode.Relay(games, packet, playerType)
	}
	return app
}

// gameSession is one client's Session. Who it is stands in its binding.
type gameSession struct{}

func newSession(*zlnode.SessionContext) (*gameSession, error) { return &gameSession{}, nil }

// onLogin makes the client's player and its arena where they do not exist yet,
// and binds the player: from then on the client's packets go straight to it.
func (w *world) onLogin(c *zlnode.SessionCall, _ *gameSession, in loginRequest) (loginReply, error) {
	rooms, arenaRID, err := in.Kind.open(c, in.Arena)
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
	return loginReply{PlayerRID: p.Ref.RID, ArenaRID: arenaRID, Rooms: append(rooms, w.rooms()...)}, nil
}

// onPassVisit passes a visit on to the player, from this node.
func onPassVisit(c *zlnode.SessionCall, _ *gameSession, v visit) (uint64, error) {
	to := c.Node().Actor(v.Player)
	if v.Ask {
		return zlnode.Request[uint64](c, to, packetAskedVisit, v.Number)
	}
	return v.Number, zlnode.Send(c, to, packetVisit, v.Number)
}

// onCreate gives a new player what its creator said about it.
func onCreate(c *zlnode.CreateActorCall) (zlnode.Admission, error) {
	if p, ok := c.Instance.(*player); ok {
		var in loginRequest
		if err := c.DecodeRequest(&in); err != nil {
			return zlnode.Admission{}, err
		}
		p.arena, p.kind = in.Arena, in.Kind
	}
	return zlnode.Accept(nil), nil
}

// arena is what players report to. Only its turns touch it.
type arena struct {
	players map[string]*inArena
	self    ownAddr
	still   standstill
}

// inArena is what an arena keeps of each of its few players.
type inArena struct {
	reports sequence
	cheers  uint64 // sent
	failure string // of the last one that could not be sent
}

func newArena(c *zlnode.ActorContext) (*arena, error) { return newArenaAt(c.Node().Actor(c.ID())), nil }

func newArenaAt(self ownAddr) *arena { return &arena{players: map[string]*inArena{}, self: self} }

// report answers with a one-way message to the player, wherever that is.
func (a *arena) report(ctx context.Context, n *zlnode.Node, payload []byte) error {
	number, player, err := parseReport(payload)
	if err != nil {
		return zlnode.Errorf(zlnode.ProtocolError, "%v", err)
	}
	p := a.players[string(player)]
	if p == nil {
		p = &inArena{}
		a.players[string(player)] = p
	}
	p.reports.saw(number)
	err = n.Actor(string(player)).SendRaw(ctx, packetCheer, appendOp(nil, p.cheers+1))
	if err != nil {
		p.failure = err.Error()
		return nil
	}
	p.cheers++
	return nil
}

func (a *arena) received(player string) received {
	if p := a.players[player]; p != nil {
		return received{Reports: p.reports.seen(), Cheers: p.cheers, Failure: p.failure}
	}
	return received{}
}
