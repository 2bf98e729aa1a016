package proctest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/witness"
	"github.com/zlnode/zlnode/store"
)

// Options say what cluster is started.
type Options struct {
	Dir     string // for its files; a test's own
	Servers []string
	Redis   bool                 // the Store is a redis-server, which may be killed; else an embedded one
	Lease   time.Duration        // of a process; 0: the node's default
	Behind  func(*zlnode.Config) // has the node be dialled by a road
	Hosts   *Hosts               // each process has its own; nil: all are on this one
	Timeout time.Duration        // of Joins and requests
	Follow  time.Duration        // how long messages follow what has moved; 0: 20 s
	Pace    time.Duration        // of each sender; 0: pace
	Budget  time.Duration        // for a node's end by a signal; 0: the default
	// Patience is how long the test may take.
	Patience time.Duration
}

// gatewayRID and senderRID are the nodes that are no object servers: the one with the Sessions,
// and the one of the test's own process.
const (
	gatewayRID = "gate"
	senderRID  = "sender"
)

// Cluster is a running one. Its methods are for the test's goroutine.
type Cluster struct {
	opts      Options
	namespace string
	url       string
	storeAddr string
	storage   *process // the Store's
	nodes     map[string]*process
	all       []*process // that there ever were, but the Store's
	sender    *zlnode.Node
	view      store.Store
	load      *load
	gate      atomic.Pointer[string] // the address of the Sessions' port
	seen      map[witness.Kind]int   // how many of each were witnessed, once it has stopped
	unsettled []string               // objects that did not settle
	objects   []object               // that live in it, or did
	mayEnd    bool                   // objects may have ended with their node in order
	builds    map[string]build       // of nodes that run another one than all
}

// object is an Actor or a Spot that the load and the end of a test know.
type object struct {
	id, typ string
	stays   bool // it does not hop
	maybe   bool // it was not said that it was made
}

// build is a program, and what nodes see of it.
type build struct {
	exe     string // "": this one
	version string
	number  int
	speaks  [2]uint16
}

func (o *object) actor() bool { return o.typ == walkerType }

func rank(o object) int {
	if o.actor() {
		return 0
	}
	return 1
}

// to returns its address.
func (c *Cluster) to(o *object) zlnode.Addr {
	switch o.typ {
	case walkerType:
		return c.sender.Actor(o.id)
	case cellType:
		return c.sender.Instance(o.id, "") // what ended does not begin anew
	default:
		return c.sender.Spot(o.id)
	}
}

var meshKey = []byte("a mesh key for process tests")

// Start starts the Store, the nodes and the sender, and waits until all are linked.
func Start(ctx context.Context, opts Options) (*Cluster, error) { return start(ctx, opts, nil) }

// start has nodes run the builds, if they are not this program.
func start(ctx context.Context, opts Options, builds map[string]build) (c *Cluster, err error) {
	c = &Cluster{opts: opts, nodes: map[string]*process{}, builds: map[string]build{}}
	maps.Copy(c.builds, builds)
	var b [6]byte
	rand.Read(b[:])
	c.namespace = "proc-" + hex.EncodeToString(b[:])
	c.opts.Pace = cmp.Or(opts.Pace, pace)
	begun := c
	defer func() {
		if err != nil {
			begun.killAll()
		}
	}()
	if c.storeAddr, err = c.storePlace(); err != nil {
		return nil, err
	}
	c.url = "redis://" + c.storeAddr
	if err := c.StartStore(ctx); err != nil {
		return nil, err
	}
	for _, rid := range append(slices.Clone(opts.Servers), gatewayRID) {
		if err := c.StartNode(rid); err != nil {
			return nil, err
		}
	}
	w, err := witness.Create(filepath.Join(opts.Dir, senderRID), recordsMax)
	if err != nil {
		return nil, err
	}
	c.load = &load{c: c, w: w}
	cfg, err := c.config(senderRID)
	if err != nil {
		return nil, err
	}
	cfg.Logger = zerolog.Nop()
	if c.sender, err = zlnode.Start(ctx, cfg, newApp(w, 0)); err != nil {
		return nil, err
	}
	if c.view, err = node.OpenStore(ctx, c.url, c.namespace); err != nil {
		return nil, err
	}
	return c, c.sender.WaitPeers(ctx, len(opts.Servers))
}

// storeHost is the name of the Store's process, and of its host.
const storeHost = "store"

