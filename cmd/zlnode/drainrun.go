package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zlnode/zlnode"
)

// drain is one drain: a node that is filled, and what its objects move to.
type drain struct {
	options *drainOptions
	limits  drainLimits
	cluster *cluster
	client  *zlnode.Node
}

var errNoDrain = errors.New("interrupted before anything was drained")

// measureDrains makes one drain after the other, each on nodes of its own. A signal ends it with
// what was measured by then.
func measureDrains(ctx context.Context, o *drainOptions, progress, nodeLogs io.Writer) (drainReport, error) {
	report := drainReport{Actors: o.actors, Rooms: o.rooms, Members: o.members, StateBytes: o.stateBytes}
	for _, limits := range o.variations {
		m, err := measureDrain(ctx, o, limits, progress, nodeLogs)
		switch {
		case err != nil && ctx.Err() == nil:
			return report, err
		case err != nil && len(report.Drains) == 0:
			return report, errNoDrain
		case err != nil:
			return report, nil
		}
		report.Drains = append(report.Drains, m)
	}
	return report, nil
}

func measureDrain(ctx context.Context, o *drainOptions, limits drainLimits, progress, nodeLogs io.Writer) (m drainMeasure, err error) {
	d := &drain{options: o, limits: limits}
	d.cluster, err = openCluster("drain", o.store, o.verbose)
	defer d.cluster.stop()
	if err != nil {
		return m, err
	}
	d.cluster.logs = nodeLogs
	d.cluster.set.Drain, d.cluster.set.Follow = &drainSettings{limits, o.stateBytes}, drainFollow
	defer d.stopClient()
	if err := d.fill(ctx, progress); err != nil {
		return m, err
	}
	for i := range drainTargets {
		if _, err := d.cluster.startObjects(objectsRID(i+1), "", i+1); err != nil {
			return m, err
		}
	}
	if err := awaitNodes(ctx, d.cluster.present()); err != nil {
		return m, err
	}
	return d.measure(ctx, progress)
}

func (d *drain) stopClient() {
	if d.client != nil {
		_ = stopDemoNode(d.client) // it hosts nothing
	}
}

// fill starts the source and creates all that is to move.
func (d *drain) fill(ctx context.Context, progress io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, drainSetUpTime)
	defer cancel()
	if _, err := d.cluster.startObjects(objectsRID(0), "", 0); err != nil {
		return err
	}
	if err := awaitNodes(ctx, d.cluster.present()); err != nil {
		return err
	}
	set := d.cluster.set
	d.client, err = zlnode.Start(ctx, zlnode.Config{
		RID: "client", Role: zlnode.RoleClient, MeshKey: set.MeshKey, StoreURL: set.Store, Namespace: set.Namespace, RecoveryHold: -1,
	}, zlnode.NewApp())
	if err != nil {
		return err
	}
	if err := d.client.WaitPeers(ctx, 1); err != nil {
		return err
	}
	began := time.Now()
	if err := d.create(ctx); err != nil {
		return err
	}
	if err := d.awaitMembers(ctx); err != nil {
		return err
	}
	o := d.options
	fmt.Fprintf(progress, "%d actors and %d rooms with %d each are there after %s; %v\n", o.actors, o.rooms, o.members, short(time.Since(began)), &d.limits)
	return nil
}

// create creates rooms, then Actors, the first of which are sent to the rooms.
func (d *drain) create(ctx context.Context) error {
	o := d.options
	room := func(i int) string { return fmt.Sprint("room-", i/o.members+1) }
	if err := atOnce(ctx, o.rooms, func(ctx context.Context, i int) error {
		_, err := d.client.CreateSpot(ctx, zlnode.CreateSpot{ID: room(i * o.members), Type: hallType})
		return err
	}); err != nil {
		return err
	}
	return atOnce(ctx, o.rooms*o.members+o.actors, func(ctx context.Context, i int) error {
		id := fmt.Sprint("holder-", i+1)
		_, err := d.client.CreateActor(ctx, zlnode.CreateActor{ID: id, Type: holderType})
		if err == nil && i < o.rooms*o.members {
			err = d.client.Actor(id).SendRaw(ctx, packetGoIn, []byte(room(i)))
		}
		return err
	})
}

// atOnce calls f for each number below n, some at once, until one fails.
func atOnce(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range drainCallers {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := f(ctx, i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}

// awaitMembers waits until all rooms have their members.
func (d *drain) awaitMembers(ctx context.Context) error {
	return atOnce(ctx, d.options.rooms, func(ctx context.Context, i int) error {
		look := time.NewTicker(settleLook)
		defer look.Stop()
		for {
			n, err := zlnode.Request[int](ctx, d.client.Spot(fmt.Sprint("room-", i+1)), packetInfos, struct{}{})
			if err != nil || n == d.options.members {
				return err
			}
			select {
			case <-look.C:
			case <-ctx.Done():
				return fmt.Errorf("room %d has %d members of %d: %w", i+1, n, d.options.members, ctx.Err())
			}
		}
	})
}

// measure relocates the source. The targets are watched from before.
func (d *drain) measure(ctx context.Context, progress io.Writer) (m drainMeasure, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainTime+orderTime)
	defer cancel()
	stood := newStand()
	nodes := d.cluster.present()
	for _, p := range nodes {
		if _, err := p.order(ctx, nodeOrder{Watch: &watchOrder{CPU: d.options.profile != ""}}); err != nil {
			return m, err
		}
	}
	a, err := nodes[0].order(ctx, nodeOrder{Relocate: &relocateOrder{Mode: zlnode.PlannedMaintenance, Timeout: drainTime}})
	if err != nil {
		return m, err
	}
	m.Limits = d.limits
	m.take(d.options, a.Relocated)
	for i, p := range nodes {
		a, err := p.order(ctx, nodeOrder{Watched: true})
		if err == nil {
			err = stood.merge(a.Stood)
		}
		if err == nil && d.options.profile != "" {
			err = os.WriteFile(filepath.Join(d.options.profile, p.set.RID+".pprof"), a.CPU, 0o600)
		}
		if err != nil {
			return m, err
		}
		m.takeMemory(i == 0, a.Memory)
	}
	m.takeStood(stood)
	m.Store = d.cluster.store
	fmt.Fprintf(progress, "%d units, %s, in %s\n", m.Units, m.Outcome, short(time.Duration(m.US)*time.Microsecond))
	return m, nil
}
