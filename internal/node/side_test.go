package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// newClientSide is a bare node "a" that is a client of the channel "jobs" and hosts objects in "m".
func newClientSide(t *testing.T, manual ...Peer) *meshed {
	n := bareNode(t)
	m := newSide(n, Mesh{Name: sideName + "jobs", Peers: manual}, clientSide)
	m.link.Keys = [][]byte{{1}}
	n.sides = []*mesh{m}
	return &meshed{t, m, nil, clock.Now()}
}

// What may come on a connection of a channel, by who sends it; on a link of a mesh all may.
func TestAChannelsConnectionTakesItsOwnRecords(t *testing.T) {
	both := "probe ack credit goodbye reject "
	want := map[side]string{serverSide: both + "nodeMessage ", clientSide: both + "reply error offer "}
	count := 0
	for _, s := range []side{inMesh, serverSide, clientSide} {
		for c := range 256 {
			cmd := wire.Command(c)
			info, ok := cmd.Info()
			if !ok || !info.After {
				continue
			}
			count++
			if got := s.takes(cmd); got != (s == inMesh || strings.Contains(want[s], info.Name+" ")) {
				t.Errorf("from the other end of side %d a %s is taken: %v", s, info.Name, got)
			}
		}
	}
	if count < 3*40 {
		t.Errorf("%d commands were looked at", count)
	}
}

// A channel's client dials the servers of the Store's list that serve and whose lease is valid,
// whatever their RIDs, and the configuration's; a list that is too old is empty (FO-18).
func TestAChannelsClientDialsItsServers(t *testing.T) {
	w := newClientSide(t, Peer{Endpoint: "manual"})
	serving := func(rid string, change func(d *store.Descriptor)) {
		w.lists(rid, func(d *store.Descriptor) {
			d.Ports = []store.ChannelPort{{Channel: "other", Endpoint: "others-" + rid}, {Channel: "jobs", Endpoint: "jobs-" + rid}}
			d.Role = store.RoleNone
			if change != nil {
				change(d)
			}
		})
	}
	serving("a", nil) // which is the node itself
	serving("A", nil)
	serving("drains", func(d *store.Descriptor) { d.State = store.Draining })
	serving("late", func(d *store.Descriptor) { d.LeaseLeft = 0 })
	w.lists("server", nil) // of objects
	w.wants("at first", "jobs-A", "manual")
	w.wants("while these are opened")
	list := w.nodes
	w.nodes = nil
	serving("z", nil)
	w.wants("with a newer list", "jobs-z")

	w = newClientSide(t)
	w.nodes = list
	w.m.peers.read(w.nodes, w.now)
	w.nodes = nil
	w.wants("with a list that was too old")
	if all := fmt.Sprint(w.m.peers.status(nil)); all != "[]" {
		t.Errorf("it knows %s", all)
	}
}

// The server of a channel dials nobody.
func TestAChannelsServerDialsNobody(t *testing.T) {
	w := newClientSide(t)
	w.m = newSide(w.m.node, w.m.cfg, serverSide)
	w.m.link.Keys = [][]byte{{1}}
	w.lists("b", func(d *store.Descriptor) { d.Ports = []store.ChannelPort{{Channel: "jobs", Endpoint: "jobs-b"}} })
	w.wants("of a server")
}

// Who waits for a first server is one of a bounded number, and waits no longer than the node runs.
func TestTheWaitForAFirstServerIsBounded(t *testing.T) {
	w := newClientSide(t)
	w.m.node.cfg.RequestTimeout = time.Hour
	wait := func() *Error {
		_, err := w.m.firstServers(t.Context(), "jobs", clock.Never)
		return err
	}
	w.m.channels.waiting.Store(waitersMax)
	if err := wait(); err != errWaitersFull || w.m.channels.waiting.Load() != waitersMax {
		t.Errorf("one more than may wait: %v, and %d wait", err, w.m.channels.waiting.Load())
	}
	w.m.channels.waiting.Store(waitersMax - 1)
	w.m.node.kill()
	if err := wait(); err != errStopping || w.m.channels.waiting.Load() != waitersMax-1 {
		t.Errorf("at the node's end: %v, and %d wait", err, w.m.channels.waiting.Load())
	}
}
