package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/zlnode/zlnode"
)

// This file is what the demo has a node process do while that serves: orders, a line of JSON each
// on its standard input behind the settings, one at a time; each is answered by a line on its
// standard output.

// answerLineMax bounds a line that a node process writes.
const answerLineMax = 1 << 20

// nodeOrder is what a node process is to do. The answer to one without Relocate has what the
// process knows.
type nodeOrder struct {
	Relocate *relocateOrder `json:"relocate,omitempty"`
	Watch    *watchOrder    `json:"watch,omitempty"`
	Watched  bool           `json:"watched,omitempty"` // ends a Watch, and tells what it saw
}

// watchOrder has a process look at its memory, and at where its processor time goes.
type watchOrder struct {
	CPU bool `json:"cpu"`
}

// relocateOrder has a node relocated, and answered when nothing needs it any more.
type relocateOrder struct {
	Mode    zlnode.RelocateMode `json:"mode"`
	Version string              `json:"version"` // of zlnode.RollingUpdate
	Timeout time.Duration       `json:"timeout"`
}

// nodeAnswer answers an order.
type nodeAnswer struct {
	Error string `json:"error,omitempty"` // why it was not done
	// Relocated is the end of a relocation.
	Relocated *relocatedAnswer `json:"relocated,omitempty"`
	// Stood are the standstills of what has come to the process; see stand.
	Stood [][]byte `json:"stood"`
	// Memory and CPU, a profile, are what a watch saw.
	Memory memoryUse `json:"memory"`
	CPU    []byte    `json:"cpu,omitempty"`
}

type relocatedAnswer struct {
	Outcome zlnode.RelocateOutcome `json:"outcome"`
	Reason  zlnode.RelocateReason  `json:"reason"`
	Text    string                 `json:"text"`
	Units   []zlnode.UnitProgress  `json:"units"`
	Blocked []string               `json:"blocked"` // objects, with their reasons
	MovedNS int64                  `json:"moved_ns,string"`
}

// readOrders passes orders on until the input ends, which ends the process.
func readOrders(in *bufio.Reader, orders chan<- nodeOrder, over <-chan struct{}) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var o nodeOrder
		if json.Unmarshal(line, &o) != nil {
			continue // who wrote it waits in vain, and says so
		}
		select {
		case orders <- o:
		case <-over:
			return
		}
	}
}

// servedNode is a node process that serves.
type servedNode struct {
	node  *zlnode.Node
	stood *stand
	set   nodeSettings

	watch   *memoryWatch // nil: the process is not watched
	profile *bytes.Buffer
}

// serve does orders until ctx ends or the node has.
func (s *servedNode) serve(ctx context.Context, orders <-chan nodeOrder, out io.Writer) error {
	for {
		select {
		case o := <-orders:
			if err := json.NewEncoder(out).Encode(s.do(ctx, o)); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-s.node.Done():
			return nil
		}
	}
}

func (s *servedNode) do(ctx context.Context, o nodeOrder) (a nodeAnswer) {
	var err error
	switch {
	case o.Relocate != nil:
		a.Relocated, err = s.relocate(ctx, o.Relocate)
	case o.Watch != nil:
		err = s.beginWatch(o.Watch)
	case o.Watched:
		a.Memory, a.CPU = s.endWatch()
	}
	if err == nil {
		a.Stood, err = s.stood.export()
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func (s *servedNode) beginWatch(o *watchOrder) error {
	if s.watch != nil {
		return errors.New("it is watched already")
	}
	if o.CPU {
		s.profile = &bytes.Buffer{}
		if err := pprof.StartCPUProfile(s.profile); err != nil {
			return err
		}
	}
	s.watch = watchMemory()
	return nil
}

func (s *servedNode) endWatch() (u memoryUse, profile []byte) {
	u = s.watch.stop()
	s.watch = nil
	if s.profile != nil {
		pprof.StopCPUProfile()
		profile, s.profile = s.profile.Bytes(), nil
	}
	return u, profile
}

// relocate relocates the node, and waits until messages to what has left find their way without
// it.
func (s *servedNode) relocate(ctx context.Context, o *relocateOrder) (*relocatedAnswer, error) {
	began := time.Now()
	r, err := s.node.Relocate(ctx, zlnode.Relocate{Mode: o.Mode, TargetVersion: o.Version, Timeout: o.Timeout})
	if err != nil {
		return nil, err
	}
	a := &relocatedAnswer{Outcome: r.Outcome, Reason: r.Reason, Text: r.Text, MovedNS: time.Since(began).Nanoseconds()}
	ctx, cancel := context.WithTimeout(ctx, s.set.Follow+settleTime)
	defer cancel()
	look := time.NewTicker(settleLook)
	defer look.Stop()
	for {
		p, _ := s.node.Relocation()
		if p.SafeToShutdown || r.Outcome != zlnode.RelocateRelocated {
			a.Units = p.Units
			for _, b := range p.Blocked {
				a.Blocked = append(a.Blocked, strings.TrimSpace(fmt.Sprintf("%v %s: %v %s", b.Kind, b.ID, b.Reason, b.Text)))
			}
			return a, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the node is relocated, and messages to what has left are still relayed by it", ctx.Err())
		}
	}
}

// order has the process do something and returns its answer. One call at a time.
func (p *nodeProc) order(ctx context.Context, o nodeOrder) (nodeAnswer, error) {
	line, err := json.Marshal(o)
	if err == nil {
		_, err = p.stdin.Write(append(line, '\n'))
	}
	if err != nil {
		return nodeAnswer{}, p.orderError(err)
	}
	select {
	case line := <-p.answers:
		var a nodeAnswer
		if err = json.Unmarshal(line, &a); err == nil && a.Error != "" {
			err = errors.New(a.Error)
		}
		if err != nil {
			err = p.orderError(err)
		}
		return a, err
	case <-p.done:
		_, text := p.fate()
		return nodeAnswer{}, p.orderError(errors.New(text))
	case <-ctx.Done():
		return nodeAnswer{}, p.orderError(ctx.Err())
	}
}

func (p *nodeProc) orderError(err error) error {
	return fmt.Errorf("node %s did not do what it was to: %w", p.set.RID, err)
}
