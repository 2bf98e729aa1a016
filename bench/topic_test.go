package bench

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode"
)

// subscribers is how many share a topic in BenchmarkPublish.
const subscribers = 1000

// BenchmarkPublish is one message to a topic with 1,000 subscribers, at the publisher's node,
// at another one and spread over four others, until the last of them has read it.
func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{64, 1024} {
		for _, servers := range []int{0, 1, 4} {
			b.Run(fmt.Sprintf("%dB/others=%d", size, servers), func(b *testing.B) {
				node, nodes := startNodes(b, servers)
				if servers == 0 {
					nodes = []*zlnode.Node{node}
				}
				var read atomic.Int64
				all := make(chan struct{}, 1)
				for i := range subscribers {
					_, err := nodes[i%len(nodes)].Topic("world").SubscribeRaw("event", func(*zlnode.TopicCall, []byte) error {
						if read.Add(1)%subscribers == 0 {
							all <- struct{}{}
						}
						return nil
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				topic, payload := node.Topic("world"), make([]byte, size)
				for known := false; !known; {
					p, err := topic.PublishRaw(b.Context(), "probe", nil)
					if err != nil {
						b.Fatal(err)
					}
					known = p.Nodes == servers
				}
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if p, err := topic.PublishRaw(b.Context(), "event", payload); p.Missed != 0 || err != nil {
						b.Fatal(p, err)
					}
					<-all
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/subscribers, "ns/copy")
			})
		}
	}
}
