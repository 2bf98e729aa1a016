package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// fleet is the object nodes of a benchmark: each name has one process at a time. A
// process that is killed is replaced by the next lifecycle of its node, which waits for
// the lease of the one before to end. Safe for concurrent use.
type fleet struct {
	cluster *cluster
	dir     string // of what the factories note; "": they note nothing
	logs    io.Writer

	mu    sync.Mutex
	now   []*nodeProc // by node
	ever  []*nodeProc // in the order of their starts
	kills int
}

// startFleet starts that many nodes and waits until they serve. The caller stops the
// fleet, also after an error.
func startFleet(ctx context.Context, c *cluster, nodes int, dir string, logs io.Writer) (*fleet, error) {
	f := &fleet{cluster: c, dir: dir, logs: logs, now: make([]*nodeProc, nodes)}
	for i := range nodes {
		if err := f.start(i); err != nil {
			return f, err
		}
	}
	return f, f.awaitReady(ctx)
}

// start starts the next process of a node.
func (f *fleet) start(node int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := f.cluster.set
	set.RID, set.Role = fmt.Sprintf("objects-%d", node+1), roleRace
	if f.dir != "" {
		set.Runs = filepath.Join(f.dir, fmt.Sprintf("runs-%d", len(f.ever)+1))
	}
	p, err := startNode(f.cluster.exe, set, f.logs)
	if err != nil {
		return err
	}
	f.now[node] = p
	f.ever = append(f.ever, p)
	return nil
}

// awaitReady waits until all nodes serve.
func (f *fleet) awaitReady(ctx context.Context) error { return awaitNodes(ctx, f.present()) }

// present returns the process of each node.
func (f *fleet) present() []*nodeProc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*nodeProc(nil), f.now...)
}

// serving returns the nodes that serve.
func (f *fleet) serving() (nodes []int) {
	for i, p := range f.present() {
		if fate, _ := p.fate(); fate == fateUp && p.serves() {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// harass kills a node now and then until ctx ends, but for the last one that serves. It
// returns early if a process cannot be started.
func (f *fleet) harass(ctx context.Context, every time.Duration, told func(string)) error {
	for {
		t := time.NewTimer(every/2 + rand.N(every))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		up := f.serving()
		if len(up) < 2 {
			continue
		}
		node := up[rand.IntN(len(up))]
		p := f.present()[node]
		p.kill()
		told(fmt.Sprintf("killed %s, pid %d", p.set.RID, p.pid()))
		f.mu.Lock()
		f.kills++
		f.mu.Unlock()
		if err := f.start(node); err != nil {
			return err
		}
	}
}

// killed returns how many processes were killed.
func (f *fleet) killed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kills
}

// stop ends the processes in order.
func (f *fleet) stop() { stopNodes(f.present()) }

// evidence returns what all processes noted, and what went wrong with them. The fleet
// must have stopped; alive are those that lived until then.
func (f *fleet) evidence(alive []*nodeProc) (processes []raceProcess, failures []string) {
	for _, p := range f.ever {
		if fate, text := p.fate(); fate == fateFailed || fate == fateDisorder {
			failures = append(failures, fmt.Sprintf("node %s %s", p.set.RID, text))
		}
		runs, err := readRunLog(p.set.Runs)
		if err != nil {
			failures = append(failures, err.Error())
		}
		processes = append(processes, raceProcess{
			rid: p.set.RID, lifecycle: p.hello.Lifecycle, runs: runs, alive: slices.Contains(alive, p),
		})
	}
	return processes, failures
}
