package node

import (
	"context"
	"net"
	"testing"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
)

// ask sends a request to the channel, or to the node itself, by a connection of dialAs.
func ask(t *testing.T, conn net.Conn, channel string, corr uint64) {
	t.Helper()
	m := wire.NodeMessage{Channel: []byte(channel), Op: corr, Correlation: corr, Name: []byte("wait"), DeadlineMS: 60_000}
	if _, err := conn.Write(m.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
}

type answered struct {
	corr uint64
	kind errkind.Kind // 0 of a reply
}

// answers are those that come by the connection, up to its end.
func answers(t *testing.T, conn net.Conn) <-chan answered {
	all, over := make(chan answered, 10), make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-over
	})
	go func() {
		defer close(over)
		for {
			record, err := readRecord(conn)
			if err != nil {
				return
			}
			switch r, _ := wire.Decode(record); r := r.(type) {
			case *wire.Reply:
				all <- answered{r.Correlation, 0}
			case *wire.ErrorReply:
				all <- answered{r.Correlation, errkind.Kind(r.Kind)}
			}
		}
	}()
	return all
}

// A peer that goes on to send to a channel that a node has left, because it stops, does not keep
// it from that.
func TestWhoSendsToAChannelOnAndOnKeepsNoNodeFromItsEnd(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	wait := func(*NodeCall, []byte) (Reply, error) {
		begun <- struct{}{}
		<-goOn
		return Reply{}, nil
	}
	n := loneServer(t, func(c *Config, app *App) {
		c.Channels = []Channel{{Name: "c", Weight: 1}}
		app.OnNodeRequest(app.AddChannel("c", ServiceOptions{Concurrency: 1}), "wait", wait)
	})
	conn, _ := dialAs(t, n)
	ask(t, conn, "c", 1)
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- n.Shutdown(context.WithoutCancel(t.Context())) }()
	until(t, "the node's word", n.stopping.Load)
	all := answers(t, conn)
	for last := uint64(2); ; last++ {
		ask(t, conn, "c", last)
		until(t, "the end of its way", func() bool { return n.services.busy() == 2 || len(all) > 0 })
		if len(all) > 0 {
			if a := <-all; a != (answered{last, errkind.Unavailable}) {
				t.Errorf("request %d of %d ended with %v", a.corr, last, a.kind)
			}
			break
		}
		goOn <- struct{}{} // there is one more
		if a := await(t, "an answer", all); a != (answered{last - 1, 0}) {
			t.Fatalf("request %d ended with %v", a.corr, a.kind)
		}
		<-begun
	}
	goOn <- struct{}{}
	if err := await(t, "its end", stopped); err != nil {
		t.Error(err)
	}
}

// What still waits when a node has no more time is refused: to others it is a node that is not
// ready, to its own callers one that shuts down.
// req: FO-06
func TestWhatWaitsForANodeThatHasStoppedIsRefused(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	n := loneServer(t, func(_ *Config, app *App) {
		app.SetServiceOptions(app.Node, ServiceOptions{Concurrency: 1})
		app.OnNodeRequest(app.Node, "wait", func(*NodeCall, []byte) (Reply, error) {
			begun <- struct{}{}
			<-goOn
			return Reply{}, nil
		})
	})
	conn, _ := dialAs(t, n)
	ask(t, conn, "", 1)
	<-begun
	ask(t, conn, "", 2)
	own := make(chan error, 1)
	go func() {
		to := n.PeerTarget("a")
		_, err := n.Request(t.Context(), &to, &Outgoing{Name: "wait"})
		own <- err
	}()
	until(t, "all that waits", func() bool { return n.services.busy() == 3 })
	all := answers(t, conn)
	n.services.each((*service).close) // as a shutdown does whose time is over
	if a := await(t, "the peer's one's end", all); a != (answered{2, errkind.Unavailable}) {
		t.Errorf("request %d ended with %v", a.corr, a.kind)
	}
	if err := await(t, "the own one's end", own); KindOf(err) != errkind.ShuttingDown {
		t.Errorf("the own one: %v", err)
	}
	ask(t, conn, "", 3)
	if a := await(t, "what comes later", all); a != (answered{3, errkind.Unavailable}) {
		t.Errorf("request %d ended with %v", a.corr, a.kind)
	}
	close(goOn)
}
