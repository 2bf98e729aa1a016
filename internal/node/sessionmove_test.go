package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// cluster is three nodes with clients. Their Actors are at no Store; the test moves them.
type cluster struct {
	*testing.T
	nodes [3]*Node
	typ   [3]*ObjectType
	ctx   context.Context
}

func newCluster(t *testing.T) *cluster { return newClusterWith(t, func(*Config, *SessionType) {}) }

// newClusterWith is newCluster with a change of each node.
func newClusterWith(t *testing.T, change func(*Config, *SessionType)) *cluster {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	c := &cluster{T: t, ctx: ctx}
	e, err := StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	for i := range c.nodes {
		rid := string(rune('a'+i)) + "-node"
		app := NewApp()
		c.typ[i] = app.AddActor("avatar", func(*ObjectContext) (any, error) { return nil, nil })
		app.OnSend(c.typ[i], "note", func(c *Call, _ any, payload []byte) error {
			return c.Push("noted", 1, nil, []byte(fmt.Sprintf(`{"N":%s,"At":%q}`, payload, rid)))
		})
		app.OnRequest(c.typ[i], "ask", func(_ *Call, _ any, payload []byte) (Reply, error) { return Reply{1, payload}, nil })
		app.Sessions["player"] = &SessionType{
			Name: "player", Factory: func(*SessionContext) (any, error) { return nil, nil },
			Relays: map[string]string{"note": "avatar", "ask": "avatar"},
			Requests: map[string]SessionRequestHandler{"bind": func(c *SessionCall, _ any, payload []byte) (Reply, error) {
				var ref ActorRef
				if err := json.Unmarshal(payload, &ref); err != nil {
					return Reply{}, err
				}
				return Reply{1, []byte("1")}, c.Session().Bind(c, ref)
			}},
		}
		cfg := Config{
			RID: rid, Role: store.RoleServer, StoreURL: e.URL(), MeshKey: []byte("a key of tests, long enough"), Listen: "127.0.0.1:0",
			RecoveryHold: -1, Sessions: []SessionListener{{Addr: "127.0.0.1:0", Type: "player"}}, SessionRelocationSealTimeout: time.Minute,
			Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
		}
		change(&cfg, app.Sessions["player"])
		c.nodes[i] = serve(t, cfg, app)
	}
	for _, n := range c.nodes {
		if err := n.WaitPeers(ctx, 2); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// place makes the Actor at a node, with that binding.
func (c *cluster) place(at int, gen uint64, b binding) *objectCell {
	c.Helper()
	n, held := c.nodes[at], &hold{}
	cell := n.newCell(c.typ[at], ActorRef{ID: "ada", ObjectGen: 1, OwnerGen: gen, Lifecycle: n.id.Lifecycle}, 1, held)
	if !n.admitCell(cell) {
		c.Fatal("it is there already")
	}
	cell.box.Seal(&release{cell: cell, from: held, next: cell})
	if b.key.gen != 0 {
		cell.ended(func(*turn) { cell.bind(b) })
	}
	return cell
}

// bindingOf is what the Actor's turn sees.
func (c *cluster) bindingOf(cell *objectCell) binding {
	c.Helper()
	got := make(chan binding, 1)
	cell.ended(func(*turn) { got <- cell.binding })
	return await(c.T, "the actor's turn", got)
}

// leave seals the Actor's binding, and drains it behind all that it has still got.
func (c *cluster) leave(cell *objectCell, move [16]byte) binding {
	c.Helper()
	b := c.bindingOf(cell)
	if _, bound, err := cell.node.sealBinding(c.ctx, cell, b, move); !bound || err != nil {
		c.Fatalf("bound %v, %v", bound, err)
	}
	cell.ended(func(*turn) { cell.node.drained(b, move, cell.ref) })
	barrier(c.T, cell)
	return b
}

// arrive brings the Actor to a node, which takes the binding over.
func (c *cluster) arrive(from *objectCell, b binding, at int, move [16]byte) *objectCell {
	c.Helper()
	owner := wire.Process{RID: []byte(from.node.cfg.RID), Lifecycle: from.node.id.Lifecycle}
	if l := b.key.link; l != nil {
		owner = wire.Process{RID: []byte(l.peer.RID), Lifecycle: l.peer.Lifecycle}
	}
	adopted, err := c.nodes[at].adopt(&wire.MovedBinding{Owner: owner, Session: b.key.session, BindingGen: b.key.gen})
	if err != nil {
		c.Fatal(err)
	}
	from.node.actors.Delete("ada")
	from.tenure.Store(leaving)
	from.refuseAll(errNotHere)
	cell := c.place(at, from.ref.OwnerGen+1, adopted)
	c.nodes[at].commitBinding(adopted, move, cell.ref)
	return cell
}

// noted is what the client gets of each note.
type noted struct {
	N  int
	At string
}

// dial connects a client to a node and binds it to the Actor.
func (c *cluster) dial(at int, ref ActorRef) (*client.Client, <-chan noted, <-chan error) {
	c.Helper()
	notes, lost := make(chan noted, 100_000), make(chan error, 1)
	p, err := client.Dial(c.ctx, client.Options{
		Addr: c.nodes[at].SessionAddrs()[0].String(),
		OnPush: func(m *client.Message) {
			var n noted
			if err := m.JSON(&n); err != nil {
				c.Error(err)
			}
			notes <- n
		},
		OnState: func(_ client.State, err error) { lost <- err },
	})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { p.Close() })
	if err := p.RequestJSON(c.ctx, "bind", ref, nil); err != nil {
		c.Fatal(err)
	}
	return p, notes, lost
}

// A client plays on while its Actor moves round the nodes, its own among them: all that it
// sends is executed and answered in order and once, without a new bind.
// req: SB-02
// req: SB-05
// req: SB-07
func TestAClientPlaysOnWhileItsActorMoves(t *testing.T) {
	c := newCluster(t)
	cell := c.place(0, 1, binding{})
	p, notes, _ := c.dial(0, cell.ref)
	const moves, burst = 12, 20 // less in all than a Session keeps during a move
	sent := 0
	play := func() {
		for range burst {
			if err := p.SendJSON(c.ctx, "note", sent); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	answers := make(chan error, moves)
	at, answered := 0, 0
	for i := range moves {
		play()
		move := [16]byte{1, byte(i)}
		b := c.leave(cell, move)
		play()
		go func() {
			var echo int
			err := p.RequestJSON(c.ctx, "ask", i, &echo)
			if err == nil && echo != i {
				err = fmt.Errorf("%d came back", echo)
			}
			answers <- err
		}()
		if i%3 == 2 {
			cell.node.abortBinding(b, move, cell.ref)
		} else {
			at = (at + 1 + i%2) % 3
			cell = c.arrive(cell, b, at, move)
		}
		play()
		for ; i%3 == 0 && answered <= i; answered++ { // else it may move on before it has run anything
			if err := await(t, "an answer", answers); err != nil {
				t.Error(err)
			}
		}
	}
	seen := map[string]int{}
	for want := range sent {
		n := await(t, "a note", notes)
		if n.N != want {
			t.Fatalf("note %d came, want %d", n.N, want)
		}
		seen[n.At]++
	}
	for ; answered < moves; answered++ {
		if err := await(t, "an answer", answers); err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("the notes were executed at %v, want all nodes", seen)
	}
	for _, n := range c.nodes {
		if s := n.Stats(); s.UpdatesIgnored+s.Dropped+s.PushesRefused != 0 {
			t.Errorf("%s: %+v", n.cfg.RID, s)
		}
		if ways := n.moving.all(); len(ways) != 0 {
			t.Errorf("%s: %d ways are still minded", n.cfg.RID, len(ways))
		}
	}
}

// A client leaves while its Actor moves. Wherever that is noticed first, the new owner's
// binding ends.
func TestTheNewOwnerLearnsThatTheClientIsGone(t *testing.T) {
	for from := range 3 {
		for to := range 3 {
			if from == to {
				continue
			}
			t.Run(strconv.Itoa(from)+" to "+strconv.Itoa(to), func(t *testing.T) {
				c := newCluster(t)
				cell, move := c.place(from, 1, binding{}), [16]byte{9}
				p, _, _ := c.dial(0, cell.ref)
				b := c.leave(cell, move)
				info := &wire.MovedBinding{
					Owner:   wire.Process{RID: []byte(c.nodes[0].cfg.RID), Lifecycle: c.nodes[0].id.Lifecycle},
					Session: b.key.session, BindingGen: b.key.gen,
				}
				adopted, err := c.nodes[to].adopt(info)
				if err != nil {
					t.Fatal(err)
				}
				p.Close()
				until(t, "the session is gone", func() bool { return c.nodes[0].sessions.Len() == 0 })
				cell.node.actors.Delete("ada")
				cell.refuseAll(errNotHere)
				arrived := c.place(to, 2, adopted)
				c.nodes[to].commitBinding(adopted, move, arrived.ref)
				until(t, "the binding is over", func() bool { return c.bindingOf(arrived).key.gen == 0 })
				if _, err := c.nodes[to].adopt(info); to == 0 && !errors.Is(err, errkind.NotFound) {
					t.Errorf("adopted again: %v", err)
				}
				if _, bound, err := c.nodes[to].sealBinding(c.ctx, arrived, adopted, [16]byte{10}); bound || err != nil {
					t.Errorf("sealed again: %v %v", bound, err)
				}
			})
		}
	}
}

// A seal that its Session's owner refuses is an error; one of a binding that is no more is
// none.
func TestASealIsRefusedWhileAnotherMoveIsUnderWay(t *testing.T) {
	for from := range 2 { // the Session's node, and another
		c := newCluster(t)
		cell := c.place(from, 1, binding{})
		_, _, lost := c.dial(0, cell.ref)
		b := c.leave(cell, [16]byte{1})
		if _, bound, err := cell.node.sealBinding(c.ctx, cell, b, [16]byte{2}); !bound || err == nil || err.Kind != errkind.Unavailable {
			t.Errorf("another move: %v %v", bound, err)
		}
		over := b
		over.key.gen++
		if _, bound, err := cell.node.sealBinding(c.ctx, cell, over, [16]byte{2}); bound || err != nil {
			t.Errorf("another binding: %v %v", bound, err)
		}
		owner, gone := c.nodes[0], cell.ref // the Actor's mesh is not left, whatever is said in another one
		gone.RID, gone.Lifecycle, gone.OwnerGen = "stranger", 7, gone.OwnerGen+1
		said := &linkConn{node: owner, mesh: newMesh(owner, Mesh{Name: "other"}), peer: link.Peer{RID: gone.RID, Lifecycle: gone.Lifecycle}}
		said.sessionRoute(&wire.SessionRelocationRoute{
			Commit: true, Relocation: [16]byte{1}, Session: b.key.session, BindingGen: b.key.gen, Ref: wireRef(gone),
			Owner: wire.Process{RID: []byte(owner.cfg.RID), Lifecycle: owner.id.Lifecycle},
		})
		if n := owner.Stats().UpdatesIgnored; n != 1 {
			t.Errorf("%d updates were ignored, want that of another mesh", n)
		}
		cell.node.abortBinding(b, [16]byte{1}, cell.ref)
		if _, bound, err := cell.node.sealBinding(c.ctx, cell, b, [16]byte{2}); !bound || err != nil {
			t.Errorf("after the first: %v %v", bound, err)
		}
		cell.node.abortBinding(b, [16]byte{2}, cell.ref)
		if from == 1 {
			b.key.link.conn.Close(engine.CloseReason{Code: engine.Requested})
			until(t, "the link is lost", b.key.link.gone.Load)
			if _, bound, err := cell.node.sealBinding(c.ctx, cell, b, [16]byte{4}); bound || err != nil {
				t.Errorf("without a link: %v %v", bound, err)
			}
		}
		select {
		case err := <-lost:
			t.Errorf("the client was cut off: %v", err)
		default:
		}
	}
}

// An Actor moves on before its Session's owner has all that the first node pushed. The seal
// is confirmed when it has; who does not wait so long gives it up.
func TestASealWaitsForTheOwnerBefore(t *testing.T) {
	for from := range 2 { // the Session's node, and another
		c := newCluster(t)
		cell := c.place(from, 1, binding{})
		p, notes, _ := c.dial(0, cell.ref)
		b := c.bindingOf(cell)
		if _, bound, err := cell.node.sealBinding(c.ctx, cell, b, [16]byte{1}); !bound || err != nil {
			t.Fatalf("bound %v, %v", bound, err)
		}
		first, ref := cell.node, cell.ref
		cell = c.arrive(cell, b, 2, [16]byte{1})
		adopted := c.bindingOf(cell)
		soon, cancel := context.WithCancel(c.ctx)
		cancel()
		if _, bound, err := cell.node.sealBinding(soon, cell, adopted, [16]byte{2}); !bound || err == nil || err.Kind != errkind.DeadlineExceeded {
			t.Errorf("before the owner before has ended: %v %v", bound, err)
		}
		cell.node.abortBinding(adopted, [16]byte{2}, cell.ref)
		sealed := make(chan *Error, 1)
		go func() {
			_, _, err := cell.node.sealBinding(c.ctx, cell, adopted, [16]byte{3})
			sealed <- err
		}()
		until(t, "it is asked for", func() bool {
			for _, w := range c.nodes[0].moving.all() {
				w.session.mu.Lock()
				_, asked := w.route.NextDeadline()
				w.session.mu.Unlock()
				if asked {
					return true
				}
			}
			return false
		})
		first.drained(b, [16]byte{1}, ref)
		if err := await(t, "the confirmation", sealed); err != nil {
			t.Error(err)
		}
		if err := p.SendJSON(c.ctx, "note", 7); err != nil {
			t.Fatal(err)
		}
		cell.node.abortBinding(adopted, [16]byte{3}, cell.ref)
		if n := await(t, "a note", notes); n != (noted{7, cell.node.cfg.RID}) {
			t.Errorf("%+v", n)
		}
	}
}

// req: SB-04
func TestASealTimeoutThatLeavesAMoveNoTimeIsRefused(t *testing.T) {
	for timeout, good := range map[time.Duration]bool{0: true, 1501 * time.Millisecond: true, 1500 * time.Millisecond: false, -1: false} {
		cfg := Config{SessionRelocationSealTimeout: timeout}.withDefaults()
		if err := cfg.check(NewApp()); (err == nil) != good {
			t.Errorf("%v: %v", timeout, err)
		}
	}
	if cfg := (Config{}).withDefaults(); cfg.boundMoveTime() != 1500*time.Millisecond {
		t.Errorf("%v", cfg.boundMoveTime())
	}
}
