package mailbox

import (
	"fmt"
	"strings"
	"testing"
)

// A system is a small model of goroutines that share words: a state is a value,
// a step is one atomic action of one of them.
type system[S comparable] struct {
	start S
	// steps returns the states that one step of any goroutine leads to, with the
	// step's name; none means that all are at rest.
	steps func(S) []step[S]
	// always says what is wrong with a state, "" for nothing; atRest is asked of
	// states without steps in addition.
	always, atRest func(S) string
}

type step[S comparable] struct {
	name string
	to   S
}

// explore visits every state that any interleaving reaches. It returns their
// number and, for the first wrong one, the steps that lead to it.
func (m system[S]) explore() (states int, wrong string) {
	type origin struct {
		from S
		name string
	}
	came := map[S]origin{m.start: {}}
	for queue := []S{m.start}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		what := m.always(s)
		steps := m.steps(s)
		if what == "" && len(steps) == 0 {
			what = m.atRest(s)
		}
		if what != "" {
			var path []string
			for at := s; at != m.start; at = came[at].from {
				path = append([]string{came[at].name}, path...)
			}
			return len(came), fmt.Sprintf("%s: %+v after\n  %s", what, s, strings.Join(path, "\n  "))
		}
		for _, st := range steps {
			if _, known := came[st.to]; !known {
				came[st.to] = origin{s, st.name}
				queue = append(queue, st.to)
			}
		}
	}
	return len(came), ""
}

func TestExploreFindsALostUpdate(t *testing.T) {
	type state struct{ word, a, b, pcA, pcB int }
	m := system[state]{
		steps: func(s state) (out []step[state]) {
			run := func(name string, local, pc *int, next func() state) {
				switch *pc {
				case 0:
					n := next
					old := *local
					*local, *pc = s.word, 1
					out = append(out, step[state]{name + " reads", n()})
					*local, *pc = old, 0
				case 1:
					w := s.word
					s.word, *pc = *local+1, 2
					out = append(out, step[state]{name + " writes", next()})
					s.word, *pc = w, 1
				}
			}
			run("a", &s.a, &s.pcA, func() state { return s })
			run("b", &s.b, &s.pcB, func() state { return s })
			return out
		},
		always: func(state) string { return "" },
		atRest: func(s state) string {
			if s.word != 2 {
				return "an increment is lost"
			}
			return ""
		},
	}
	if _, wrong := m.explore(); !strings.Contains(wrong, "lost") {
		t.Errorf("explore found %q", wrong)
	}
}
