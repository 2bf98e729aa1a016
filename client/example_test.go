package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

// greeter is a server for the examples: it pushes a greeting and answers one
// request after the other.
func greeter() (addr string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		p := newPeer(conn)
		_ = p.write(push("welcome", "you are in room 7"))
		for {
			req, err := p.read()
			if err != nil {
				return
			}
			switch string(req.Name) {
			case "greet":
				_ = p.write(replyTo(&req, append([]byte("hello "), req.Payload...)))
			case session.ClosingName:
			default:
				_ = p.write(errorTo(&req, errkind.NotFound, "no such request"))
			}
		}
	}()
	return listener.Addr().String(), func() { _ = listener.Close(); <-done }
}

func Example() {
	addr, stop := greeter()
	defer stop()
	ctx := context.Background()

	pushed := make(chan string, 1)
	c, err := client.Dial(ctx, client.Options{
		Addr:   addr,
		OnPush: func(m *client.Message) { pushed <- m.Name + ": " + string(m.Payload) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(<-pushed)

	reply, err := c.Request(ctx, "greet", []byte("Ada"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(reply.Payload))

	_, err = c.Request(ctx, "fly", nil)
	if remote, ok := errors.AsType[*client.RemoteError](err); ok {
		fmt.Println(remote.Kind, "-", remote.Message)
	}
	// Output:
	// welcome: you are in room 7
	// hello Ada
	// NotFound - no such request
}
