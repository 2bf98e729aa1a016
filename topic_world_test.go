package zlnode_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// listener is a Spot that notes what it hears of topics.
type listener struct{ heard []string }

func (l *listener) OnInitialize(c *zlnode.SpotCall) error { return c.Subscribe("world") }

func (l *listener) hears(c *zlnode.SpotCall, n int) error {
	l.heard = append(l.heard, fmt.Sprintf("%s %s %d", c.Topic(), c.Packet(), n))
	return nil
}

// porch is an Entry Spot that subscribes to the weather.
type porch struct{}

func (p *porch) OnInitialize(c *zlnode.SpotCall) error { return c.Subscribe("weather") }

// heardRaw is what a Spot or a reader got of a raw message.
type heardRaw struct {
	Topic, Packet, Payload, Who string
	Codec                       zlnode.Codec
}

// audience is some nodes with Spots that listen, on roads that a test can cut.
type audience struct {
	*world
	roads   *linkRoads
	gate    *gate
	porches chan string             // "<node> <n>" of what Entry Spots heard
	raw     chan heardRaw           // of rooms that heard "blob"
	a, b, c *zlnode.Node            // two object servers and a gateway
	rooms   map[string]*zlnode.Node // by id
}

func newAudience(w *world) *audience {
	return &audience{
		world: w, roads: newLinkRoads(w.t), gate: newGate(), porches: make(chan string, 1000), raw: make(chan heardRaw, 1000),
		rooms: map[string]*zlnode.Node{},
	}
}

// app has Spots of all kinds that can be asked to subscribe.
func (u *audience) app() *zlnode.App {
	app := zlnode.NewApp()
	entry := zlnode.DefineEntrySpot(app, func(*zlnode.SpotContext) (*porch, error) { return &porch{}, nil })
	zlnode.OnTopic(entry, "event", func(c *zlnode.SpotCall, _ *porch, n int) error {
		u.porches <- fmt.Sprint(c.Node().RID(), " ", n)
		return nil
	})
	room := zlnode.DefineUserSpot(app, "room", func(*zlnode.SpotContext) (*listener, error) { return &listener{}, nil }, zlnode.SpotWide, zlnode.DisableRelocation)
	zlnode.OnTopic(room, "event", func(c *zlnode.SpotCall, l *listener, n int) error { return l.hears(c, n) })
	zlnode.OnTopic(room, "probe", func(*zlnode.SpotCall, *listener, int) error { return nil })
	zlnode.OnTopicRaw(room, "blob", func(c *zlnode.SpotCall, _ *listener, payload []byte) error {
		who, _ := c.Metadata().Lookup("who")
		u.raw <- heardRaw{c.Topic(), c.Packet(), string(payload), string(who), c.Codec()}
		return nil
	})
	zlnode.OnSpotSend(room, "event", func(_ *zlnode.SpotCall, l *listener, _ int) error {
		l.heard = append(l.heard, "a send took the place of a message to a topic")
		return nil
	})
	zlnode.OnSpotRequest(room, "heard", func(_ *zlnode.SpotCall, l *listener, _ struct{}) ([]string, error) { return l.heard, nil })
	zlnode.OnSpotRequest(room, "forget", func(_ *zlnode.SpotCall, l *listener, _ struct{}) (int, error) {
		l.heard = nil
		return 0, nil
	})
	zlnode.OnSpotRequest(room, "stop", func(*zlnode.SpotCall, *listener, struct{}) (struct{}, error) {
		u.gate.pass()
		return struct{}{}, nil
	})
	zlnode.OnSpotRequest(room, "leave behind a stop", func(c *zlnode.SpotCall, _ *listener, topic string) (struct{}, error) {
		u.gate.pass()
		return struct{}{}, c.Unsubscribe(topic)
	})
	zlnode.OnSpotRequest(room, "begin anew behind a stop", func(c *zlnode.SpotCall, _ *listener, topic string) (struct{}, error) {
		u.gate.pass()
		return struct{}{}, errors.Join(c.Unsubscribe(topic), c.Subscribe(topic))
	})
	zlnode.OnSpotRequest(room, "subscribe many", func(c *zlnode.SpotCall, _ *listener, n int) (int, error) {
		for i := range n {
			if err := c.Subscribe(fmt.Sprint("many-", i)); err != nil {
				return i, err
			}
		}
		return n, nil
	})
	zlnode.OnSpotRequest(room, "flap", func(c *zlnode.SpotCall, _ *listener, topic string) (int, error) {
		for i := range 45_000 {
			if err := errors.Join(c.Subscribe(topic), c.Unsubscribe(topic)); err != nil {
				return i, err
			}
		}
		return 0, nil
	})
	subscribes(room)
	zlnode.OnSpotRequest(room, "publish", func(c *zlnode.SpotCall, _ *listener, n int) (zlnode.Published, error) {
		return zlnode.Publish(c, c.Node().Topic("world"), "event", n)
	})
	deaf := zlnode.DefineUserSpot(app, "deaf", func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.SpotWide, zlnode.DisableRelocation)
	subscribes(deaf)
	den := zlnode.DefineInstanceSpot(app, "den", func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.DisableRelocation)
	subscribes(den)
	return app
}

