package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zlnode/zlnode"
)

const (
	// objectNodes is how many nodes host Actors, and rollNodes if they are relocated.
	objectNodes = 2
	rollNodes   = 4
	// meshKeyBytes is the length of the mesh's secret.
	meshKeyBytes = 32
	// readyTime bounds the wait for all nodes; each bounds its own start as well.
	readyTime = nodeStartTime + 5*time.Second
	// stopTime bounds the wait for their end; what is left is killed.
	stopTime = nodeStopTime + 5*time.Second
)

// cluster is the Store and the node processes of one run.
type cluster struct {
	exe   string
	set   nodeSettings // what all nodes have in common
	store string       // for people: without credentials
	logs  io.Writer    // nil: the nodes' logs are not shown

	mu    sync.Mutex
	nodes []*nodeProc           // one for each name
	past  []*nodeProc           // whose names another has, or nobody
	local *zlnode.EmbeddedStore // nil: the Store is somebody else's
	tls   *tls.Config           // of the gateways' clients; nil: not encrypted
}

// openCluster prepares node processes on the Store at that URL, or on one in this
// process if it is empty, in a fresh namespace that begins with name. The caller must
// stop the cluster, also after an error.
func openCluster(name, storeURL string, verbose bool) (*cluster, error) {
	c := &cluster{}
	var err error
	if c.exe, err = os.Executable(); err != nil {
		return c, fmt.Errorf("the path of this program is not known, and it cannot start its nodes: %w", err)
	}
	if storeURL == "" {
		if c.local, err = zlnode.StartEmbeddedStore(""); err != nil {
			return c, err
		}
		storeURL = c.local.URL()
	}
	namespace := name + "-" + randomHex(8)
	c.store = describe(storeURL, namespace, c.local != nil)
	c.set = nodeSettings{Store: storeURL, Namespace: namespace, MeshKey: make([]byte, meshKeyBytes), Verbose: verbose}
	rand.Read(c.set.MeshKey) // never fails (crypto/rand)
	return c, nil
}

// startCluster starts the demo's node processes. They are not ready yet. The caller
// must stop the cluster, also after an error.
func startCluster(o *demoOptions, verbose io.Writer) (*cluster, error) {
	c, err := openCluster("demo", o.store, verbose != nil)
	c.logs = verbose
	if o.rolling {
		c.set.Rolls, c.set.Follow = true, o.follow
	}
	var id *identity
	if err == nil && o.transport.Encrypted() {
		if id, err = newIdentity(time.Now()); err == nil {
			c.tls = id.clients()
		}
	}
	if err == nil && o.adminTokenFile != "" {
		c.set.AdminToken, err = (&door{tokenFile: o.adminTokenFile}).token(strings.NewReader(""))
	}
	for i := range o.gateways() {
		set := c.set
		set.RID, set.Role, set.Peers = "gateway", roleGateway, o.nodes
		set.Rooms, set.Transport, set.Identity = o.join, o.transport, id
		if o.gateways() > 1 {
			set.RID = fmt.Sprintf("gateway-%d", i+1)
		}
		if err == nil {
			_, err = c.start(set)
		}
	}
	for i := range o.nodes {
		if err == nil {
			_, err = c.startObjects(objectsRID(i), o.version(), o.nodes-1)
		}
	}
	return c, err
}

// objectsRID is the name of an object node, from 0.
func objectsRID(i int) string { return fmt.Sprintf("objects-%d", i+1) }

// startObjects starts an object node, which is ready once it is linked to that many others.
func (c *cluster) startObjects(rid, version string, peers int) (*nodeProc, error) {
	set := c.set
	set.RID, set.Role, set.Version, set.Peers = rid, roleObjects, version, peers
	return c.start(set)
}

// start starts a node process, in place of the one with its name if there is one.
func (c *cluster) start(set nodeSettings) (*nodeProc, error) {
	p, err := startNode(c.exe, set, c.logs)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, before := range c.nodes {
		if before.set.RID == set.RID {
			c.nodes[i], c.past = p, append(c.past, before)
			return p, nil
		}
	}
	c.nodes = append(c.nodes, p)
	return p, nil
}

