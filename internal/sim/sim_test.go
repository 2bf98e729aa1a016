package sim

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	seedsFlag  = flag.Int("seeds", 250, "how many seeds to run")
	fromFlag   = flag.Uint64("from", 0, "the first of them")
	seedFlag   = flag.String("seed", "", "run this one alone, and show what happens")
	keepFlag   = flag.Bool("keep", false, "keep failing tapes in testdata/regress")
	movesFlag  = flag.Bool("moves", false, "with -seed: of the worlds of moves")
	drainsFlag = flag.Bool("drains", false, "with -seed: of the worlds of drains")
	bareFlag   = flag.Bool("bare", false, "say only which invariant fails, and after how many seeds")
)

// chosenKinds are the kinds of which -seed is.
func chosenKinds() []Kind {
	switch {
	case *drainsFlag:
		return DrainKinds
	case *movesFlag:
		return MoveKinds
	}
	return Kinds
}

const (
	regressDir = "testdata/regress"
	twiceEvery = 20   // one in so many seeds is run twice
	guardedBy  = 50   // seeds of a kind, from which on it must have reached what it must
	guardedAll = 4000 // the same of all, for what is rare
	shrinkRuns = 4000 // at most
	linesShown = 120
)

func kindOf(kinds []Kind, seed uint64) Kind { return kinds[seed%uint64(len(kinds))] }

// batch runs seeds on all processors until one fails.
type batch struct {
	kinds     []Kind
	mu        sync.Mutex
	next      uint64
	end       uint64
	failed    bool
	seed      uint64 // the lowest that has failed
	outcome   Outcome
	differs   []uint64 // seeds whose second run was another
	seeds     int
	histories int
	steps     int
	covers    map[string]*Cover
}

func (b *batch) run() {
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for seed, ok := b.take(); ok; seed, ok = b.take() {
				k := kindOf(b.kinds, seed)
				o := Run(k, NewTape(seed), 0)
				differs := seed%twiceEvery == 0 && Run(k, NewTape(seed), 0).Hash != o.Hash
				b.add(seed, o, differs)
			}
		})
	}
	running.Wait()
}

func (b *batch) take() (uint64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return b.next - 1, b.next <= b.end && !b.failed
}

func (b *batch) add(seed uint64, o Outcome, differs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seeds++
	b.histories += o.Histories
	b.steps += o.Steps
	b.covers[kindOf(b.kinds, seed).Name].Add(o.Cover)
	if differs {
		b.differs = append(b.differs, seed)
	}
	if o.Violation != nil && (!b.failed || seed < b.seed) {
		b.failed, b.seed, b.outcome = true, seed, o
	}
}

// req: CR-01
// req: CR-06
// req: CR-07
// req: CR-08
// req: CR-12
// req: CR-13
// req: CR-15
func TestCreationKeepsItsInvariantsInEveryHistory(t *testing.T) {
	all, seeds := playBatch(t, Kinds, wanted, wantedOfMany)
	if seeds > 0 {
		expectReached(t, CreationMatrix, all, seeds >= guardedAll)
	}
}

// expectReached tells which cells were not reached; if must be, that is a failure.
func expectReached(t *testing.T, matrix []Cell, c *Cover, must bool) {
	t.Helper()
	unreached := Unreached(matrix, c)
	for _, c := range unreached {
		t.Logf("not reached: %s × %s %q", c.Step, c.Fault, c.Marks)
	}
	if len(unreached) > 0 && must {
		t.Errorf("the batch did not reach %d of %d cells of the matrix", len(unreached), len(matrix))
	}
}

// playBatch plays the seeds, which have to reach what is wanted of each kind, and of many together.
func playBatch(t *testing.T, kinds []Kind, wanted map[string][]string, wantedOfMany []string) (all *Cover, seeds int) {
	t.Helper()
	if *seedFlag != "" {
		t.Skip("a single seed is wanted")
	}
	b := &batch{kinds: kinds, next: *fromFlag, end: *fromFlag + uint64(*seedsFlag), covers: map[string]*Cover{}}
	for _, k := range kinds {
		b.covers[k.Name] = NewCover()
	}
	begun := time.Now()
	b.run()
	took := time.Since(begun)
	if b.failed {
		b.report(t)
		return nil, 0
	}
	if len(b.differs) > 0 {
		t.Errorf("not deterministic: seeds %d differ when they are run again", b.differs)
	}
	all = NewCover()
	for _, k := range kinds {
		all.Add(b.covers[k.Name])
	}
	t.Logf("%d seeds, %d histories, %d steps, %.0f steps per second, no failure\n%v",
		b.seeds, b.histories, b.steps, float64(b.steps)/took.Seconds(), all)
	if b.seeds < guardedBy*len(kinds) {
		return all, b.seeds
	}
	for _, k := range kinds {
		if missing := b.covers[k.Name].Missing(wanted[k.Name]); len(missing) > 0 {
			t.Errorf("the runs of kind %s proved nothing of %q, which they never reached", k.Name, missing)
		}
	}
	if missing := all.Missing(wantedOfMany); len(missing) > 0 && b.seeds >= guardedAll {
		t.Errorf("the batch proved nothing of %q, which it never reached", missing)
	}
	return all, b.seeds
}

