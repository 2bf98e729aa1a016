package main

import (
	"time"

	"github.com/zlnode/zlnode"
)

// subscribe starts a node with the subscribers, each of which has a queue of its own.
func subscribe(addr string, subscribers int, got func()) {
	n := start(sinks(), storeURL(addr))
	for range subscribers {
		_, err := n.Topic("world").SubscribeRaw("event", func(*zlnode.TopicCall, []byte) error {
			got()
			return nil
		})
		check(err)
	}
}

// publisher starts a node, and asks until the others have told it that they subscribe.
func publisher(addr string, nodes int) (func([]byte), func()) {
	n := start(sinks(), storeURL(addr))
	check(n.WaitPeers(ctx, nodes))
	topic := n.Topic("world")
	publish := func(packet string, payload []byte) zlnode.Published {
		p, err := topic.PublishRaw(ctx, packet, payload)
		check(err)
		return p
	}
	for publish("probe", nil).Nodes < nodes { // no subscriber takes it
		time.Sleep(time.Millisecond)
	}
	return func(payload []byte) { publish("event", payload) }, func() { check(n.Shutdown(ctx)) }
}
