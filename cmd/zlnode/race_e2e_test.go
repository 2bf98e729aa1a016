package main

import (
	"strings"
	"syscall"
	"testing"
)

var shortRace = []string{
	"bench", "create", "--race", "--json", "--verbose", "--nodes", "3", "--clients", "8", "--ids", "20", "--kill", "1s",
}

// raced ends a race and returns its verdict, which must be good.
func (p *program) raced() (v raceVerdict) {
	p.t.Helper()
	if status := p.decode(&v); !v.OK || status != 0 || len(v.Violations) > 0 || v.Created == 0 || v.Runs == 0 {
		p.t.Errorf("status %d, %+v\n%s", status, v, strings.Join(p.said, "\n"))
	}
	if v.Ready+v.Orphaned+v.Missing != 20 {
		p.t.Errorf("%d ids are ready, %d of dead nodes, %d missing, of 20", v.Ready, v.Orphaned, v.Missing)
	}
	return v
}

func racesOnTheEmbeddedStore(t *testing.T, exe string) {
	races(t, start(t, exe, append(shortRace, "--for", "4s")...))
}

func racesOnRedis(t *testing.T, exe string) {
	races(t, start(t, exe, append(shortRace, "--for", "4s", "--store", redisURL(t))...))
}

func races(t *testing.T, p *program) {
	t.Helper()
	if v := p.raced(); v.Kills == 0 || v.Existing == 0 {
		t.Errorf("nobody raced: %+v", v)
	}
}

func raceEndsEarly(t *testing.T, exe string) {
	p := start(t, exe, append(shortRace, "--for", "60s")...)
	p.awaitLine(`killed objects-`) // so that one waits for the lease of the process before it
	p.awaitLine(`created [1-9]`)
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if v := p.raced(); v.Seconds >= 60 {
		t.Errorf("it went on for %v s", v.Seconds)
	}
}

func measuresCreations(t *testing.T, exe string) {
	var r createReport
	p := start(t, exe, "bench", "create", "--for", "200ms", "--json")
	if status := p.decode(&r); status != 0 || r.Nodes != benchNodes || len(r.Measures) != len(benchCallers) {
		t.Fatalf("status %d, %+v", status, r)
	}
	for i, m := range r.Measures {
		if m.Callers != benchCallers[i] || m.Created == 0 || m.PerSecond <= 0 || m.P50US <= 0 || m.P99US < m.P50US || m.MaxUS < m.P99US {
			t.Errorf("%+v", m)
		}
	}
}
