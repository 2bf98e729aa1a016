package main

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"syscall"
	"time"
)

var began = time.Now()

// now is the time since this process began. It is never 0.
func now() int64 { return int64(time.Since(began)) | 1 }

// stamped is a new payload that carries the time.
func stamped() []byte {
	b := make([]byte, len(sharedPayload))
	binary.LittleEndian.PutUint64(b, uint64(now()))
	return b
}

// stampOf returns a payload's time, or 0 if it has none.
func stampOf(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }

// latencies counts times by size, in steps of 3 %. Safe for concurrent use.
type latencies struct {
	on    atomic.Bool
	slots [60 * 32]atomic.Int64
}

var took latencies

// add counts one time if the measurement runs.
func (l *latencies) add(ns int64) {
	if !l.on.Load() {
		return
	}
	e := max(bits.Len64(uint64(ns))-6, 0)
	l.slots[e*32+int(ns>>e)].Add(1)
}

// quantile returns, in µs, the time that a share q of all did not exceed.
func (l *latencies) quantile(q float64) float64 {
	var sum, seen int64
	for i := range l.slots {
		sum += l.slots[i].Load()
	}
	for i := range l.slots {
		if seen += l.slots[i].Load(); seen > 0 && float64(seen) >= q*float64(sum) {
			e := max(i/32-1, 0)
			return float64(int64(i-e*32)<<e) / 1e3
		}
	}
	return 0
}

// measure prints what happened per second while -seconds passed. count is what was
// done so far, used what it took, in all processes that take part.
func measure(p Peer, count func() int64, used func() usage) {
	time.Sleep(time.Duration(min(*fSeconds/4, 0.5) * float64(time.Second)))
	endProfile := beginProfile("")
	u, c := used(), count()
	took.on.Store(true)
	start := time.Now()
	time.Sleep(time.Duration(*fSeconds * float64(time.Second)))
	c, seconds := count()-c, time.Since(start).Seconds()
	took.on.Store(false)
	u = used().less(u)
	endProfile()
	n := float64(max(c, 1))
	fmt.Printf("RESULT %s %s %d ops/s=%.0f p50us=%.1f p99us=%.1f allocs/op=%.2f cpuns/op=%.0f\n",
		p.Name, *fMode, rowSize(), float64(c)/seconds, took.quantile(0.5), took.quantile(0.99), float64(u.mallocs)/n, float64(u.cpu)/n)
}

// beginProfile begins the CPU profile that the flags ask for.
func beginProfile(suffix string) (end func()) {
	if *fProfile == "" {
		return func() {}
	}
	f, err := os.Create(*fProfile + suffix)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		panic(err)
	}
	return func() { pprof.StopCPUProfile(); _ = f.Close() }
}

// usage is what processes have used so far: allocations, and ns of processors.
type usage struct{ mallocs, cpu int64 }

func (u usage) plus(v usage) usage { return usage{u.mallocs + v.mallocs, u.cpu + v.cpu} }
func (u usage) less(v usage) usage { return usage{u.mallocs - v.mallocs, u.cpu - v.cpu} }

// here is the usage of this process.
func here() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return usage{int64(m.Mallocs), r.Utime.Nano() + r.Stime.Nano()}
}

func measureSpawn(p Peer) {
	if p.Spawn == nil {
		skip(p)
		return
	}
	end(p.Spawn(1)) // what is there once
	endProfile := beginProfile("")
	before, u, start := heap(), here(), time.Now()
	stop := p.Spawn(*fN)
	seconds, n := time.Since(start).Seconds(), float64(*fN)
	u = here().less(u)
	endProfile()
	fmt.Printf("RESULT %s spawn %d ops/s=%.0f allocs/op=%.2f cpuns/op=%.0f bytes/actor=%.0f\n",
		p.Name, rowSize(), n/seconds, float64(u.mallocs)/n, float64(u.cpu)/n, float64(heap()-before)/n)
	end(stop)
}

// heap is what lives, stacks of goroutines included.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the first one moves pools to their victims
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
