package main

import (
	"context"

	"github.com/zlnode/zlnode/mailbox"
)

// sink is a consumer: the mailbox alone, with no node around it.
type sink struct{ shard int }

func (*sink) Begin(*mailbox.Claim[[]byte]) {}

func (s *sink) Consume(_ *mailbox.Claim[[]byte], v *[]byte) {
	env.Recv(s.shard, stampOf(*v))
	*v = nil
}

func local(actors int) (func(int, int, []byte), func(int, int, []byte) error, func()) {
	pool := mailbox.NewPool(mailbox.Config{})
	limits := mailbox.Limits{Messages: *fWindow, Bytes: int64(*fWindow) * int64(*fSize+512)}
	boxes := make([]*mailbox.Mailbox[[]byte], actors)
	for i := range boxes {
		boxes[i] = mailbox.New[[]byte](pool, &sink{shard: i}, limits)
	}
	tell := func(_, a int, pl []byte) {
		for boxes[a].Push(pl, len(pl)) != nil { // the last turn has counted and not quite ended
		}
	}
	return tell, nil, func() { _ = pool.Close(context.Background()) }
}

func spawn(n int) func() {
	pool := mailbox.NewPool(mailbox.Config{})
	boxes := make([]*mailbox.Mailbox[[]byte], n)
	for i := range boxes {
		boxes[i] = mailbox.New[[]byte](pool, &sink{}, mailbox.Limits{})
	}
	return func() { _ = pool.Close(context.Background()); clear(boxes) }
}

func main() { runMain(Peer{Name: "zlnode-mailbox", Local: local, Spawn: spawn}) }
