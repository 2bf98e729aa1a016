package mailbox

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// burst is how many messages an iteration of BenchmarkPushConsume moves.
const burst = 1 << 14

// tally is a consumer that counts; the last message of a burst tells done.
type tally struct {
	n    int
	each int // messages of a burst that come to this mailbox
	left *atomic.Int64
	done chan<- struct{}
	_    [64]byte
}

func (k *tally) Begin(*Claim[letter]) {}

func (k *tally) Consume(*Claim[letter], *letter) {
	if k.n++; k.n == k.each {
		if k.n = 0; k.left.Add(-1) == 0 {
			k.done <- struct{}{}
		}
	}
}

// One iteration is a burst: all producers push, all mailboxes have consumed. The
// figures that count are those per message.
func BenchmarkPushConsume(b *testing.B) {
	for _, bc := range []struct{ producers, mailboxes int }{{1, 1}, {4, 1}, {4, 1000}} {
		b.Run(fmt.Sprintf("producers=%d/mailboxes=%d", bc.producers, bc.mailboxes), func(b *testing.B) {
			p := startPool(b, Config{})
			each := max(1, burst/bc.producers/bc.mailboxes) // messages from one producer to one mailbox
			done := make(chan struct{})
			var left atomic.Int64
			ms := make([]*Mailbox[letter], bc.mailboxes)
			for i := range ms {
				ms[i] = New(p, &tally{each: each * bc.producers, left: &left, done: done}, Limits{Messages: 2 * burst, Bytes: 1 << 30})
			}
			payload := make([]byte, 64)
			start := make(chan struct{})
			var producers sync.WaitGroup
			for from := range bc.producers {
				producers.Go(func() {
					for range start {
						for seq := range each {
							for _, m := range ms {
								if err := m.Push(letter{uint64(from), uint64(seq), payload}, len(payload)); err != nil {
									b.Error(err)
								}
							}
						}
					}
				})
			}
			b.ReportAllocs()
			messages := 0
			for b.Loop() {
				left.Store(int64(bc.mailboxes))
				for range bc.producers {
					start <- struct{}{}
				}
				<-done
				messages += each * bc.producers * bc.mailboxes
			}
			close(start)
			producers.Wait()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(messages), "ns/msg")
			b.ReportMetric(float64(messages)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// ponger answers each message with one to its peer, until it has been answered
// often enough.
type ponger struct {
	peer *Mailbox[letter]
	done chan<- struct{}
}

func (k *ponger) Begin(*Claim[letter]) {}

func (k *ponger) Consume(_ *Claim[letter], v *letter) {
	if v.seq == 0 {
		k.done <- struct{}{}
		return
	}
	v.seq--
	if k.peer.Push(*v, 64) != nil {
		panic("one message at a time always has room")
	}
}

// One iteration is 1,000 messages to and fro between two mailboxes, each sent
// from inside a turn.
func BenchmarkPingPong(b *testing.B) {
	for _, pairs := range []int{1, 64} {
		b.Run(fmt.Sprintf("pairs=%d", pairs), func(b *testing.B) {
			const hops = 1000
			p := startPool(b, Config{})
			done := make(chan struct{}, pairs)
			var ms []*Mailbox[letter]
			for range pairs {
				x, y := &ponger{done: done}, &ponger{done: done}
				x.peer, y.peer = New(p, y, Limits{}), New(p, x, Limits{})
				ms = append(ms, x.peer)
			}
			b.ReportAllocs()
			rounds := 0
			for b.Loop() {
				for _, m := range ms {
					if err := m.Push(letter{seq: hops - 1}, 64); err != nil {
						b.Fatal(err)
					}
				}
				for range pairs {
					<-done
				}
				rounds++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*hops*pairs), "ns/hop")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// One iteration is 1,000 messages that a consumer sends to itself.
func BenchmarkSelfSend(b *testing.B) {
	const hops = 1000
	p := startPool(b, Config{})
	done := make(chan struct{})
	x := &ponger{done: done}
	x.peer = New(p, x, Limits{})
	b.ReportAllocs()
	rounds := 0
	for b.Loop() {
		if err := x.peer.Push(letter{seq: hops - 1}, 64); err != nil {
			b.Fatal(err)
		}
		<-done
		rounds++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*hops), "ns/hop")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRefusal is what a push into a full mailbox costs.
func BenchmarkRefusal(b *testing.B) {
	p := startPool(b, Config{})
	m := New(p, &tally{}, Limits{Bytes: 1})
	b.ReportAllocs()
	for b.Loop() {
		if m.Push(letter{}, 64) == nil {
			b.Fatal("admitted")
		}
	}
}

func BenchmarkIdleMailbox(b *testing.B) {
	p := startPool(b, Config{})
	var bytes float64
	for b.Loop() {
		bytes = idleBytes(p, 10_000)
	}
	b.ReportMetric(bytes, "B/mailbox")
}

// One iteration is 1,000 calls of Claim.Blocking in one turn.
func BenchmarkBlocking(b *testing.B) {
	p := startPool(b, Config{})
	done := make(chan struct{})
	m := New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
		for range v {
			c.Blocking(func() {})
		}
		done <- struct{}{}
	}}, Limits{})
	b.ReportAllocs()
	const times = 1000
	turns := 0
	for b.Loop() {
		if err := m.Push(times, 0); err != nil {
			b.Fatal(err)
		}
		<-done
		turns++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(turns*times), "ns/wait")
	b.ReportMetric(0, "ns/op")
}
