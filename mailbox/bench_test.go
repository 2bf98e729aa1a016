package mailbox

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

type message struct {
	from, seq uint64
	payload   *byte
}

// counter is a consumer that opens a window for its producers.
type counter struct {
	n    atomic.Int64
	done func()
	want int64
	got  int64
}

func (k *counter) Begin(*Claim[message]) {}
func (k *counter) Consume(c *Claim[message], v message) {
	k.got++
	if k.got&255 == 0 || k.got == k.want {
		k.n.Store(k.got)
		if k.got == k.want {
			k.done()
		}
	}
}

func BenchmarkPushConsume(b *testing.B) {
	for _, bc := range []struct {
		name             string
		producers, boxes int
	}{{"producers=1/mailboxes=1", 1, 1}, {"producers=4/mailboxes=1", 4, 1}, {"producers=4/mailboxes=1000", 4, 1000}} {
		b.Run(bc.name, func(b *testing.B) {
			p := NewPool(Config{})
			defer p.Close(context.Background())
			var wg sync.WaitGroup
			wg.Add(bc.boxes)
			each := (b.N + bc.producers*bc.boxes - 1) / (bc.producers * bc.boxes)
			ms := make([]*Mailbox[message], bc.boxes)
			for i := range ms {
				ms[i] = New(p, Consumer[message](&counter{want: int64(each * bc.producers), done: wg.Done}), Limits{})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for pr := range bc.producers {
				go func() {
					for i := range each {
						for _, m := range ms {
							for m.Push(message{from: uint64(pr), seq: uint64(i)}, 64) != nil {
								runtime.Gosched()
							}
						}
					}
				}()
			}
			wg.Wait()
			b.ReportMetric(float64(each*bc.producers*bc.boxes)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
		})
	}
}

type ponger struct {
	to   *Mailbox[message]
	done chan struct{}
}

func (k *ponger) Begin(*Claim[message]) {}
func (k *ponger) Consume(c *Claim[message], v message) {
	if v.seq == 0 {
		close(k.done)
		return
	}
	v.seq--
	k.to.Push(v, 64)
}

func BenchmarkPingPong(b *testing.B) {
	p := NewPool(Config{})
	defer p.Close(context.Background())
	a, z := &ponger{done: make(chan struct{})}, &ponger{}
	z.done = a.done
	ma, mz := New(p, Consumer[message](a), Limits{}), New(p, Consumer[message](z), Limits{})
	a.to, z.to = mz, ma
	b.ReportAllocs()
	b.ResetTimer()
	ma.Push(message{seq: uint64(b.N)}, 64)
	<-a.done
}
