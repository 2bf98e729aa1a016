package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zlnode/zlnode/store"
)

// step is one call of a history, with operations numbered so that a set of them fits
// a word.
type step struct {
	kind   string // read, reserve, finish, delete
	op     int    // of reserve, finish, delete
	gen    store.ObjectGen
	ver    store.Version
	result store.Result
}

// seen is what a call answered.
type seen struct {
	reason store.Reason
	state  store.State // of the row afterwards; 0: no row
	gen    store.ObjectGen
	ver    store.Version
}

// row is the obvious, sequential Store of one id: the second opinion.
type row struct {
	state             store.State
	op                int
	gen               store.ObjectGen
	ver               store.Version
	lastGen           store.ObjectGen
	lastVer           store.Version
	finished, deleted uint64 // operations, by number
}

// apply returns the row after s, and whether s may have answered out.
func (r row) apply(s step, out seen) (bool, row) {
	was := r
	want := store.Applied
	switch s.kind {
	case "read":
		want = 0
	case "reserve":
		switch {
		case r.finished>>s.op&1 == 1 || r.state != 0 && r.op == s.op:
			want = store.AlreadyApplied
		case r.state != 0:
			want = store.Exists
		default:
			r.state, r.op, r.gen, r.ver = store.Creating, s.op, out.gen, out.ver
		}
	case "finish":
		switch want = r.refusal(s, store.Creating); {
		case r.finished>>s.op&1 == 1:
			want = store.AlreadyApplied
		case want == store.Applied && s.result == store.Created:
			r.state, r.ver, r.finished = store.Ready, out.ver, r.finished|1<<s.op
		case want == store.Applied:
			r.state, r.finished = 0, r.finished|1<<s.op
		}
	case "delete":
		switch want = r.refusal(s, store.Ready); {
		case r.deleted>>s.op&1 == 1:
			want = store.AlreadyApplied
		case want == store.Applied:
			r.state, r.deleted = 0, r.deleted|1<<s.op
		}
	}
	if r.state == 0 {
		r.gen, r.ver = 0, 0
	}
	if out != (seen{want, r.state, r.gen, r.ver}) {
		return false, was
	}
	// What was issued is larger than all before it, over incarnations too.
	if r.state != 0 && r.gen != was.gen {
		if r.gen <= r.lastGen {
			return false, was
		}
		r.lastGen = r.gen
	}
	if r.state != 0 && r.ver != was.ver {
		if r.ver <= r.lastVer {
			return false, was
		}
		r.lastVer = r.ver
	}
	return true, r
}

func (r row) refusal(s step, state store.State) store.Reason {
	switch {
	case r.state == 0:
		return store.Missing
	case r.gen != s.gen:
		return store.GenerationConflict
	case r.ver != s.ver || r.state != state:
		return store.VersionConflict
	default:
		return store.Applied
	}
}

var rowModel = porcupine.Model{
	Init: func() any { return row{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(row).apply(input.(step), output.(seen))
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// linearizable: callers read, reserve, finish and delete one id at once, also with
// fences of the past and with operations sent twice, and every answer must fit one
// order of all calls. Each caller's choices are fixed by its seed; what they meet is
// up to the race.
func linearizable(w *world) {
	const callers, calls = 6, 30
	p := w.server("node-a")
	var reserves, deletes [64]store.OpID
	for i := range reserves {
		reserves[i], deletes[i] = newOp(), newOp()
	}
	key := func(op int) store.OperationKey {
		return store.OperationKey{SourceRID: p.RID, SourceLifecycle: p.Gen, Op: reserves[op]}
	}
	begin := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	together(callers, func(caller int) {
		random := rand.New(rand.NewPCG(uint64(caller), 1))
		mine := 64 / callers * caller // the caller's operations start here
		var last store.Authority      // as it saw the row last, maybe long ago
		var lastOp int                // its creation's number
		for range calls {
			op := mine + random.IntN(64/callers)
			s := step{kind: "read"}
			do := func() (store.Change, error) {
				a, found, err := w.s.Read(w.ctx(), "player-1")
				return store.Change{Record: a, Found: found}, err
			}
			switch n := random.IntN(10); {
			case n < 4:
				s = step{kind: "reserve", op: op}
				do = func() (store.Change, error) {
					r := request("player-1", p)
					r.Op = key(op)
					return w.s.Reserve(w.ctx(), r)
				}
			case n < 7 && last.ObjectGen != 0:
				s = step{"finish", lastOp, last.ObjectGen, last.Version, store.Result(1 + random.IntN(3))}
				do = func() (store.Change, error) {
					return w.s.Finish(w.ctx(), store.Finish{Fence: fence(last), Op: key(s.op), Result: s.result})
				}
			case n < 8 && last.ObjectGen != 0:
				// One deletion for each incarnation, whoever sends it and how often.
				s = step{kind: "delete", op: lastOp, gen: last.ObjectGen, ver: last.Version}
				do = func() (store.Change, error) { return w.s.Delete(w.ctx(), fence(last), deletes[lastOp]) }
			}
			call := time.Since(begin)
			c, err := do()
			end := time.Since(begin)
			if err != nil {
				w.t.Error(err)
				return
			}
			mu.Lock()
			history = append(history, porcupine.Operation{
				ClientId: caller, Input: s, Call: int64(call), Return: int64(end),
				Output: seen{c.Reason, c.Record.State, c.Record.ObjectGen, c.Record.Version},
			})
			mu.Unlock()
			if c.Record.Create != nil {
				last = c.Record
				for i, known := range reserves {
					if known == c.Record.Create.Op.Op {
						lastOp = i
					}
				}
			} else if c.Found && c.Record.ObjectGen == last.ObjectGen {
				last.Version = c.Record.Version
			}
		}
	})
	if got := porcupine.CheckOperationsTimeout(rowModel, history, stepMax); got != porcupine.Ok {
		w.t.Errorf("history of %d calls is %v:", len(history), got)
		for _, o := range history {
			w.t.Logf("%d %d–%d %s", o.ClientId, o.Call, o.Return, rowModel.DescribeOperation(o.Input, o.Output))
		}
	}
}
