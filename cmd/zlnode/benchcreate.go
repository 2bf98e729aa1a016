package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode"
)

// benchCallers are how many goroutines create at once, one measurement after the other.
var benchCallers = [...]int{1, 16, 64}

// createMeasure is one measurement.
type createMeasure struct {
	Callers   int     `json:"callers"`
	Created   uint64  `json:"created"`
	PerSecond float64 `json:"per_second"`
	P50US     int64   `json:"p50_us"`
	P99US     int64   `json:"p99_us"`
	MaxUS     int64   `json:"max_us"`

	path path
}

// createReport is the result of `zlnode bench create`. Its JSON form is what --json prints.
type createReport struct {
	Store    string          `json:"store"`
	Nodes    int             `json:"nodes"`
	Measures []createMeasure `json:"measures"`
}

var errNoMeasure = errors.New("interrupted before anything was measured")

// measureCreate measures. A signal ends it with what it has measured so far.
func measureCreate(ctx context.Context, o benchOptions, progress, nodeLogs io.Writer) (createReport, error) {
	c, err := openCluster("bench", o.store, o.verbose)
	defer c.stop()
	report := createReport{Store: c.store, Nodes: o.nodes}
	if err != nil {
		return report, err
	}
	f, err := startFleet(ctx, c, o.nodes, "", nodeLogs)
	defer f.stop()
	if err != nil {
		return report, err
	}
	n, err := startRaceClient(ctx, c, "client-1", o.nodes)
	if err != nil {
		return report, err
	}
	for _, callers := range benchCallers {
		m, err := measureCallers(ctx, n, callers, o.duration)
		if err != nil {
			return report, errors.Join(err, stopDemoNode(n))
		}
		if ctx.Err() != nil {
			break
		}
		report.Measures = append(report.Measures, m)
		fmt.Fprintf(progress, "%d callers: %s created\n", callers, grouped(m.Created))
	}
	if err := stopDemoNode(n); err != nil {
		return report, err
	}
	if len(report.Measures) == 0 {
		return report, errNoMeasure
	}
	return report, nil
}

// measureCallers creates Actors with ids that were never used.
func measureCallers(ctx context.Context, n *zlnode.Node, callers int, duration time.Duration) (createMeasure, error) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	times := newLatency()
	errs := make([]error, callers)
	var numbers atomic.Uint64
	var wg sync.WaitGroup
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				id := fmt.Sprintf("bench-%d-%d", callers, numbers.Add(1))
				at := time.Now()
				// Its deadline is the node's own: one that is under way at the end counts.
				_, errs[i] = n.CreateActor(context.Background(), zlnode.CreateActor{ID: id, Type: plainType})
				if errs[i] == nil {
					times.record(time.Since(at))
				}
			}
		})
	}
	wg.Wait()
	p := times.path()
	return createMeasure{
		Callers: callers, Created: p.Count, PerSecond: float64(p.Count) / time.Since(began).Seconds(),
		P50US: p.P50.Microseconds(), P99US: p.P99.Microseconds(), MaxUS: p.Max.Microseconds(), path: p,
	}, errors.Join(errs...)
}

func (r *createReport) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// writeText writes the measurements for people.
func (r *createReport) writeText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nActors created on %d object nodes, store %s\n\n", r.Nodes, r.Store)
	fmt.Fprintf(&b, "  %-10s %12s %10s %10s %10s %10s\n", "callers", "created", "per second", "p50", "p99", "max")
	for _, m := range r.Measures {
		fmt.Fprintf(&b, "  %-10d %12s %10s %10s %10s %10s\n", m.Callers, grouped(m.Created), grouped(uint64(m.PerSecond)),
			short(m.path.P50), short(m.path.P99), short(m.path.Max))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
