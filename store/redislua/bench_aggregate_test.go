package redislua

import (
	"testing"
	"time"
)

// BenchmarkAggregateCommit moves a SpotWide Spot with its members to and fro. It reports
// the commit's time in the server, and the longest that another client waited meanwhile
// for an answer, beside the longest without a commit.
func BenchmarkAggregateCommit(b *testing.B) {
	for name, members := range map[string]int{"1": 1, "10000": 10_000} {
		b.Run(name, func(b *testing.B) {
			p := startRedis(b)
			loadScripts(b, p.raw)
			s := newStage(b, openStore(b, p.url()))
			s.make("room", 3, true, s.a)
			s.populate("room", members)
			other := rawClient(b, p.url())
			longest := func(during func()) time.Duration {
				stop, worst := make(chan struct{}), make(chan time.Duration)
				go func() {
					most := time.Duration(0)
					for {
						select {
						case <-stop:
							worst <- most
							return
						default:
						}
						begin := time.Now()
						if err := other.Ping(b.Context()).Err(); err != nil {
							b.Error(err)
						}
						most = max(most, time.Since(begin))
					}
				}()
				during()
				close(stop)
				return <-worst
			}
			from, to := s.a, s.b
			var server, took, waited, idle float64
			n := 0
			b.ResetTimer()
			for b.Loop() {
				n++
				b.StopTimer()
				c := commitOf(s.boarded(s.read("room"), from, to), to)
				p.do("CONFIG", "RESETSTAT")
				b.StartTimer()
				begin := time.Now()
				waited += longest(func() { s.applied(s.CommitMove(b.Context(), c)) }).Seconds()
				took += time.Since(begin).Seconds()
				b.StopTimer()
				server += scriptMicros(p)
				idle += longest(func() { _ = other.Echo(b.Context(), "") }).Seconds()
				from, to = to, from
				b.StartTimer()
			}
			b.ReportMetric(server/float64(n), "server-µs")
			b.ReportMetric(took*1e6/float64(n), "µs/commit")
			b.ReportMetric(waited*1e6/float64(n), "µs-ping-max")
			b.ReportMetric(idle*1e6/float64(n), "µs-ping-idle")
		})
	}
}
