package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

// host answers each frame; greeter asks and prints the answer.
type (
	host    struct{}
	greeter struct{ done chan string }
)

func (host) OnOpen(*engine.Conn)                         {}
func (host) OnTimer(*engine.Conn, clock.Mono)            {}
func (host) OnClose(*engine.Conn, engine.CloseReason)    {}
func (greeter) OnTimer(*engine.Conn, clock.Mono)         {}
func (greeter) OnClose(*engine.Conn, engine.CloseReason) {}

func (host) OnFrame(c *engine.Conn, frame []byte, _ *buf.Buf) error {
	c.Admit() // whoever can frame is welcome
	return c.Send(frameOf("hello, " + string(frame[2:])))
}

func (g greeter) OnOpen(c *engine.Conn) {
	c.Admit()
	if err := c.Send(frameOf("gopher")); err != nil {
		c.Abort(engine.CloseReason{Err: err})
	}
}

func (g greeter) OnFrame(c *engine.Conn, frame []byte, _ *buf.Buf) error {
	g.done <- string(frame[2:])
	c.Close(engine.CloseReason{Text: "that was all"})
	return nil
}

func frameOf(body string) *buf.Buf {
	b := buf.Get(2 + len(body))
	binary.BigEndian.PutUint16(b.Bytes(), uint16(len(body)))
	copy(b.Bytes()[2:], body)
	return b
}

// frameSize reads a length of two bytes; 64 KiB is all that it can claim.
func frameSize(b []byte, _ bool) (int, error) {
	if len(b) < 2 {
		return 0, nil
	}
	return 2 + int(binary.BigEndian.Uint16(b)), nil
}

func Example() {
	ctx := context.Background()
	e, err := engine.New(engine.Config{Loops: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := e.Listen(engine.Listen{
		Addr:     "127.0.0.1:0",
		Protocol: &engine.Protocol{Name: "host", FrameSize: frameSize, Handler: host{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := greeter{done: make(chan string, 1)}
	p := &engine.Protocol{Name: "greeter", FrameSize: frameSize, Handler: g}
	if _, err := e.Dial(ctx, l.Addr().String(), p); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-g.done)
	if err := e.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: hello, gopher
}
