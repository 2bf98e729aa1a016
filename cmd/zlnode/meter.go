package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// latencyMax is the largest latency that a histogram tells apart; what is
	// longer counts as that.
	latencyMax = time.Minute
	// failuresKept is how many different failures are told; all are counted.
	failuresKept = 5
)

// meter counts what all bots do. Safe for concurrent use.
type meter struct {
	online      atomic.Int64  // bots that are logged in and not gone
	unavailable atomic.Int64  // bots that met a dead node
	dropped     atomic.Uint64 // connections that ended by themselves
	errors      atomic.Uint64 // everything else that failed
	moves       atomic.Uint64 // one-way messages sent
	acts        atomic.Uint64 // requests sent
	requests    latency       // from the request to its reply
	pushes      latency       // from the one-way message to the push that it caused
	hops        hopMeter
	changes     latency       // from the loss of a gateway until the bot goes on at another
	resent      atomic.Uint64 // ops that were sent again there

	mu       sync.Mutex
	failures []string
}

func newMeter() *meter {
	return &meter{requests: newLatency(), pushes: newLatency(), hops: newHopMeter(), changes: newLatency()}
}

// fail counts an error and keeps its text if it is one of the first.
func (m *meter) fail(err error) {
	m.errors.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures = keepFailure(m.failures, err.Error())
}

// told returns the texts of the first different failures.
func (m *meter) told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.failures)
}

// messages returns how many messages bots have sent and received.
func (m *meter) messages() uint64 {
	return m.moves.Load() + m.acts.Load() + m.requests.count() + m.pushes.count()
}

// latency is a histogram of one path, in microseconds. Safe for concurrent use.
type latency struct {
	mu   *sync.Mutex
	hist *hdrhistogram.Histogram
}

func newLatency() latency {
	return latency{&sync.Mutex{}, hdrhistogram.New(1, latencyMax.Microseconds(), 3)}
}

func (l *latency) record(d time.Duration) {
	us := min(max(d.Microseconds(), 1), latencyMax.Microseconds())
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.hist.RecordValue(us) // it is within the histogram's range
}

func (l *latency) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(l.hist.TotalCount())
}

// export returns the histogram for another process.
func (l *latency) export() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// merge adds one that another process has exported.
func (l *latency) merge(b []byte) error {
	other, err := hdrhistogram.Decode(b)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hist.Merge(other)
	return nil
}

// path is one histogram at a glance.
type path struct {
	Count         uint64
	P50, P99, Max time.Duration
}

func (l *latency) path() path {
	l.mu.Lock()
	defer l.mu.Unlock()
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return path{uint64(l.hist.TotalCount()), us(l.hist.ValueAtQuantile(50)), us(l.hist.ValueAtQuantile(99)), us(l.hist.Max())}
}
