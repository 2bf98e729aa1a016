package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/zlnode/zlnode"
)

// This file is the part of the world that moves with its nodes: arenas of several kinds, and
// rooms of both modes.

// partyKind says where the players of one arena are, and what the arena is.
type partyKind uint8

const (
	partyPlain    partyKind = iota // in Entry Spots; the arena is an Actor
	partyWide                      // in a SpotWide room, which is the arena
	partyShared                    // in a PerActor room, which passes reports on to the arena, an Actor
	partyInstance                  // in Entry Spots; the arena is an Instance Spot
)

const partyKinds = 4

// Stable types of Spots.
const (
	wideType   = "wide"
	sharedType = "shared"
	questType  = "quest"
)

// sharedPrefix comes before the arena's id in that of a PerActor room.
const sharedPrefix = "shared-"

// partyOf returns the party of a bot in a world whose nodes are relocated: one bot after the
// other is of the next kind.
func partyOf(bot int) (kind partyKind, arena string) {
	kind = partyKind((bot - 1) % partyKinds)
	name := [partyKinds]string{"arena-plain", wideType, "arena-shared", questType}[kind]
	return kind, fmt.Sprint(name, "-", (bot-1)/(playersPerArena*partyKinds)+1)
}

// room returns the room of an arena's players, and its stable type; "": they are in none.
func (k partyKind) room(arena string) (id, stableType string) {
	switch k {
	case partyWide:
		return arena, wideType
	case partyShared:
		return sharedPrefix + arena, sharedType
	case partyPlain, partyInstance:
	}
	return "", ""
}

// arena is where the arena is asked for what it has.
func (k partyKind) arena(n *zlnode.Node, arena string) zlnode.Addr {
	switch k {
	case partyWide:
		return n.Spot(arena)
	case partyInstance:
		return n.Instance(arena, questType)
	case partyPlain, partyShared:
	}
	return n.Actor(arena)
}

// reports is where players send their reports.
func (k partyKind) reports(n *zlnode.Node, arena string) zlnode.Addr {
	if k == partyShared {
		return n.Spot(sharedPrefix + arena)
	}
	return k.arena(n, arena)
}

// askedByPlayers reports whether a player may ask the arena in a turn of its own; else that
// would wait for the turn.
func (k partyKind) askedByPlayers() bool { return k != partyWide }

// stood is as what a player of the party stands still.
func (k partyKind) stood() stoodKind {
	switch k {
	case partyWide:
		return stoodInRoom
	case partyShared:
		return stoodMember
	case partyPlain, partyInstance:
	}
	return stoodActor
}

// open makes what there is to be before players come, and returns their room.
func (k partyKind) open(c *zlnode.SessionCall, arena string) (rooms []roomPlace, arenaRID string, err error) {
	if k == partyPlain || k == partyShared {
		a, err := c.Node().GetOrCreateActor(c, zlnode.CreateActor{ID: arena, Type: arenaType})
		if err != nil {
			return nil, "", err
		}
		arenaRID = a.Ref.RID
	}
	if id, stableType := k.room(arena); id != "" {
		r, err := c.Node().GetOrCreateSpot(c, zlnode.CreateSpot{ID: id, Type: stableType})
		if err != nil {
			return nil, "", err
		}
		rooms = []roomPlace{{r.Ref.ID, r.Ref.RID}}
	}
	return rooms, arenaRID, nil
}

// sharedRoom is a PerActor room. It has no state: it is made anew where it moves to.
type sharedRoom struct{}

// onSharedReport passes a report on.
func onSharedReport(c *zlnode.SpotCall, _ *sharedRoom, payload []byte) error {
	arena := strings.TrimPrefix(c.Spot().ID(), sharedPrefix)
	return c.Node().Actor(arena).SendRaw(c, packetReport, payload)
}

// defineParties registers the Spots of parties.
func (w *world) defineParties(app *zlnode.App) {
	newPlace := func(c *zlnode.SpotContext) (*arena, error) { return newArenaAt(c.Node().Spot(c.ID())), nil }
	for _, t := range []*zlnode.SpotType[arena]{
		zlnode.DefineUserSpot(app, wideType, newPlace, zlnode.SpotWide, zlnode.PreserveStateWith(arenaMover{stoodWide})),
		zlnode.DefineInstanceSpot(app, questType, newPlace, zlnode.PreserveStateWith(arenaMover{stoodInstance})),
	} {
		zlnode.OnSpotSendRaw(t, packetReport, func(c *zlnode.SpotCall, a *arena, payload []byte) error {
			return a.report(c, c.Node(), payload)
		})
		zlnode.OnSpotRequest(t, packetReceived, func(_ *zlnode.SpotCall, a *arena, player string) (received, error) {
			return a.received(player), nil
		})
		zlnode.OnSpotSendRaw(t, packetOpened, func(_ *zlnode.SpotCall, a *arena, _ []byte) error {
			a.still.ended(w.stood)
			return nil
		})
	}
	shared := zlnode.DefineUserSpot(app, sharedType, func(*zlnode.SpotContext) (*sharedRoom, error) {
		return &sharedRoom{}, nil
	}, zlnode.PerActor, zlnode.RecreateOnRelocation)
	zlnode.OnSpotSendRaw(shared, packetReport, onSharedReport)
}

// arenaState is an arena on its way between two nodes.
type arenaState struct {
	Players map[string]inArenaState `json:"players"`
	Still   standstill              `json:"still"`
}

type inArenaState struct {
	Reports *sequenceState `json:"reports"`
	Cheers  uint64         `json:"cheers,string"`
	Failure string         `json:"failure"`
}

// arenaMover is the state adapter of arenas of one kind.
type arenaMover struct{ kind stoodKind }

var _ zlnode.StateAdapter[arena] = arenaMover{}

// Capture implements zlnode.StateAdapter.
func (m arenaMover) Capture(a *arena) ([]byte, error) {
	s := arenaState{map[string]inArenaState{}, captureNow(m.kind)}
	for id, p := range a.players {
		s.Players[id] = inArenaState{p.reports.state(), p.cheers, p.failure}
	}
	return json.Marshal(s)
}

// Restore implements zlnode.StateAdapter.
func (arenaMover) Restore(a *arena, b []byte) error {
	var s arenaState
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	for id, p := range s.Players {
		a.players[id] = &inArena{p.Reports.sequence(), p.Cheers, p.Failure}
	}
	a.still = s.Still
	a.still.restored(a.self)
	return nil
}
