package main

import (
	"context"

	"github.com/zlnode/zlnode/mailbox"
)

type box = mailbox.Mailbox[[]byte]

// sink is a consumer: the mailbox alone, with no node around it.
type sink struct{ shard int }

func (*sink) Begin(*mailbox.Claim[[]byte]) {}

func (s *sink) Consume(_ *mailbox.Claim[[]byte], v *[]byte) {
	env.Recv(s.shard, stampOf(*v))
	*v = nil
}

// member is a sink in a room.
type member struct{ sink }

func (m *member) Consume(_ *mailbox.Claim[[]byte], v *[]byte) {
	env.RecvInRoom(m.shard, stampOf(*v))
	*v = nil
}

func local(actors int) (tellFunc, func(int, int, []byte) error, func()) {
	tell, stop := start(actors, func(p *mailbox.Pool, shard int, l mailbox.Limits) *box {
		return mailbox.New[[]byte](p, &sink{shard}, l)
	})
	return tell, nil, stop
}

// room is mailboxes with one gate for all.
func room(members int) (tellFunc, func()) {
	var g *mailbox.Group
	return start(members, func(p *mailbox.Pool, shard int, l mailbox.Limits) *box {
		if g == nil {
			g = mailbox.NewGroup(p)
		}
		return mailbox.NewIn[[]byte](g, &member{sink{shard}}, l)
	})
}

func start(actors int, newBox func(p *mailbox.Pool, shard int, l mailbox.Limits) *box) (tellFunc, func()) {
	pool := mailbox.NewPool(mailbox.Config{})
	limits := mailbox.Limits{Messages: *fWindow, Bytes: int64(*fWindow) * int64(*fSize+512)}
	boxes := make([]*box, actors)
	for i := range boxes {
		boxes[i] = newBox(pool, i, limits)
	}
	tell := func(_, a int, pl []byte) {
		for boxes[a].Push(pl, len(pl)) != nil { // the last turn has counted and not quite ended
		}
	}
	return tell, func() { _ = pool.Close(context.Background()) }
}

func spawn(n int) func() {
	pool := mailbox.NewPool(mailbox.Config{})
	boxes := make([]*box, n)
	for i := range boxes {
		boxes[i] = mailbox.New[[]byte](pool, &sink{}, mailbox.Limits{})
	}
	return func() { _ = pool.Close(context.Background()); clear(boxes) }
}

func main() {
	runMain(Peer{Name: "zlnode-mailbox", Local: local, Room: room, Spawn: spawn})
}
