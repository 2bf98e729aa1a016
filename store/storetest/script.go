package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/store"
)

// Driver is a Store that a test can put back to what it was.
type Driver interface {
	store.Store
	// Mark remembers the state. The function that it returns puts it back, as a failover
	// does that lost all changes since, and can be called again.
	Mark() (failover func())
	// Elapse returns when the Store's clock shows more than a millisecond later.
	Elapse()
}

// Elapse waits until the clock shows two milliseconds more than now.
func Elapse(now func() time.Time) {
	begin := now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for now().Sub(begin) <= 2*time.Millisecond {
		<-tick.C
	}
}

// RunScripts runs the scripts in dir, each on an empty Store that open gives. A script
// has one directive, run, with a command on each line of its input; hold, in the first,
// is the Store's recovery hold. Each command prints what the Store answered, with names
// instead of what it issues (see Names); behind each the audit must find nothing.
//
// Processes, by RID; all take the options of describe:
//
//	node a           a new process: lease and descriptor
//	lease a          a new process without descriptor
//	publish a        writes the descriptor
//	unpublish a      removes it
//	expire a, renew a, release a
//	nodes            lists all
//	changed          whether the list of nodes is another than when this was asked last
//
// Objects; ids that begin with p are Actors, with s User Spots, with i Instance Spots. An
// operation has a new id or, with op=name, that name's. It goes by the row as it is, or,
// with as=name, as it was when a command with keep=name answered it.
//
//	reserve p1 at=a [wide] [type=] [from=b] [first=] [pass=]
//	finish p1 created|rejected|failed
//	create p1 at=a …                   reserve and finish
//	cancel p1, delete p1, free p1 [asks]
//	first i1 [cursor=] [done]
//	change p1 to=s1|<entry> [entry]    another Spot of its process
//	move p1 to=b [in=s1] [move=1] [attempt=1] [short] [epoch=old]
//	put s1 chunk=, prepare s1 chunk= [count=], complete s1 [move=1]
//	commit p1 [root=], abort p1, give-up p1, sweep p1
//	reassert p1 [by=a] [in=s1] [shares] [epoch=old]
//	read p1, read-first i1, read-chunk s1 chunk=, terminal op=, members s1, held a, list [kind=] [type=]
//
// Epochs: raise; mark, then failover.
func RunScripts(t *testing.T, dir string, open func(t *testing.T, hold time.Duration) Driver) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %s", d.Cmd)
			}
			if s == nil {
				hold := time.Duration(-1)
				if d.HasArg("hold") {
					hold = time.Hour
				}
				s = newScript(open(t, hold))
			}
			var out []string
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSpace(line)
				out = append(out, s.line(t, line)...)
			}
			return strings.Join(out, "\n")
		})
	})
}

// script is a run of one file.
type script struct {
	Driver
	names     Names
	processes map[string]*scriptProcess // by RID: the latest
	kept      map[string]store.Authority
	ops       map[string]store.OpID
	starts    int // of processes
	epochs    []store.Epoch
	change    uint64 // of the list of nodes, when it was asked last
	failover  func()
	answered  store.Authority // by the last change
}

type scriptProcess struct {
	store.Lease
	known store.Epoch // told by the last answer about the lease
	desc  store.Descriptor
}

func newScript(d Driver) *script {
	return &script{
		Driver: d, processes: map[string]*scriptProcess{}, kept: map[string]store.Authority{}, ops: map[string]store.OpID{},
	}
}

