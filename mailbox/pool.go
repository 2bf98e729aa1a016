package mailbox

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults and bounds of Config and Limits, each with its reason.
const (
	// A turn of a game object takes 1 to 50 µs: half a millisecond amortises the
	// claim and lets 1,000 busy mailboxes share a core at 2 rounds a second.
	defaultTimeBudget = 500 * time.Microsecond
	// A blocked worker costs its stack, 8 to 64 KiB: 4,096 of them 256 MiB at most.
	defaultMaxWorkers = 4096
	// Messages and bytes that one object may have waiting.
	defaultMessages = 4096
	defaultBytes    = 4 << 20
	// messageOverhead is what a message costs beside its bytes.
	messageOverhead = 256
	// What all objects of a node may have waiting.
	defaultPoolBytes = 256 << 20
)

// Config configures a Pool. The zero value is usable.
type Config struct {
	// Workers is the number of mailboxes that run at once, blocked ones not
	// counted; default GOMAXPROCS. More only adds switches between them.
	Workers int
	// TimeBudget is how long a claim lasts before the rest of its messages goes to
	// the back of the ready set; default 500 µs. It is checked between messages: a
	// turn is never cut. Shorter shares a busy pool more finely, longer costs less.
	TimeBudget time.Duration
	// MaxWorkers bounds the workers including those that stand in for blocked ones;
	// default 4,096, at least Workers. When all of them are blocked, ready
	// mailboxes wait for the first that comes back.
	MaxWorkers int
	// Bytes bounds the sum of the costs of all that is queued in the pool's mailboxes,
	// as Limits.Bytes does for one; default 256 MiB. The first 2 KiB of each mailbox
	// are not counted. With less, a node whose objects do not keep up refuses earlier.
	Bytes int64
	// OnPanic is told of a panic in a consumer, with the stack where it happened.
	// The turn has ended then, the claim goes on with the next message. It is
	// called by the worker and must not panic. Default nil: the panic goes on and
	// ends the process, since nobody would hear of it otherwise.
	OnPanic func(v any, stack []byte)
}

// Pool runs ready mailboxes on worker goroutines. It starts them when they are
// needed, up to Config.Workers that run, and keeps as many parked.
//
// All methods are safe for concurrent use.
type Pool struct {
	cfg   Config
	ready readySet
	types sync.Map // reflect.Type of T → *nodes[T]

	// Read on every put; written by workers that come and go.
	_         [64]byte
	vacant    atomic.Int32 // places without a worker
	searching atomic.Int32 // 1 while a worker is about to look for a ready mailbox
	watching  atomic.Bool  // the monitor is awake, or woken
	_         [64]byte

	quota quota
	_     [64]byte

	mu struct {
		sync.Mutex
		workers    map[*worker]struct{} // all, parked and blocked ones included
		parked     []*worker            // the last to come is the first to go
		seats      []*worker            // by place: who has it, or nil
		free       []int                // the places without a worker
		past       uint64               // turns of workers that have ended
		lent       uint64
		monitoring bool
		closing    bool // no turn yields any more
		closed     bool
		yields     int // turns in Claim.Yield
	}
	watch chan struct{} // wakes the monitor; capacity 1
	stop  chan struct{} // closed by Close
	calm  chan struct{} // closed when the pool is closing and no turn is in a Yield
	gone  chan struct{} // closed when the last worker and the monitor have ended
}

// Stats is a pool's state at some moment.
type Stats struct {
	Workers int    // worker goroutines in existence: the next three together
	Running int    // those that have a place: they run turns or look for work
	Blocked int    // those in a turn without a place: in Claim.Blocking, or found stuck
	Yields  int    // turns in a Yield; their workers are among the blocked ones
	Parked  int    // those that wait until they are needed
	Ready   int    // mailboxes that wait for a worker
	Turns   uint64 // turns of claims that have ended
	Lent    uint64 // how often a place was lent because its worker waited in a turn
}

// NewPool returns a pool that runs until Close.
func NewPool(cfg Config) *Pool {
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	if cfg.TimeBudget <= 0 {
		cfg.TimeBudget = defaultTimeBudget
	}
	if cfg.MaxWorkers <= 0 {
		cfg.MaxWorkers = defaultMaxWorkers
	}
	if cfg.Bytes <= 0 {
		cfg.Bytes = defaultPoolBytes
	}
	cfg.MaxWorkers = max(cfg.MaxWorkers, cfg.Workers)
	p := &Pool{
		cfg:   cfg,
		watch: make(chan struct{}, 1),
		stop:  make(chan struct{}),
		calm:  make(chan struct{}),
		gone:  make(chan struct{}),
	}
	p.quota.max = cfg.Bytes
	p.ready.init(cfg.Workers)
	p.mu.workers = make(map[*worker]struct{})
	p.mu.seats = make([]*worker, cfg.Workers)
	for place := range cfg.Workers {
		p.mu.free = append(p.mu.free, place)
	}
	p.vacant.Store(int32(cfg.Workers))
	p.mu.monitoring = true
	go p.monitor()
	return p
}

// Stats returns the pool's present state.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{
		Workers: len(p.mu.workers),
		Running: p.cfg.Workers - len(p.mu.free),
		Parked:  len(p.mu.parked),
		Yields:  p.mu.yields,
		Ready:   p.ready.len(),
		Turns:   p.mu.past,
		Lent:    p.mu.lent,
	}
	s.Blocked = s.Workers - s.Running - s.Parked
	for w := range p.mu.workers {
		s.Turns += w.progress.Load() >> 1
	}
	return s
}

// Close stops the workers, each after the turn that it is in, and waits for them.
// If ctx ends first, it returns an error that wraps ctx's and names the number of
// workers still in a turn; calling Close again goes on waiting.
//
// Mailboxes go on to admit messages up to their limits, but nobody consumes them
// any more. So close the pool last, when the mailboxes have become consumers that
// refuse and are empty. Close must not be called from inside a turn.
func (p *Pool) Close(ctx context.Context) error {
	p.endYields()
	select {
	case <-p.calm:
	case <-ctx.Done():
	}
	p.shut()
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
	}
	return fmt.Errorf("mailbox: pool not closed, %d workers still in a turn: %w", p.Stats().Workers, context.Cause(ctx))
}

// shut takes all places away, which ends each claim after its present turn, and
// wakes who is parked.
func (p *Pool) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return
	}
	p.mu.closed = true
	close(p.stop)
	for _, w := range p.mu.seats {
		if w != nil {
			p.vacate(w)
		}
	}
	for _, w := range p.mu.parked {
		w.wake <- struct{}{} // has room: only parked workers are woken, once
	}
	p.mu.parked = nil
}

// ended notes that a worker or the monitor has ended. Under mu.
func (p *Pool) ended() {
	if p.mu.closed && !p.mu.monitoring && len(p.mu.workers) == 0 {
		close(p.gone)
	}
}

// beginYield reports whether a turn may yield. Half of the workers stay for turns that
// do not: those in a Yield need others to end.
func (p *Pool) beginYield() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closing || p.mu.yields >= p.cfg.MaxWorkers/2 {
		return false
	}
	p.mu.yields++
	return true
}

func (p *Pool) endYield() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.yields--
	p.calmed()
}

// endYields lets no further turn yield.
func (p *Pool) endYields() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.closing {
		p.mu.closing = true
		p.calmed()
	}
}

// calmed notes that the last Yield is over. Under mu.
func (p *Pool) calmed() {
	if p.mu.closing && p.mu.yields == 0 {
		close(p.calm)
	}
}