// report makes the failure small and tells its story.
func (b *batch) report(t *testing.T) {
	v, k := b.outcome.Violation, kindOf(b.kinds, b.seed)
	if *bareFlag {
		t.Fatalf("violated %s after %d seeds, by %#x: %s", v.ID, b.seeds, b.seed, v.Text)
	}
	tape := Shrink(k, b.outcome.Tape, v.ID, shrinkRuns)
	o := Run(k, Replay(tape), linesShown)
	t.Errorf("%v\nseed %#x of kind %s; again: make sim SEED=%#x\nmade small, a tape of %d bytes:\n%s\n%s",
		v, b.seed, k.Name, b.seed, len(tape), strings.Join(o.Lines, "\n"), o.Violation)
	name := filepath.Join(t.ArtifactDir(), "failed.tape")
	if *keepFlag {
		name = filepath.Join(regressDir, fmt.Sprintf("%s-%x.tape", v.ID, b.seed))
	}
	if err := os.WriteFile(name, encodeTape(k, tape), 0o600); err != nil {
		t.Error(err)
	}
	t.Logf("the tape is in %s", name)
}

// TestOneSeed shows a seed's history.
func TestOneSeed(t *testing.T) {
	if *seedFlag == "" {
		t.Skip("no -seed")
	}
	var seed uint64
	if _, err := fmt.Sscan(*seedFlag, &seed); err != nil {
		t.Fatal(err)
	}
	k := kindOf(chosenKinds(), seed)
	o := Run(k, NewTape(seed), 1<<20)
	t.Logf("seed %#x of kind %s: %d steps, %d histories\n%s", seed, k.Name, o.Steps, o.Histories, strings.Join(o.Lines, "\n"))
	if o.Violation != nil {
		t.Error(o.Violation)
	}
}

// A tape file has the kind in its first line, then hex.
func encodeTape(k Kind, tape []byte) []byte {
	out := []byte(k.Name + "\n")
	for line := range slices.Chunk(tape, 32) {
		out = append(hex.AppendEncode(out, line), '\n')
	}
	return out
}

func decodeTape(t *testing.T, file []byte) (Kind, []byte) {
	t.Helper()
	name, digits, _ := bytes.Cut(file, []byte("\n"))
	tape, err := hex.AppendDecode(nil, bytes.ReplaceAll(digits, []byte("\n"), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range slices.Concat(Kinds, MoveKinds, DrainKinds) {
		if k.Name == string(name) {
			return k, tape
		}
	}
	t.Fatalf("no kind %q", name)
	return Kind{}, nil
}

// Each tape is a history that once broke the invariant of its name, be it in a mutant.
func TestHistoriesThatFailedOnceAreRight(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(regressDir, "*.tape"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tapes: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			file, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			k, tape := decodeTape(t, file)
			if o := Run(k, Replay(tape), linesShown); o.Violation != nil {
				t.Errorf("%v\n%s", o.Violation, strings.Join(o.Lines, "\n"))
			}
		})
	}
}

func TestATapeOfZerosIsAStoryWithoutFaults(t *testing.T) {
	for _, k := range Kinds {
		o := Run(k, Replay(nil), 0)
		if o.Violation != nil || o.Histories == 0 {
			t.Errorf("%s: %v, %d histories", k.Name, o.Violation, o.Histories)
		}
		if len(o.Cover.Missing([]string{"call Created"})) > 0 || len(o.Cover.Missing([]string{"crash", "pause", "cut", "refused", "lost answer"})) < 5 {
			t.Errorf("%s: reached\n%v", k.Name, o.Cover)
		}
	}
}

func FuzzTape(f *testing.F) {
	for kind := range Kinds {
		f.Add(uint8(kind), []byte{})
	}
	f.Fuzz(func(t *testing.T, kind uint8, tape []byte) {
		k := Kinds[int(kind)%len(Kinds)]
		if o := Run(k, Replay(tape), linesShown); o.Violation != nil {
			t.Errorf("%v\n%s", o.Violation, strings.Join(o.Lines, "\n"))
		}
	})
}
