package redislua

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// tracer runs a script, SOURCE, and writes what it was given, each of its commands and
// its answer to the list TRACE.
const tracer = `
local server = redis
local function note(what)
  server.call('RPUSH', 'TRACE', cjson.encode(what))
end
note({ script = 'NAME', keys = KEYS, args = ARGV })
local function traced(how)
  return function(...)
    note({ how = how, words = { ... } })
    return server[how](...)
  end
end
local function script()
  local redis = { call = traced('call'), pcall = traced('pcall') }
  SOURCE
end
local reply = script()
note({ how = 'answer', words = reply })
return reply
`

// twins makes of each script that act runs, once each, one that sends the same commands
// on the same keys, gives an answer of the same size and decides nothing: the floor for
// doing this in one script. What a command or the answer has of the script's arguments,
// it has in the twin too; versions and times are those of the one run.
func twins(b *testing.B, s *Store, act func()) func(lua.Script) lua.Script {
	b.Helper()
	trace := s.keys.prefix + "trace"
	s.prepare = func(script lua.Script) lua.Script {
		source := strings.NewReplacer("TRACE", trace, "NAME", script.Name, "SOURCE", script.Source).Replace(tracer)
		return lua.New(script.Name, source)
	}
	act()
	s.prepare = nil
	var step, given struct {
		Script     string
		Keys, Args []string
		How        string
		Words      []any
	}
	made := map[string]lua.Script{}
	var body strings.Builder
	raw := rawClient(b, s.options.URL)
	for _, line := range raw.LRange(within(b), trace, 0, -1).Val() {
		step.Script = ""
		if err := json.Unmarshal([]byte(line), &step); err != nil {
			b.Fatal(err)
		}
		if step.Script != "" {
			given = step
			body.Reset()
			continue
		}
		words := make([]string, len(step.Words))
		for i, w := range step.Words {
			words[i] = expression(fmt.Sprint(w), given.Keys, given.Args)
		}
		if step.How == "answer" {
			words[0] = "ARGV[1]" // the nonce
			made[given.Script] = lua.New(given.Script, body.String()+"return { "+strings.Join(words, ", ")+" }")
			continue
		}
		fmt.Fprintf(&body, "redis.%s(%s)\n", step.How, strings.Join(words, ", "))
	}
	raw.Del(within(b), trace)
	return func(script lua.Script) lua.Script {
		twin, known := made[script.Name]
		if !known {
			b.Errorf("%s has no twin", script.Name)
		}
		return twin
	}
}

// expression is the word in Lua, as one that was given if it is, or has the id in it.
func expression(word string, keys, args []string) string {
	if i := slices.Index(keys, word); i >= 0 {
		return "KEYS[" + strconv.Itoa(i+1) + "]"
	}
	if i := slices.Index(args, word); i > 0 && word != "" {
		return "ARGV[" + strconv.Itoa(i+1) + "]"
	}
	before, after, has := strings.Cut(word, args[1])
	if !has {
		return strconv.Quote(word)
	}
	return strconv.Quote(before) + " .. ARGV[2] .. " + strconv.Quote(after)
}

// rival is one of two Stores that are measured in turn.
type rival struct {
	*stage
	took   time.Duration // by the clock, of the fastest batch: others use the machine too
	server float64       // µs in the server, of the fastest
}

// run does f for 0 to n-1 from some goroutines at once, and measures it.
func (s *rival) run(p *redisProcess, n int, f func(i int)) {
	p.do("CONFIG", "RESETSTAT")
	begin := time.Now()
	spread(n, f)
	took, server := time.Since(begin), scriptMicros(p)
	if s.took == 0 {
		s.took, s.server = took, server
	}
	s.took, s.server = min(s.took, took), min(s.server, server)
}

// scriptMicros is what the server spent in scripts since CONFIG RESETSTAT.
func scriptMicros(p *redisProcess) float64 {
	p.t.Helper()
	for line := range strings.Lines(p.raw.Info(within(p.t), "commandstats").Val()) {
		if _, rest, is := strings.Cut(line, "cmdstat_evalsha:"); is {
			_, rest, _ = strings.Cut(rest, "usec=")
			micros, _, _ := strings.Cut(rest, ",")
			n, err := strconv.ParseFloat(micros, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// BenchmarkScriptsBesideTheirCommands compares the scripts with their twins, in turn:
// throughput is how many times as fast as a twin, server the same of the time that the
// server spends. The bar is 0.8.
func BenchmarkScriptsBesideTheirCommands(b *testing.B) {
	const batch = 200
	try := func(c store.Change, err error) store.Authority {
		if err != nil || c.Reason != store.Applied {
			b.Error(c.Reason, err)
		}
		return c.Record
	}
	create := func(s *stage, id string) store.Authority {
		a := try(s.Reserve(b.Context(), reservation(id, store.Actor, false, s.a)))
		return try(s.Finish(b.Context(), finishing(a, store.Created)))
	}
	move := func(s *stage, a store.Authority) {
		a = try(s.ReserveMove(b.Context(), moveTo(a, s.b)))
		try(s.CommitMove(b.Context(), commitOf(a, s.b)))
	}
	measure := func(b *testing.B, learn func(s *stage), run func(p *redisProcess, s *rival, twin func(lua.Script) lua.Script, begin string)) {
		p := startRedis(b)
		loadScripts(b, p.raw)
		real, bare := &rival{stage: newStage(b, openStore(b, p.url()))}, &rival{stage: newStage(b, openStore(b, p.url()))}
		teacher := newStage(b, openStore(b, p.url()))
		twin := twins(b, teacher.Store, func() { learn(teacher) })
		n := 0
		for b.Loop() {
			n++
			both := []*rival{real, bare}
			if n%2 == 0 {
				slices.Reverse(both)
			}
			for _, s := range both {
				use := twin
				if s == real {
					use = nil
				}
				run(p, s, use, strconv.Itoa(n)+"-")
			}
		}
		const ops = 2 * batch
		b.ReportMetric(real.took.Seconds()*1e6/ops, "µs/script")
		b.ReportMetric(bare.took.Seconds()*1e6/ops, "µs/twin")
		b.ReportMetric(bare.took.Seconds()/real.took.Seconds(), "throughput")
		b.ReportMetric(real.server/ops, "server-µs/script")
		b.ReportMetric(bare.server/real.server, "server")
	}
	b.Run("create", func(b *testing.B) {
		measure(b, func(s *stage) { create(s, "teacher-1") }, func(p *redisProcess, s *rival, twin func(lua.Script) lua.Script, begin string) {
			s.prepare = twin
			s.run(p, batch, func(i int) { create(s.stage, begin+strconv.Itoa(i)) })
		})
	})
	b.Run("move", func(b *testing.B) {
		learn := func(s *stage) {
			traced := s.prepare
			s.prepare = nil
			a := create(s, "teacher-1")
			s.prepare = traced
			move(s, a)
		}
		measure(b, learn, func(p *redisProcess, s *rival, twin func(lua.Script) lua.Script, begin string) {
			b.StopTimer()
			s.prepare = nil
			objects := make([]store.Authority, batch)
			for i := range objects {
				objects[i] = create(s.stage, begin+strconv.Itoa(i))
			}
			b.StartTimer()
			s.prepare = twin
			s.run(p, batch, func(i int) { move(s.stage, objects[i]) })
		})
	})
}
