package node

import (
	"crypto/rand"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// dialAs links to n as the node "x", by hand, and returns both ends. What comes by the
// connection nobody reads.
func dialAs(t *testing.T, n *Node) (net.Conn, *linkConn) {
	t.Helper()
	conn, err := net.Dial("tcp", n.EndpointIn("main"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	c := link.Config{Mesh: "main", RID: "x", Lifecycle: 1, Role: wire.RoleServer, Keys: [][]byte{n.cfg.MeshKey}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	var nonce [32]byte
	rand.Read(nonce[:])
	before := n.home.links.to("x", 0)
	d := link.NewDialler(&c, n.cfg.RID, nonce)
	for event := (link.Event{Kind: link.EventOpened}); ; {
		if err := d.Step(clock.Now(), event); err != nil {
			t.Fatal(err)
		}
		event = link.Event{Kind: link.EventReceived}
		for _, e := range d.Effects(nil) {
			switch e.Kind {
			case link.EffectSend:
				if _, err := conn.Write(e.Record); err != nil {
					t.Fatal(err)
				}
			case link.EffectVerified:
				event = link.Event{Kind: link.EventJudged}
			case link.EffectAdmitted:
				var l *linkConn
				until(t, "the link", func() bool {
					l = n.home.links.to("x", 0)
					return l != nil && l != before
				})
				return conn, l
			case link.EffectClose:
				t.Fatal(e.Close)
			}
		}
		if event.Kind == link.EventReceived {
			if event.Record, err = readRecord(conn); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func readRecord(conn net.Conn) (record []byte, err error) {
	for {
		size, err := wire.RecordSize(record, wire.MaxRecord)
		if err != nil || size > 0 && size == len(record) {
			return record, err
		}
		var b [1]byte // nothing of the next record
		if _, err := conn.Read(b[:]); err != nil {
			return nil, err
		}
		record = append(record, b[0])
	}
}

func loneServer(t *testing.T, tune func(*Config, *App)) *Node {
	t.Helper()
	e, err := StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	c, app := Config{
		RID: "a", Role: store.RoleServer, StoreURL: e.URL(), MeshKey: []byte("a key of tests, long enough"), Listen: "127.0.0.1:0",
		RecoveryHold: -1, Weight: 100, MaxActors: 100, Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
	}, actorApp()
	tune(&c, app)
	return serve(t, c, app)
}

// A peer that lost its connection, which this node has not noticed, dials anew and never closes
// the old one. What hangs on that does not wait for it, and nothing takes it for a link any more
// once the new one is open.
// req: FO-07 FO-08
func TestWhatHangsOnAReplacedLinkEndsAtOnce(t *testing.T) {
	n := loneServer(t, func(*Config, *App) {})
	silent, old := dialAs(t, n)

	// Half of a chunk of a payload has come.
	manifest := chunker.Manifest{Total: 64 << 10, Raw: 64 << 10, ChunkBytes: 64 << 10, Chunks: 1, CRC: 1}
	payload, err := chunker.NewIncoming(manifest, chunker.Limits{ChunkBytes: chunker.ChunkMax})
	if err != nil {
		t.Fatal(err)
	}
	move := &moveIn{node: n, id: moveID{[16]byte{1}, 1}, from: old.process(), payload: payload}
	n.moves.in.Store(move.id.key(), move)
	defer n.moves.in.Delete(move.id.key())
	chunk := wire.StateChunk{Relocation: move.id.relocation, Attempt: 1, CRC: 1, Payload: make([]byte, 64<<10)}
	if _, err := silent.Write(chunk.AppendTo(nil)[:32<<10]); err != nil {
		t.Fatal(err)
	}
	filling := func() bool {
		move.mu.Lock()
		defer move.mu.Unlock()
		return move.filling
	}
	until(t, "half of a chunk", filling)

	type end struct {
		err     *Error
		conns   int
		filling bool
	}
	ended := make(chan end, 1)
	if _, err := old.pending.add(completeFunc(func(r result) { ended <- end{r.err, n.engine.Stats().Conns, filling()} }), 0); err != nil {
		t.Fatal(err)
	}
	dialAs(t, n)
	if !old.gone.Load() {
		t.Error("the link before is not over when the next one is open")
	}
	got := await(t, "the end of what waited for the link", ended)
	if got.err == nil || got.err.Kind != errkind.Unavailable || got.conns != 2 || got.filling {
		t.Errorf("it ended with %v, with %d connections open, and with the chunk under way: %v", got.err, got.conns, got.filling)
	}

	// What came by it before, and is done only now, leaves the answer to the new one.
	ref := wire.Ref{ID: []byte("traveller"), ObjGen: 1, OwnerGen: 1, RID: []byte("x"), Lifecycle: 1, Mesh: []byte("main")}
	admit := wire.JoinAdmit{
		Correlation: 2, Op: [16]byte{2}, Relocation: [16]byte{2}, Attempt: 1, Ref: ref, StoreVersion: 1, SpotID: []byte("room"), DeadlineMS: 10_000,
	}
	restore := wire.Restore{
		Correlation: 3, Op: [16]byte{3}, Relocation: [16]byte{3}, Attempt: 1, Ref: ref, StoreVersion: 1, Epoch: 1, SourceOwnerID: []byte("x"),
		SourceLease: 1, DeadlineMS: 10_000, Manifest: wire.Manifest{Total: 1, Raw: 1, ChunkBytes: 64 << 10, Chunks: 1, CRC: 1},
	}
	restore.Ref.ID = []byte("another")
	old.joinAdmit(&admit, 0)
	old.restore(&restore)
	for _, relocation := range [][16]byte{admit.Relocation, restore.Relocation} {
		i, ok := n.moves.in.Load(string(relocation[:]))
		if !ok {
			t.Fatal("no preparation")
		}
		if asked, restores := i.waiting(&i.asked), i.waiting(&i.restores); asked.link != nil || restores.link != nil {
			t.Error("a request of the link that is over is to be answered by it")
		}
	}
}