// retire takes a node whose process is gone out of those that there are.
func (c *cluster) retire(p *nodeProc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(n *nodeProc) bool { return n == p })
	c.past = append(c.past, p)
}

// present returns the process of each node.
func (c *cluster) present() []*nodeProc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// objects returns the names of the object nodes.
func (c *cluster) objects() (rids []string) {
	for _, p := range c.present() {
		if p.set.Role == roleObjects {
			rids = append(rids, p.set.RID)
		}
	}
	return rids
}

// process returns the process of a node that there is.
func (c *cluster) process(rid string) *nodeProc {
	nodes := c.present()
	return nodes[slices.IndexFunc(nodes, func(p *nodeProc) bool { return p.set.RID == rid })]
}

func randomHex(digits int) string {
	b := make([]byte, digits/2)
	rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// describe tells people which Store is used, without user and password.
func describe(storeURL, namespace string, embedded bool) string {
	text := "of an unreadable URL"
	if u, err := url.Parse(storeURL); err == nil {
		text = u.Scheme + "://" + u.Host + u.Path
	}
	if embedded {
		text += " (embedded)"
	}
	return text + ", namespace " + namespace
}

// awaitReady waits until all nodes serve and returns the gateways' URLs for clients.
func (c *cluster) awaitReady(ctx context.Context) (gateways []string, err error) {
	nodes := c.present()
	if err := awaitNodes(ctx, nodes); err != nil {
		return nil, err
	}
	for _, p := range nodes {
		if p.set.Role != roleGateway {
			continue
		}
		if _, _, err := net.SplitHostPort(p.hello.Sessions); err != nil {
			return nil, fmt.Errorf("%s told no address for clients: %w", p.set.RID, err)
		}
		gateways = append(gateways, p.set.Transport.String()+"://"+p.hello.Sessions)
	}
	return gateways, nil
}

// awaitNodes waits until all these nodes serve.
func awaitNodes(ctx context.Context, nodes []*nodeProc) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, p := range nodes {
		wg.Go(func() {
			if errs[i] = p.awaitReady(ctx); errs[i] != nil {
				cancel() // the others would wait for it in vain
			}
		})
	}
	wg.Wait()
	return rootCause(errs)
}

// rootCause returns the error that tells most: that of a node which failed, rather
// than of one that was given up.
func rootCause(errs []error) error {
	var late error
	for _, err := range errs {
		switch {
		case err == nil:
		case !errors.Is(err, errNotInTime):
			return err
		case late == nil:
			late = err
		}
	}
	return late
}

// stop ends all nodes at once, in order if they can, and then the Store. A second
// time it does nothing.
func (c *cluster) stop() {
	stopNodes(c.present())
	if c.local != nil {
		c.local.Close()
	}
}

// stopNodes ends node processes at once, in order if they can.
func stopNodes(nodes []*nodeProc) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range nodes {
		wg.Go(func() { p.stop(ctx) })
	}
	wg.Wait()
}

// rows returns the present state of all nodes.
func (c *cluster) rows() []nodeRow {
	nodes := c.present()
	rows := make([]nodeRow, len(nodes))
	for i, p := range nodes {
		fate, state := p.fate()
		switch {
		case fate != fateUp:
		case !p.serves():
			state = "starting"
		case p.doing.Load():
			state = "relocating"
		case p.hello.Admin != "":
			state = "admin " + p.hello.Admin + "  " + state
		}
		rows[i] = nodeRow{RID: p.set.RID, Role: p.set.Role, Version: p.set.Version, PID: p.pid(), Up: fate == fateUp, State: state}
	}
	return rows
}

// ends returns how all processes ended, after stop.
func (c *cluster) ends() (ends []nodeEnd) {
	for _, p := range append(c.present(), c.past...) {
		fate, text := p.fate()
		ends = append(ends, nodeEnd{rid: p.set.RID, role: p.set.Role, fate: fate, text: text})
	}
	return ends
}
