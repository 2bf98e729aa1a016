package admin

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/errkind"
)

const token = "a token of some length"

// refusal is an error of a kind.
type refusal struct {
	kind errkind.Kind
	text string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Is(target error) bool { return target == r.kind }

// fake is a node of which a test says all.
type fake struct {
	mu       sync.Mutex
	asked    []string // "<what>"
	passes   []string
	limits   Limits
	at       *Relocation
	result   chan Result
	err      error
	request  RelocateRequest
	stop     chan struct{} // Shutdown ends with it
	stopped  bool
	deadline time.Time // of the shutdown
	status   func()    // is called in Status
}

func (f *fake) note(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
	return f.err
}

func (f *fake) did() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) Status() Status {
	if f.status != nil {
		f.status()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Status{RID: "a", State: "Serving", Cordoned: f.passes != nil, Passes: len(f.passes)}
	if f.stopped {
		s.ShutdownEnd = &Ended{Outcome: "Stopped", Reason: "None"}
	}
	return s
}

func (f *fake) Relocate(ctx context.Context, r RelocateRequest) (*Result, error) {
	if err := f.note("relocate"); err != nil {
		return nil, err
	}
	f.set(func() { f.request = r })
	select {
	case got := <-f.result:
		return &got, nil
	case <-ctx.Done():
		return nil, nil
	}
}

func (f *fake) Relocation() *Relocation {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		return nil
	}
	r := *f.at
	return &r
}

func (f *fake) Cordon(_ context.Context, passes []string) error {
	f.set(func() { f.passes = append([]string{}, passes...) })
	return f.note("cordon")
}

func (f *fake) Uncordon(context.Context) error {
	f.set(func() { f.passes = nil })
	return f.note("uncordon")
}

func (f *fake) Limits() Limits {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.limits
}

func (f *fake) SetLimits(l Limits) error {
	if err := f.note("limits"); err != nil {
		return err
	}
	f.set(func() { f.limits = l })
	return nil
}

func (f *fake) Shutdown(ctx context.Context) error {
	err := f.note("shutdown")
	f.set(func() { f.deadline, _ = ctx.Deadline() })
	select {
	case <-f.stop:
	case <-ctx.Done():
	}
	f.set(func() { f.stopped = true })
	return err
}

// door opens a door to the node. tune changes its times.
func door(t *testing.T, f *fake, tune ...func(*http.Server)) (*Server, *Client) {
	t.Helper()
	f.result, f.stop = make(chan Result), make(chan struct{})
	port, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(port, []byte(token), f, zerolog.New(zerolog.NewTestWriter(t)))
	for _, change := range tune {
		change(&s.http)
	}
	s.tasks.Go(s.serve)
	t.Cleanup(s.Close)
	c := NewClient(s.Addr().String(), []byte(token))
	t.Cleanup(c.Close)
	return s, c
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("in vain: %s", what)
		}
	}
}

// wantError fails the test unless err is a refusal of that status and kind.
func wantError(t *testing.T, err error, status int, kind errkind.Kind) {
	t.Helper()
	refused, ok := err.(*Error) //nolint:errorlint // as the client returns it
	if !ok || refused.Status != status || refused.Kind != kind.String() || refused.Text == "" {
		t.Errorf("%v, want %s and %v", err, http.StatusText(status), kind)
	}
}
