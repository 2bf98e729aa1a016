package redislua

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode/store"
)

// cluster is three primaries that share the slots.
type cluster struct {
	t     testing.TB
	nodes [3]*redisProcess
	names [3]string // node ids
}

const slots = 16384

// part returns the slots of a node, the last one included.
func part(node int) (first, last int) {
	return slots * node / 3, slots*(node+1)/3 - 1
}

func startCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t}
	for i := range c.nodes {
		n := startRedis(t, "--cluster-enabled", "yes", "--cluster-port", "PORT", "--cluster-node-timeout", "30000")
		first, last := part(i)
		n.do("CLUSTER", "ADDSLOTSRANGE", first, last)
		n.do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		c.nodes[i], c.names[i] = n, fmt.Sprint(n.do("CLUSTER", "MYID"))
		if i > 0 {
			host, port, _ := net.SplitHostPort(n.addr)
			bus := n.args[slices.Index(n.args, "--cluster-port")+1]
			c.nodes[0].do("CLUSTER", "MEET", host, port, bus)
		}
	}
	for _, n := range c.nodes {
		until(t, "the Cluster to form", func() bool {
			info := fmt.Sprint(n.do("CLUSTER", "INFO"))
			return fieldOf(info, "cluster_state") == "ok" && fieldOf(info, "cluster_known_nodes") == "3" &&
				fieldOf(info, "cluster_slots_ok") == fmt.Sprint(slots)
		})
	}
	return c
}

func (c *cluster) url() string {
	return c.nodes[0].url() + "?cluster=true&addr=" + c.nodes[1].addr
}

// namespaceAt returns a namespace whose slot is the node's.
func (c *cluster) namespaceAt(node int) (namespace string, slot int) {
	first, last := part(node)
	for {
		namespace = namespaces + randomHex()
		slot = int(c.nodes[0].do("CLUSTER", "KEYSLOT", newKeys(namespace).epoch).(int64))
		if first <= slot && slot <= last {
			return namespace, slot
		}
	}
}

// A namespace lives in one slot. Wherever that is, everything goes, and notices come.
func TestEachNodeOfAClusterServesItsNamespaces(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for i := range c.nodes {
		t.Run(fmt.Sprint("Node", i), func(t *testing.T) {
			namespace, _ := c.namespaceAt(i)
			st := openStore(t, c.url(), func(o *Options) { o.Namespace = namespace })
			st.prepare = onlyDeclaredKeys(t, &st.keys)
			s := &stage{t: t, Store: st}
			used := s.usage(func() {})
			var notices atomic.Int32
			s.noticed(func() { notices.Add(1) })
			until(t, "the Store to listen", func() bool { return notices.Load() > 0 })
			heard := notices.Load()
			s.a, s.b = host(t, st, "node-a"), host(t, st, "node-b")
			until(t, "a notice", func() bool { return notices.Load() > heard })
			s.everything()
			s.wantAllUsed(used)
			if n := c.nodes[i].raw.Exists(within(t), st.keys.objects).Val(); n != 1 {
				t.Error("the namespace is not at this node")
			}
		})
	}
}

// moveSlot gives a slot to another node, key by key. between runs when half of them went.
func (c *cluster) moveSlot(slot, from, to int, between func()) {
	c.t.Helper()
	source, target := c.nodes[from], c.nodes[to]
	target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", c.names[from])
	source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", c.names[to])
	host, port, _ := net.SplitHostPort(target.addr)
	all := source.do("CLUSTER", "GETKEYSINSLOT", slot, 10_000).([]any)
	for i, key := range all {
		if i == len(all)/2 {
			between()
		}
		source.do("MIGRATE", host, port, key, 0, 5000)
	}
	for _, n := range []*redisProcess{target, source, c.nodes[3-from-to]} {
		n.do("CLUSTER", "SETSLOT", slot, "NODE", c.names[to])
	}
}

// A slot that moves takes its namespace along. What is asked for meanwhile is refused
// whole; afterwards the Store finds the new node by itself, and does nothing twice.
func TestAStoreFollowsItsSlotToAnotherNode(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	namespace, slot := c.namespaceAt(1)
	s := newStage(t, openStore(t, c.url(), func(o *Options) { o.Namespace = namespace }))
	a, b := s.actor("object-1"), s.actor("object-2")
	crowd := s.prepared("crowd")
	old := moveTo(a, s.b)
	before := snapshot(t, c.nodes[1].raw, &s.keys)
	c.moveSlot(slot, 1, 2, func() {
		_, err := s.ReserveMove(within(t), old)
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("between two nodes: %v; want ErrUnavailable", err)
		}
	})
	if d := difference(before, snapshot(t, c.nodes[2].raw, &s.keys)); d != "" {
		t.Errorf("on its way the namespace changed:%s", d)
	}

	// The first call asks the old node, and is led on.
	r := reservation("object-3", store.Actor, false, s.a)
	created := s.applied(s.Reserve(within(t), r))
	s.gives(store.AlreadyApplied)(s.Reserve(within(t), r))
	if c.nodes[1].info("errorstat_MOVED") == "" {
		t.Error("the old node was not asked")
	}
	if created.Epoch <= a.Epoch {
		t.Errorf("epoch is %d after %d: another node has another history", created.Epoch, a.Epoch)
	}
	s.gives(store.EpochChanged)(s.ReserveMove(within(t), old))
	s.gives(store.EpochChanged)(s.CommitMove(within(t), commitOf(crowd, s.b)))
	a = s.applied(s.Reassert(within(t), asserted(a, s.a, created.Epoch)))
	m := s.applied(s.ReserveMove(within(t), moveTo(a, s.b)))
	s.applied(s.CommitMove(within(t), commitOf(m, s.b)))
	s.wantOwner("object-1", s.b)
	s.applied(s.Delete(within(t), store.FenceOf(&b), newOp()))
	audit(t, s.Store)
	if n := c.nodes[1].raw.Exists(within(t), s.keys.objects).Val(); n != 0 {
		t.Error("the old node has the namespace again")
	}
}