// line runs a command and returns what it prints: the answer in the first line.
func (s *script) line(t *testing.T, line string) []string {
	t.Helper()
	name, args, err := datadriven.ParseLine(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	c := &command{name: name, args: map[string]string{}}
	for i, a := range args {
		switch {
		case i == 0 && len(a.Vals) == 0:
			c.id = a.Key
		case len(a.Vals) == 0:
			c.args[a.Key] = "yes"
		default:
			c.args[a.Key] = strings.Join(a.Vals, ",")
		}
	}
	do := commands[name]
	if do == nil {
		t.Fatalf("%s: unknown command", line)
	}
	s.answered = store.Authority{}
	answer, err := do(s, t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if keep := c.args["keep"]; keep != "" {
		s.kept[keep] = s.answered
	}
	out := []string{fmt.Sprintf("%s %s: %s", name, c.id, answer)}
	if c.id == "" {
		out[0] = name + ": " + answer
	}
	wrong, err := s.Audit(t.Context())
	if err != nil {
		t.Errorf("audit behind %q: %v", line, err)
	}
	for _, w := range append(wrong, s.names.Wrong()...) {
		t.Errorf("behind %q: %s", line, w)
	}
	return out
}

// command is one line of a script.
type command struct {
	name, id string
	args     map[string]string
}

func (c *command) has(arg string) bool { return c.args[arg] != "" }

// get returns an argument, or what it is by default.
func (c *command) get(arg, otherwise string) string {
	if v, given := c.args[arg]; given {
		return v
	}
	return otherwise
}

func (c *command) number(arg string, otherwise int) (n int) {
	n = otherwise
	_, _ = fmt.Sscan(c.args[arg], &n) // what is no number is as if it were not there
	return n
}

type action func(s *script, ctx context.Context, c *command) (string, error)

// op is the command's operation.
func (s *script) op(c *command) store.OpID {
	name := c.get("op", fmt.Sprint("#", len(s.ops)+1))
	if _, known := s.ops[name]; !known {
		s.ops[name] = store.OpID{byte(len(s.ops) + 1), 1}
	}
	return s.ops[name]
}

// key is the creation of that operation id, which the process that came first started.
func (s *script) key(op store.OpID) store.OperationKey {
	return store.OperationKey{SourceRID: "source", SourceLifecycle: 1, Op: op}
}

func (s *script) process(rid string) *scriptProcess {
	if p := s.processes[rid]; p != nil {
		return p
	}
	return &scriptProcess{Lease: store.Lease{RID: rid, OwnerID: "nobody", Gen: store.GenMax}}
}

// row is what the command goes by.
func (s *script) row(ctx context.Context, c *command) (store.Authority, error) {
	if name := c.args["as"]; name != "" {
		a, kept := s.kept[name]
		if !kept {
			return a, fmt.Errorf("nothing was kept as %q", name)
		}
		return a, nil
	}
	a, found, err := s.Read(ctx, c.id)
	if err == nil && !found {
		a = store.Authority{ID: c.id, ObjectGen: store.GenMax, Version: store.GenMax, OwnerID: "nobody", LeaseGen: store.GenMax}
		if kindOf(c.id) == store.Actor {
			a.SpotID = "a-entry"
		}
	}
	return a, err
}

// onRow is a change of a row.
func onRow(do func(s *script, ctx context.Context, c *command, a *store.Authority) (store.Change, error)) action {
	return func(s *script, ctx context.Context, c *command) (string, error) {
		a, err := s.row(ctx, c)
		if err != nil {
			return "", err
		}
		return s.changed(do(s, ctx, c, &a))
	}
}

func (s *script) changed(c store.Change, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s.answered = c.Record
	s.heard(c.Epoch)
	return s.names.Change(c), nil
}

func (s *script) heard(e store.Epoch) {
	if !slices.Contains(s.epochs, e) {
		s.epochs = append(s.epochs, e)
	}
}

// epoch is the one under which the command acts.
func (s *script) epoch(c *command) store.Epoch {
	if c.get("epoch", "") == "old" {
		return s.epochs[0]
	}
	return s.epochs[len(s.epochs)-1]
}

func kindOf(id string) store.Kind {
	switch id[0] {
	case 's':
		return store.UserSpot
	case 'i':
		return store.InstanceSpot
	}
	return store.Actor
}
