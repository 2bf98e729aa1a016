package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

func TestARequestGetsItsReply(t *testing.T) {
	c := newServer(t, echo).dial(t, client.Options{})
	meta, err := session.NewMetadata(map[string]string{"trace": "abc"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.RequestCall(t.Context(), client.Call{
		Name: "echo", Codec: session.CodecProtobuf, Metadata: meta, Correlation: []byte("c-1"), Payload: []byte("first"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := c.Request(t.Context(), "echo", fmt.Append(nil, "later ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if first.Codec != session.CodecProtobuf || string(first.Payload) != "first" || string(first.Correlation) != "c-1" {
		t.Errorf("first reply is %+v after later ones", first)
	}
}

func TestAnEmptyReplyIsAReply(t *testing.T) {
	c := newServer(t, echo).dial(t, client.Options{})
	m, err := c.Request(t.Context(), "echo", nil)
	if err != nil || len(m.Payload) != 0 {
		t.Errorf("reply %+v, %v", m, err)
	}
}

func TestAnErrorFrameBecomesARemoteError(t *testing.T) {
	c := newServer(t, echo).dial(t, client.Options{})
	_, err := c.Request(t.Context(), "fail", nil)
	if !errors.Is(err, client.Rejected) || errors.Is(err, client.NotFound) {
		t.Errorf("errors.Is does not tell the kind of %v", err)
	}
	remote, ok := errors.AsType[*client.RemoteError](err)
	if !ok || remote.Kind != client.Rejected || remote.Name != "fail" || remote.Message != "not today" {
		t.Errorf("error %v, want the server's", err)
	}
	if want := `client: request "fail": the server answered rejected: not today`; err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
	checkKind(t, err, client.Rejected, nil)
}

func TestAReplyThatDoesNotFitNamesItsRequest(t *testing.T) {
	c := newServer(t, echo).dial(t, client.Options{})
	var out int
	err := c.RequestJSON(t.Context(), "echo", "no number", &out)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Op != "request" || e.Name != "echo" {
		t.Errorf("error %v", err)
	}
}

func TestJSONGoesBothWays(t *testing.T) {
	type move struct {
		ID   int64 `json:"id"`
		Data []byte
	}
	c := newServer(t, echo).dial(t, client.Options{})
	in, out := move{ID: 1<<53 + 1, Data: []byte{0, 255}}, move{}
	if err := c.RequestJSON(t.Context(), "echo", in, &out); err != nil {
		t.Fatal(err)
	}
	if out.ID != in.ID || string(out.Data) != string(in.Data) {
		t.Errorf("got %+v, want %+v", out, in)
	}
	out = move{}
	if err := c.RequestAs(t.Context(), session.CodecMessagePack, "echo", in, &out); err != nil || out.ID != in.ID {
		t.Errorf("MessagePack: got %+v, %v", out, err)
	}
	if err := c.RequestJSON(t.Context(), "echo", in, nil); err != nil {
		t.Errorf("a reply that is ignored: %v", err)
	}
	if err := c.RequestJSON(t.Context(), "echo", in, new(int)); err == nil || !strings.Contains(err.Error(), "*int") {
		t.Errorf("a reply that does not fit: %v", err)
	}
	if err := c.RequestJSON(t.Context(), "echo", func() {}, nil); err == nil {
		t.Error("a function was encoded as JSON")
	}
	m, err := c.Request(t.Context(), "echo", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.JSON(&out); err == nil || !strings.Contains(err.Error(), "Raw") {
		t.Errorf("JSON of a raw payload: %v", err)
	}
}

func TestAPayloadIsCompressedWhereThatPays(t *testing.T) {
	got := make(chan session.Packet, 1)
	c := newServer(t, func(p *peer) {
		for {
			packet, err := p.read()
			if err != nil {
				return
			}
			if packet.Kind == session.KindRequest {
				_ = p.write(replyTo(&packet, nil))
			}
			if packet.Kind != session.KindControl {
				got <- packet
			}
		}
	}).dial(t, client.Options{CompressMin: 100})
	alike := strings.Repeat("position 12, 17; ", 100)
	for _, k := range []struct {
		payload string
		small   bool
	}{{alike, true}, {alike[:99], false}, {"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-*/=<>!?.,;:#~^(){}[]|&%$@\"_\\'`äöüß", false}} {
		if err := c.Send(t.Context(), "n", []byte(k.payload)); err != nil {
			t.Fatal(err)
		}
		sent := <-got
		if _, err := c.Request(t.Context(), "n", []byte(k.payload)); err != nil {
			t.Fatal(err)
		}
		for _, p := range []session.Packet{sent, <-got} {
			plain, err := session.DecodePayload(&p, 0)
			if err != nil || string(plain) != k.payload || p.Compressed != k.small {
				t.Errorf("%d bytes came as %d, compressed %v, %v", len(k.payload), len(plain), p.Compressed, err)
			}
		}
	}
}

func TestACompressedReplyIsInflated(t *testing.T) {
	c := newServer(t, func(p *peer) {
		req, err := p.read()
		if err != nil {
			return
		}
		reply := session.ResponseTo(&req)
		// One literal and a match of 99: a hundred times the letter a.
		reply.Compressed, reply.Payload = true, []byte("\x40\x59\x1f\x61\x01\x00\x4b\x50\x61\x61\x61\x61\x61")
		_ = p.write(encode(&reply))
		silent(p)
	}).dial(t, client.Options{})
	m, err := c.Request(t.Context(), "zipped", nil)
	if err != nil || string(m.Payload) != strings.Repeat("a", 100) {
		t.Errorf("reply %+v, %v", m, err)
	}
}

// Ten thousand requests at once, each with its own payload, over few clients:
// every caller gets its own reply and nothing else.
//
// req: FO-03
func TestTenThousandConcurrentRequestsEachGetTheirOwnReply(t *testing.T) {
	s := newServer(t, echo)
	clients := make([]*client.Client, 4)
	for i := range clients {
		clients[i] = s.dial(t, client.Options{MaxPending: 10_000})
	}
	var wg sync.WaitGroup
	for i := range 10_000 {
		wg.Go(func() {
			want := fmt.Sprint("nonce ", i)
			m, err := clients[i%len(clients)].Request(t.Context(), "echo", []byte(want))
			if err != nil || string(m.Payload) != want {
				t.Errorf("request %d: %+v, %v", i, m, err)
			}
		})
	}
	wg.Wait()
	for _, c := range clients {
		if s := c.Stats(); s.LateReplies != 0 || s.FramesOut != 2500 {
			t.Errorf("counts %+v", s)
		}
	}
}

// req: FO-03
func TestARequestTimesOutAndItsLateReplyIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPipe().dial(t, client.Options{HeartbeatInterval: -1, SilenceTimeout: -1})
		defer closeAndWait(c)
		defer p.conn.Close()
		began := time.Now()
		long := request(c, t.Context(), client.Call{Name: "default"})
		slow := p.mustRead(t)
		short := request(c, t.Context(), client.Call{Name: "short", Timeout: 50 * time.Millisecond})
		late := p.mustRead(t)

		checkKind(t, (<-short).err, client.DeadlineExceeded, client.ErrRequestTimeout)
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("the short request ended after %v", took)
		}
		p.mustWrite(t, replyTo(&late, []byte("too late")))
		p.mustWrite(t, replyTo(&slow, []byte("in time")))
		if o := <-long; o.err != nil || string(o.message.Payload) != "in time" {
			t.Errorf("the other request: %+v", o)
		}
		p.mustWrite(t, replyTo(&slow, []byte("twice")))
		synctest.Wait()
		if n := c.Stats().LateReplies; n != 2 {
			t.Errorf("%d late replies counted, want the late one and the second", n)
		}

		began = time.Now()
		long = request(c, t.Context(), client.Call{Name: "default"})
		p.mustRead(t)
		checkKind(t, (<-long).err, client.DeadlineExceeded, client.ErrRequestTimeout)
		if took := time.Since(began); took != client.DefaultRequestTimeout {
			t.Errorf("without a timeout of its own a request ended after %v", took)
		}
	})
}

// req: FO-03
func TestTheCallersContextEndsARequestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPipe().dial(t, client.Options{HeartbeatInterval: -1, SilenceTimeout: -1})
		defer closeAndWait(c)
		defer p.conn.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := request(c, ctx, client.Call{Name: "a"})
		req := p.mustRead(t)
		cancel()
		checkKind(t, (<-cancelled).err, client.DeadlineExceeded, context.Canceled)
		p.mustWrite(t, replyTo(&req, nil))
		synctest.Wait()
		if n := c.Stats().LateReplies; n != 1 {
			t.Errorf("%d late replies counted", n)
		}

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		expired := request(c, ctx, client.Call{Name: "b"})
		p.mustRead(t)
		checkKind(t, (<-expired).err, client.DeadlineExceeded, context.DeadlineExceeded)

		if _, err := c.Request(ctx, "c", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request with an ended context: %v", err)
		}
		if err := c.Send(ctx, "c", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a send with an ended context: %v", err)
		}
		if n := c.Stats().FramesOut; n != 2 {
			t.Errorf("%d frames were sent, want 2", n)
		}
	})
}