// subscribes lets Spots of the type be asked to subscribe and unsubscribe.
func subscribes[S any](t *zlnode.SpotType[S]) {
	zlnode.OnSpotRequest(t, "subscribe", func(c *zlnode.SpotCall, _ *S, topic string) (struct{}, error) { return struct{}{}, c.Subscribe(topic) })
	zlnode.OnSpotRequest(t, "unsubscribe", func(c *zlnode.SpotCall, _ *S, topic string) (struct{}, error) {
		return struct{}{}, c.Unsubscribe(topic)
	})
}

// open starts the nodes, all linked, with rooms on both servers.
func (u *audience) open() {
	u.t.Helper()
	u.openServers()
	u.c = u.start(u.roads.behind(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), u.app())
	u.linked(u.a, 1)
	u.linked(u.c, 2)
	u.furnish()
}

// furnish makes four rooms, two at each server.
func (u *audience) furnish() {
	u.t.Helper()
	for i := range 4 {
		r, err := u.c.CreateSpot(u.ctx, zlnode.CreateSpot{ID: fmt.Sprint("room-", i), Type: "room"})
		if err != nil {
			u.t.Fatal(err)
		}
		u.rooms[r.Ref.ID] = u.a
		if r.Ref.RID == "b" {
			u.rooms[r.Ref.ID] = u.b
		}
	}
	if len(u.at(u.a)) != 2 || len(u.at(u.b)) != 2 {
		u.t.Fatalf("the rooms are at %v", u.rooms)
	}
}

// openServers starts the two object servers, which need not be linked yet.
func (u *audience) openServers() {
	u.t.Helper()
	// Who publishes never waits, so no test lives to see this send timeout.
	u.a = u.start(u.roads.behind(zlnode.Config{RID: "a", Role: zlnode.RoleServer, SendTimeout: time.Hour}), u.app())
	u.b = u.start(u.roads.behind(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), u.app())
}

// at returns the rooms of a node, in order.
func (u *audience) at(n *zlnode.Node) (ids []string) {
	for id, where := range u.rooms {
		if where == n {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (u *audience) ask(id, packet string, q any) error {
	_, err := zlnode.Request[any](u.ctx, u.c.Spot(id), packet, q)
	return err
}

func (u *audience) must(id, packet string, q any) {
	u.t.Helper()
	if err := u.ask(id, packet, q); err != nil {
		u.t.Fatalf("%s, %s: %v", id, packet, err)
	}
}

// reaches waits until what n publishes to the topic goes to so many nodes.
func (u *audience) reaches(n *zlnode.Node, topic string, nodes int) {
	u.t.Helper()
	u.eventually(fmt.Sprintf("%s reaches %d nodes from %s", topic, nodes, n.RID()), func() bool {
		p, err := zlnode.Publish(u.ctx, n.Topic(topic), "probe", 0)
		if err != nil {
			u.t.Fatal(err)
		}
		return p.Nodes == nodes && p.Missed == 0
	})
}

// heard waits until a room has heard as much, and returns it.
func (u *audience) heard(id string, count int) (heard []string) {
	u.t.Helper()
	u.eventually(fmt.Sprintf("%s hears %d", id, count), func() bool {
		var err error
		if heard, err = zlnode.Request[[]string](u.ctx, u.c.Spot(id), "heard", struct{}{}); err != nil {
			u.t.Fatal(err)
		}
		return len(heard) >= count
	})
	return heard
}

// publishes publishes events from first on, and returns the last result.
func (u *audience) publishes(n *zlnode.Node, topic string, first, count int) (p zlnode.Published) {
	u.t.Helper()
	for i := range count {
		var err error
		if p, err = zlnode.Publish(u.ctx, n.Topic(topic), "event", first+i); err != nil || p.Missed != 0 {
			u.t.Fatalf("event %d: %+v %v", first+i, p, err)
		}
	}
	return p
}

// published returns how many messages to topics have come to the road.
func (u *audience) published(from, to string) int {
	n, _ := u.roads.Passed(from, to, wire.CmdPublish)
	return n
}

// events are what a subscriber of one topic has heard when it got all of them.
func events(topic string, first, count int) (lines []string) {
	for i := range count {
		lines = append(lines, fmt.Sprintf("%s event %d", topic, first+i))
	}
	return lines
}
