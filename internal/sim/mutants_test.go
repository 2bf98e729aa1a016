package sim

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var mutantsFlag = flag.Int("mutants", 0, "run the mutants, with so many seeds each")

const (
	sourceFile = "internal/creation/source.go"
	targetFile = "internal/creation/target.go"
	modelFile  = "store/storetest/model/creation.go"
)

// mutant is a defect that the oracle must see.
type mutant struct {
	name  string
	file  string
	edits []string // old and new text, in pairs; a text that ends in .go names another file
	found []string // the invariants, one of which it breaks
}

var mutants = []mutant{
	{"a reservation whose answer was lost is taken for failed, and made again as another operation", sourceFile, []string{
		"if s.lost = s.lost || errors.Is(e.Err, store.ErrUnknown); s.lost {", "if errors.Is(e.Err, store.ErrUnknown) {\n s.choose()\n return\n}\nif false {",
	}, []string{"I6"}},
	{"an operation that may be applied late is not kept when a later try was refused", sourceFile, []string{
		"if !s.lost {", "if s.lost = false; true {",
	}, []string{"I6"}},
	{"an operation that was applied already is taken for another's", sourceFile, []string{
		"case store.AlreadyApplied: // by", "case 255: // by",
		"case store.Exists, store.TypeMismatch:", "case store.AlreadyApplied, store.Exists, store.TypeMismatch:",
	}, []string{"I6"}},
	{"a loser takes Creating for Ready", sourceFile, []string{
		"case row.State == store.Ready:\n\t\ts.end(", "case true:\n\t\ts.end(",
	}, []string{"I6"}},
	{"the caller's deadline is not watched", sourceFile, []string{
		"now.Reached(s.call.Deadline) && !s.final(&e)", "false",
		"return min(s.wake, s.call.Deadline), true", "return s.wake, true",
	}, []string{"CR-13", "I12"}},
	{"the object opens before the Store has answered", targetFile, []string{
		"case e.Done:\n\t\tt.conclude()", "case e.Done:\n\t\tt.over(nil)",
	}, []string{"CR-07"}},
	{"the target stages without reading the row", targetFile, []string{
		"\tdefault:\n\t\tt.do(targetReading, TargetEffect{Do: TargetRead})\n\t}",
		"\tdefault:\n\t\tt.stage(&store.Authority{ID: t.job.ID, Type: t.job.Type, Kind: t.job.Kind, ObjectGen: t.job.ObjGen, State: store.Creating, Create: &store.Creation{Op: t.job.Op}})\n\t}",
	}, []string{"I1", "CR-09"}},
	{"a Finish whose answer was lost is taken for applied", targetFile, []string{
		"case e.Err != nil, c.Reason == store.LeaseExpired:", "case made && errors.Is(e.Err, store.ErrUnknown):\n\t\tt.over(nil)\n\tcase e.Err != nil, c.Reason == store.LeaseExpired:",
	}, []string{"CR-07", "I6", "I12"}},
	{"a Finish whose answer was lost is given up", targetFile, []string{
		"case e.Err != nil, c.Reason == store.LeaseExpired:", "case errors.Is(e.Err, store.ErrUnknown):\n\t\tt.over(unavailable(\"lost\"))\n\tcase e.Err != nil, c.Reason == store.LeaseExpired:",
	}, []string{"I12"}},
	{"a run that came too late tells its own result, not the kept one", targetFile, []string{
		"case !made && c.Reason == store.AlreadyApplied:", "case false:",
	}, []string{"I6", "CR-12"}},
	{"a creation of a living process is cancelled, and the Store does not refuse it", sourceFile, []string{
		"case row.State == store.Creating && row.LeaseLeft <= 0:", "case row.State == store.Creating:",
		modelFile, "", "case v.refused(r.owner()) == 0:\n\t\t\treturn store.OwnerAlive\n\t\t}\n\t\tv.countFreed", "}\n\t\tv.countFreed",
	}, []string{"I1"}},
	{"the lease's margin is added, not taken away", "internal/lease/lease.go", []string{
		"a.SentAt.Add(a.Remaining-k.config.Margin)", "a.SentAt.Add(a.Remaining+k.config.Margin)",
	}, []string{"I1"}},
	{"the shell does not look which of its rows were freed", "internal/sim/process.go", []string{
		"case r.Freed != p.freed || p.unread:", "case false:",
	}, []string{"I1"}},
	{"the shell lets others run what its own call is about to run", "internal/sim/target.go", []string{
		"if runs == nil && job.Row == nil && p.claims[job.Op.Op] {", "if false {",
	}, []string{"I1", "CR-12"}},
	{"the shell takes a removal whose answer was lost for refused", "internal/sim/destroy.go", []string{
		"if !doubt || err == nil && c.Reason != store.LeaseExpired {", "if true {",
		"kept := err != nil && !doubt ||", "kept := err != nil ||",
	}, []string{"I1"}},
}

// TestMutants shows that the oracle sees defects: each mutant must break an invariant.
func TestMutants(t *testing.T) {
	if *mutantsFlag == 0 {
		t.Skip("no -mutants")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		mutants []mutant
		tests   []string
	}{
		{mutants, []string{"TestCreationKeeps"}},
		{moveMutants, []string{"TestAClientThatIsLost", "TestEachFault", "TestMovesKeep", "TestTwoFaults"}},
		{drainMutants, []string{"TestDrainsKeep", "TestEachFault"}},
		{linkMutants, []string{"TestALinkThatIsHurt", "TestMovesKeep", "TestCreationKeeps"}},
	} {
		for _, m := range of.mutants {
			t.Run(m.name, func(t *testing.T) {
				violated, seeds := m.run(t, root, of.tests)
				t.Logf("%s after %s: %s", violated, seeds, m.name)
				if !slices.Contains(m.found, violated) {
					t.Errorf("violated %q: want one of %q", violated, m.found)
				}
			})
		}
	}
}

// every says which part of the scripts is played.
var every = map[string]string{"TestEachFault": "7", "TestTwoFaults": "11"}

// run tests the mutant with the go command's overlay, which leaves the files alone.
func (m *mutant) run(t *testing.T, root string, tests []string) (violated, seeds string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	name, replaced := m.file, map[string]string{}
	for edit := range slices.Chunk(m.edits, 2) {
		if strings.HasSuffix(edit[0], ".go") {
			name = edit[0]
			continue
		}
		file := filepath.Join(root, name)
		path := file
		if replaced[file] != "" {
			path = replaced[file]
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), edit[0]); n != 1 {
			t.Fatalf("%s has %q %d times", name, edit[0], n)
		}
		replaced[file] = write(filepath.Base(name), []byte(strings.Replace(string(text), edit[0], edit[1], 1)))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", write("overlay.json", overlay), "-vet=off",
			"-run", test, ".", "-args", "-bare", "-pairs", "-seeds", strconv.Itoa(*mutantsFlag), "-every", cmp.Or(every[test], "1")).CombinedOutput()
		if err == nil {
			continue
		}
		_, line, _ := strings.Cut(string(out), "violated ")
		var what string
		if _, err := fmt.Sscanf(line, "%s after %s %s", &violated, &seeds, &what); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return violated, seeds + " " + strings.TrimSuffix(what, ",")
	}
	return "nothing", "all"
}