func TestRequestsOverTheBoundAreRefusedAtOnce(t *testing.T) {
	s := newServer(t, func(p *peer) {
		var held []session.Packet
		for {
			req, err := p.read()
			if err != nil {
				return
			}
			if req.Kind == session.KindRequest {
				held = append(held, req)
				continue
			}
			for i := range held {
				if p.write(replyTo(&held[i], nil)) != nil {
					return
				}
			}
		}
	})
	c := s.dial(t, client.Options{MaxPending: 3})
	results := make(chan error, 3)
	for range 3 {
		if err := c.RequestFunc(client.Call{Name: "hold"}, func(_ *client.Message, err error) { results <- err }); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Request(t.Context(), "hold", nil)
	checkKind(t, err, client.CapacityExceeded, client.ErrTooManyPending)
	checkKind(t, c.RequestFunc(client.Call{Name: "hold"}, nil), client.CapacityExceeded, client.ErrTooManyPending)

	if err := c.Send(t.Context(), "release", nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := c.RequestFunc(client.Call{Name: "hold"}, func(*client.Message, error) {}); err != nil {
		t.Errorf("a request after three ended: %v", err)
	}
}

func TestARequestByFunctionEndsOnceWhateverEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPipe().dial(t, client.Options{HeartbeatInterval: -1, SilenceTimeout: -1})
		defer closeAndWait(c)
		ended := make(map[string][]string)
		start := func(name string, timeout time.Duration) session.Packet {
			call := client.Call{Name: name, Timeout: timeout}
			if err := c.RequestFunc(call, func(m *client.Message, err error) {
				text := "reply"
				if err != nil {
					text = err.Error()
				}
				ended[name] = append(ended[name], text)
			}); err != nil {
				t.Fatal(err)
			}
			return p.mustRead(t)
		}
		replied := start("replied", 0)
		start("timed out", time.Second)
		start("lost", 0)
		p.mustWrite(t, replyTo(&replied, nil), replyTo(&replied, nil))
		synctest.Wait()
		<-time.After(time.Second)
		synctest.Wait()
		p.conn.Close()
		<-c.Done()
		for name, want := range map[string]string{"replied": "reply", "timed out": "no reply in time", "lost": "not connected"} {
			if len(ended[name]) != 1 || !strings.Contains(ended[name][0], want) {
				t.Errorf("%s ended with %q, want one %q", name, ended[name], want)
			}
		}
	})
}

func TestPacketsThatCannotBeSentAreRefusedAlone(t *testing.T) {
	c := newServer(t, echo).dial(t, client.Options{OutQueueBytes: 1 << 10})
	for name, call := range map[string]client.Call{
		"no name":       {},
		"long name":     {Name: strings.Repeat("n", 256)},
		"not UTF-8":     {Name: "\xff"},
		"reserved name": {Name: "$zlink.heartbeat.ping"},
		"metadata":      {Name: "x", Metadata: session.Metadata{1}},
		"codec":         {Name: "x", Codec: 9},
	} {
		if err := c.SendCall(t.Context(), call); err == nil {
			t.Errorf("%s: sent", name)
		} else {
			checkKind(t, err, client.InvalidOperation, nil)
		}
		if _, err := c.RequestCall(t.Context(), call); err == nil {
			t.Errorf("%s: requested", name)
		}
	}
	err := c.Send(t.Context(), "large", make([]byte, 1<<10))
	checkKind(t, err, client.CapacityExceeded, client.ErrFrameTooLarge)
	if _, err := c.Request(t.Context(), "echo", nil); err != nil {
		t.Errorf("a good request after refused ones: %v", err)
	}
}