// storePlace is where the Store is, whenever it is.
func (c *Cluster) storePlace() (string, error) {
	if c.opts.Hosts == nil {
		return freePort()
	}
	host, err := c.opts.Hosts.Addr(storeHost)
	return net.JoinHostPort(host, "6379"), err
}

// address is where a process listens.
func (c *Cluster) address(rid string) (string, error) {
	host := "127.0.0.1"
	if c.opts.Hosts != nil {
		var err error
		if host, err = c.opts.Hosts.Addr(rid); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(host, "0"), nil
}

// spawn runs this program as a process of the cluster, or another one, at its host.
func (c *Cluster) spawn(host, name string, args ...string) (*process, error) {
	if exe := c.builds[host].exe; exe != "" {
		args = []string{exe}
	}
	if len(args) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		args = []string{exe}
	}
	if c.opts.Hosts != nil {
		args = c.opts.Hosts.command(host, args)
	}
	return spawn(name, args)
}

// freePort is one of which nobody made use since; the Store has to be found there again.
func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// StartStore starts the Store, with what an earlier redis-server has left.
func (c *Cluster) StartStore(ctx context.Context) (err error) {
	if !c.opts.Redis {
		if c.storage, err = c.spawn(storeHost, storeHost); err != nil {
			return err
		}
		return c.storage.begin(&order{Store: c.storeAddr})
	}
	exe, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(c.storeAddr)
	if err != nil {
		return err
	}
	c.storage, err = c.spawn(storeHost, storeHost, exe, "--port", port, "--bind", host, "--protected-mode", "no", "--dir", c.opts.Dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no")
	if err != nil {
		return err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("tcp", c.storeAddr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-c.storage.done:
			return fmt.Errorf("redis-server ended: %w\n%s", c.storage.err, c.storage.log.String())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// config is what all nodes share.
func (c *Cluster) config(rid string) (zlnode.Config, error) {
	addr, err := c.address(rid)
	if err != nil {
		return zlnode.Config{}, err
	}
	cfg := zlnode.Config{
		RID: rid, Role: zlnode.RoleClient, Listen: addr, MeshKey: meshKey, StoreURL: c.url, Namespace: c.namespace,
		RequestTimeout: c.opts.Timeout, CreateTimeout: c.opts.Timeout, RelocationChunkBytes: 1 << 10, MessageFollowDuration: 20 * time.Second,
		RouteCacheMaxAge: 2 * time.Second, AppVersion: c.builds[rid].version, SessionRelocationSealTimeout: c.opts.Timeout,
	}
	if follow := c.opts.Follow; follow != 0 {
		cfg.MessageFollowDuration, cfg.RouteCacheMaxAge = follow, follow/12
	}
	if ttl := c.opts.Lease; ttl != 0 {
		cfg.LeaseTTL, cfg.LeaseMargin, cfg.LeaseRenew, cfg.LeaseTimeout = ttl, ttl/4, ttl/8, ttl/4
	}
	switch {
	case c.opts.Redis:
		cfg.RecoveryHold = cfg.LeaseTTL + cfg.LeaseMargin
	default:
		cfg.RecoveryHold = -1
	}
	if slices.Contains(c.opts.Servers, rid) {
		cfg.Role, cfg.Channels = zlnode.RoleServer, []zlnode.Channel{{Name: channelName}}
		cfg.ChannelServers = []zlnode.ChannelServer{{Name: ownChannelName, Listen: addr}}
	}
	if rid == senderRID {
		cfg.ChannelClients = []zlnode.ChannelClient{{Name: ownChannelName}}
	}
	if rid == gatewayRID {
		cfg.Sessions = []zlnode.SessionListener{{Addr: addr, Type: playerType}}
	}
	if c.opts.Behind != nil {
		c.opts.Behind(&cfg)
	}
	return cfg, nil
}

// StartNode starts a node, again if one of that RID has ended.
func (c *Cluster) StartNode(rid string) error {
	cfg, err := c.config(rid)
	if err != nil {
		return err
	}
	p, err := c.spawn(rid, fmt.Sprintf("%s#%d", rid, len(c.all)))
	if err != nil {
		return err
	}
	c.nodes[rid] = p
	c.all = append(c.all, p)
	if err := p.begin(&order{Config: cfg, Witness: filepath.Join(c.opts.Dir, p.name), Build: c.builds[rid].number, Speaks: c.builds[rid].speaks, Budget: c.opts.Budget}); err != nil {
		return err
	}
	if rid == gatewayRID {
		c.gate.Store(&p.hello.Sessions)
	}
	return nil
}

// poll calls f until it is done, as long as ctx lasts.
func poll(ctx context.Context, what string, f func() (done bool, err error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := f()
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		}
	}
}

// Populate makes a room at each server, and Actors.
func (c *Cluster) Populate(ctx context.Context, actors int) error {
	for _, rid := range c.opts.Servers {
		if err := c.place(ctx, placePrefix+rid, roomType, rid); err != nil {
			return err
		}
	}
	return c.Actors(ctx, actors)
}

// place makes a User Spot at the node.
func (c *Cluster) place(ctx context.Context, id, typ, rid string) error {
	err := poll(ctx, "a spot at "+rid, func() (bool, error) {
		made, err := c.sender.CreateSpot(ctx, zlnode.CreateSpot{ID: id, Type: typ})
		if err != nil || made.Ref.RID == rid {
			return err == nil, err
		}
		_, err = c.sender.CloseSpot(ctx, made.Ref)
		return false, err
	})
	if err == nil {
		c.objects = append(c.objects, object{id: id, typ: typ})
	}
	return err
}

// Actors makes so many more of them.
func (c *Cluster) Actors(ctx context.Context, actors int) error {
	for range actors {
		o := object{id: actorID(c.actors()), typ: walkerType}
		if _, err := c.sender.CreateActor(ctx, zlnode.CreateActor{ID: o.id, Type: o.typ}); err != nil {
			return err
		}
		c.objects = append(c.objects, o)
	}
	return nil
}

// actors is how many of the objects are Actors.
func (c *Cluster) actors() (n int) {
	for _, o := range c.objects {
		if o.actor() {
			n++
		}
	}
	return n
}

// members makes a User Spot at the first server with Actors in it, which stay there.
func (c *Cluster) members(ctx context.Context, spot, typ string, actors int) error {
	if err := errors.Join(c.place(ctx, spot, typ, c.opts.Servers[0]), c.Actors(ctx, actors)); err != nil {
		return err
	}
	for i := len(c.objects) - actors; i < len(c.objects); i++ {
		o := &c.objects[i]
		o.stays = true
		err := poll(ctx, o.id+" joins "+spot, func() (bool, error) {
			if in, err := zlnode.Request[string](ctx, c.to(o), "spot", struct{}{}); err != nil || in == spot {
				return err == nil, err
			}
			_, err := zlnode.Request[string](ctx, c.to(o), "join", walkOrder{Spot: spot, Timeout: c.opts.Timeout})
			return false, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cells makes Instance Spots.
func (c *Cluster) cells(ctx context.Context, cells int) error {
	for i := range cells {
		o := object{id: fmt.Sprintf("cell-%d", i), typ: cellType}
		if _, err := zlnode.Request[string](ctx, c.sender.Instance(o.id, o.typ), "where", struct{}{}); err != nil {
			return err
		}
		c.objects = append(c.objects, o)
	}
	return nil
}

func actorID(i int) string { return fmt.Sprintf("actor-%d", i) }

// Settle heals what may be healed by hand: each object answers, or it was lost with a process
// and is freed by its exact ref: Actors, then Spots, as a move into a Spot keeps that. It returns
// the ids of those.
func (c *Cluster) Settle(ctx context.Context) (lost []string, err error) {
	slices.SortStableFunc(c.objects, func(a, b object) int { return cmp.Compare(rank(a), rank(b)) })
	for i := range c.objects {
		o := &c.objects[i]
		id, gone := o.id, false
		err := poll(ctx, id+" neither answers nor is it lost", func() (bool, error) {
			ask, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := zlnode.Request[string](ask, c.to(o), "where", struct{}{})
			if err == nil {
				return true, nil
			}
			var why error
			if gone, why = c.lost(ask, o); !gone {
				return false, errors.Join(err, why)
			}
			return true, nil
		})
		if err != nil {
			return lost, errors.Join(err, c.describe(id))
		}
		if !gone {
			continue
		}
		if !o.maybe {
			lost = append(lost, id)
		}
		if err := poll(ctx, id+" cannot be freed", func() (bool, error) { return c.free(ctx, o) }); err != nil {
			return lost, errors.Join(err, c.describe(id))
		}
	}
	return lost, nil
}

// free frees an object by its exact ref.
func (c *Cluster) free(ctx context.Context, o *object) (done bool, err error) {
	if o.actor() {
		ref, found, err := c.sender.FindActor(ctx, o.id)
		if !found && err == nil && ref == (zlnode.ActorRef{}) {
			return true, nil
		}
		freed, failed := c.sender.DestroyActor(ctx, ref)
		return freed, errors.Join(err, failed)
	}
	if o.typ == roomType { // of which members may live, where the room was before
		if err := c.leave(ctx, o.id); err != nil {
			return false, err
		}
	}
	ref, found, err := c.sender.FindSpot(ctx, o.id)
	if !found && err == nil && ref == (zlnode.SpotRef{}) {
		return true, nil
	}
	freed, failed := c.sender.CloseSpot(ctx, ref)
	c.mayEnd = c.mayEnd || freed // its members, with it
	return freed, errors.Join(err, failed)
}

// leave has the members of a Spot that live go to an Entry Spot.
func (c *Cluster) leave(ctx context.Context, spot string) error {
	ids, err := c.view.Members(ctx, spot, "", 100)
	for _, id := range ids {
		to := c.sender.Actor(id)
		if _, gone := zlnode.Request[string](ctx, to, "spot", struct{}{}); gone == nil {
			_, failed := zlnode.Request[string](ctx, to, "join", walkOrder{Entry: true, Timeout: c.opts.Timeout})
			err = errors.Join(err, failed)
		}
	}
	return err
}

// lost reports whether the object's owner is a process that has died, or says that it is stuck.
func (c *Cluster) lost(ctx context.Context, o *object) (bool, error) {
	row, found, err := c.view.Read(ctx, o.id)
	if err != nil || !found {
		return err == nil && (c.mayEnd || o.maybe), err
	}
	for _, p := range c.all {
		if p.died != 0 && !p.alive() && p.hello.Lifecycle == uint64(row.LeaseGen) {
			return true, nil
		}
	}
	owner := c.nodes[row.RID]
	if owner == nil || !owner.alive() {
		return false, nil
	}
	said, err := owner.view()
	return slices.Contains(said.Stuck, o.id), err
}

// describe says for a message what the Store has of an object.
func (c *Cluster) describe(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c.unsettled = append(c.unsettled, id)
	row, found, err := c.view.Read(ctx, id)
	text := fmt.Sprintf("%s: row %v %+v %v", id, found, row, err)
	if row.Move != nil {
		text += fmt.Sprintf(" moves %+v", *row.Move)
	}
	for rid, p := range c.nodes {
		if p.alive() {
			said, err := p.view()
			text += fmt.Sprintf("; %s has stuck %v %v", rid, said.Stuck, err)
		}
	}
	return errors.New(text)
}

// Audit waits until the Store's books agree.
func (c *Cluster) Audit(ctx context.Context) error {
	var lines []string
	err := poll(ctx, "the store's audit", func() (bool, error) {
		var err error
		lines, err = c.view.Audit(ctx)
		return err == nil && len(lines) == 0, err
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.Join(lines, "; "))
	}
	return nil
}

// Stop ends the cluster in order and returns what is wrong with how it went.
func (c *Cluster) Stop(rules witness.Rules) (wrong []string) {
	note := func(err error) {
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	for _, p := range c.all {
		note(p.stop())
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	note(c.sender.Shutdown(ctx))
	note(c.view.Close())
	c.storage.kill()
	var logs []witness.Log
	for _, p := range c.all {
		wrong = append(wrong, p.complaints()...)
		if len(c.unsettled) > 0 {
			wrong = append(wrong, p.said())
		}
		l, err := p.records()
		note(err)
		logs = append(logs, l)
	}
	mine, err := witness.Read(filepath.Join(c.opts.Dir, senderRID))
	note(err)
	note(c.load.w.Close())
	logs = append(logs, witness.Log{Process: senderRID, Records: mine})
	for _, id := range c.unsettled {
		wrong = append(wrong, id+":"+witness.Story(logs, id))
	}
	c.seen = map[witness.Kind]int{}
	for _, l := range logs {
		for _, r := range l.Records {
			c.seen[r.Kind]++
		}
	}
	for _, v := range witness.Check(logs, rules) {
		wrong = append(wrong, v.String())
	}
	return wrong
}

// killAll leaves no process behind, and nothing in this one.
func (c *Cluster) killAll() {
	if c.sender != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = c.sender.Shutdown(ctx) // else Stop has done so, and has told
	}
	if c.view != nil {
		_ = c.view.Close()
	}
	for _, p := range append(slices.Clone(c.all), c.storage) {
		if p != nil && p.alive() {
			p.kill()
		}
	}
}
