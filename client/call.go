package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/codec"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/session"
)

// Send sends a one-way message with codec Raw. It returns when the out queue
// took the message, which it may wait for up to Options.SendTimeout; whether it
// arrives is not known. Errors are *Error.
func (c *Client) Send(ctx context.Context, name string, payload []byte) error {
	return c.SendCall(ctx, Call{Name: name, Payload: payload})
}

// SendJSON is SendAs with JSON.
func (c *Client) SendJSON(ctx context.Context, name string, v any) error {
	return c.SendAs(ctx, session.CodecJSON, name, v)
}

// SendAs is Send with v encoded. In JSON integers of 64 bits are decimal strings and
// []byte is base64; Protobuf needs a proto.Message, Raw a []byte.
func (c *Client) SendAs(ctx context.Context, as session.Codec, name string, v any) error {
	payload, err := codec.Encode(uint8(as), v)
	if err != nil {
		return fail("send", name, fmt.Errorf("%T is not encoded as %v: %w", v, as, err))
	}
	return c.SendCall(ctx, Call{Name: name, Codec: as, Payload: payload})
}

// SendCall is Send with every part of the packet.
func (c *Client) SendCall(ctx context.Context, call Call) error {
	l, err := c.current(call.Name)
	if err == nil {
		p := packet(session.KindSend, &call)
		err = c.put(ctx, l, &p, c.opts.SendTimeout)
	}
	if err != nil {
		return fail("send", call.Name, err)
	}
	return nil
}

// Request sends a request with codec Raw and waits for its reply, which belongs
// to the caller. Errors are a *RemoteError if the server answered with one, else
// an *Error; see the package comment for what ends a request. It must not be
// called from a callback.
func (c *Client) Request(ctx context.Context, name string, payload []byte) (*Message, error) {
	return c.RequestCall(ctx, Call{Name: name, Payload: payload})
}

// RequestJSON is RequestAs with JSON.
func (c *Client) RequestJSON(ctx context.Context, name string, in, out any) error {
	return c.RequestAs(ctx, session.CodecJSON, name, in, out)
}

// RequestAs is Request with in encoded, and the reply decoded into out by the codec
// that it has. A nil out ignores the reply's payload. See SendAs.
func (c *Client) RequestAs(ctx context.Context, as session.Codec, name string, in, out any) error {
	payload, err := codec.Encode(uint8(as), in)
	if err != nil {
		return fail("request", name, fmt.Errorf("%T is not encoded as %v: %w", in, as, err))
	}
	m, err := c.RequestCall(ctx, Call{Name: name, Codec: as, Payload: payload})
	if err != nil || out == nil {
		return err
	}
	if err := codec.Decode(uint8(m.Codec), m.Payload, out); err != nil {
		return fail("request", name, fmt.Errorf("the reply, which is %v, does not fit %T: %w", m.Codec, out, err))
	}
	return nil
}

// RequestCall is Request with every part of the packet.
func (c *Client) RequestCall(ctx context.Context, call Call) (*Message, error) {
	r, _ := c.waiters.Get().(*request)
	if r == nil {
		r = &request{outcome: make(chan outcome, 1)}
	}
	// The request is out of its table and its channel is empty when await
	// returns, so nobody else holds it.
	defer c.waiters.Put(r)
	l, err := c.current(call.Name)
	if err == nil {
		err = c.start(ctx, l, r, &call, c.opts.SendTimeout)
	}
	if err != nil {
		return nil, fail("request", call.Name, err)
	}
	return c.await(ctx, l, r)
}

// await waits for the outcome of r or the end of ctx, whichever takes r out of
// its table first.
func (c *Client) await(ctx context.Context, l *link, r *request) (*Message, error) {
	select {
	case o := <-r.outcome:
		return o.message, o.err
	case <-ctx.Done():
	}
	if l.requests.take(r.seq) != nil {
		return nil, fail("request", r.name, ctx.Err())
	}
	o := <-r.outcome
	return o.message, o.err
}

// RequestFunc sends a request and returns at once; done is called exactly once
// with the reply, valid until done returns, or with the error that Request would
// have returned. It runs like the other callbacks. A full out queue is an error,
// not waited for; if RequestFunc returns an error done is not called. This is the
// way to request from a callback, and without a goroutine per request.
func (c *Client) RequestFunc(call Call, done func(m *Message, err error)) error {
	l, err := c.current(call.Name)
	if err == nil {
		err = c.start(context.Background(), l, &request{done: done}, &call, 0)
	}
	if err != nil {
		return fail("request", call.Name, err)
	}
	return nil
}

// current returns the connection to use for a packet of that name. It may have
// ended, and then refuses the packet itself.
func (c *Client) current(name string) (*link, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	if strings.HasPrefix(name, session.ReservedPrefix) {
		return nil, errReservedName
	}
	return c.link.Load(), nil
}

// start registers r and sends its packet. On an error r is in no table and never
// completed.
func (c *Client) start(ctx context.Context, l *link, r *request, call *Call, wait time.Duration) error {
	timeout := call.Timeout
	if timeout <= 0 {
		timeout = c.opts.RequestTimeout
	}
	r.name, r.deadline = call.Name, clock.Now().Add(timeout)
	if err := l.requests.add(r); err != nil {
		return err
	}
	seq, deadline := r.seq, r.deadline
	p := packet(session.KindRequest, call)
	p.Seq = seq
	if err := c.put(ctx, l, &p, wait); err != nil && l.requests.take(seq) != nil {
		return err
	}
	// If the packet was refused and r is gone, the connection ended in between
	// and took r with it: its outcome comes like any other.
	l.alarm.ring(deadline)
	return nil
}

// put hands a packet to the connection's writer.
func (c *Client) put(ctx context.Context, l *link, p *session.Packet, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if least := c.opts.CompressMin; least > 0 && len(p.Payload) >= least {
		room := buf.Get(len(p.Payload))
		defer room.Free()
		if small, pays := session.CompressPayload(room.Bytes(), p.Payload); pays {
			p.Payload, p.Compressed = small, true
		}
	}
	if err := l.out.push(ctx, p, wait); err != nil {
		return err
	}
	c.counts.framesOut.Add(1)
	return nil
}

// complete ends a request that the caller took out of its table, with m, a view
// that the reader will use again, or with err.
func (c *Client) complete(r *request, m *Message, err error) {
	if r.done == nil {
		if m != nil {
			m = m.Clone()
		}
		r.outcome <- outcome{message: m, err: err}
		return
	}
	c.calling.Store(true)
	r.done(m, err)
	c.calling.Store(false)
}

// origin returns where the call's flow began.
func origin(call *Call) uint8 {
	if call.Flow == nil {
		return 0
	}
	return uint8(flow.OfClient)
}

// NewFlow returns a new id for Call.Flow.
func NewFlow() []byte {
	return flow.New(time.Now().UnixMilli(), rand.Uint64(), rand.Uint64()).AppendText(nil)
}

// packet returns the packet of a call, without a sequence.
func packet(kind session.Kind, call *Call) session.Packet {
	return session.Packet{
		Kind:        kind,
		Codec:       call.Codec,
		Name:        []byte(call.Name),
		Meta:        call.Metadata,
		Correlation: call.Correlation,
		Flow:        call.Flow,
		Origin:      origin(call),
		Payload:     call.Payload,
	}
}
