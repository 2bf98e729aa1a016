package zlnode_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

var transports = []zlnode.Transport{zlnode.TCP, zlnode.WS, zlnode.TLS, zlnode.WSS}

// certificate returns a server's certificate, which httptest brings along, and how clients
// know it.
func certificate() (server, client *tls.Config) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	client = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.ServerName, client.NextProtos = "example.com", nil
	return &tls.Config{Certificates: s.TLS.Certificates}, client
}

// certificateFiles returns files with the server's certificate.
func certificateFiles(t *testing.T, server *tls.Config) zlnode.TLSFiles {
	t.Helper()
	pair := server.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind string, der []byte) string {
		name := filepath.Join(t.TempDir(), "file.pem")
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	return zlnode.TLSFiles{CertFile: write("CERTIFICATE", pair.Certificate[0]), KeyFile: write("PRIVATE KEY", key)}
}

// carried is a client of a session port of any transport, spoken by hand.
type carried struct {
	t        *testing.T
	conn     net.Conn
	messages bool
}

// carry connects to the gateway's port of that transport.
func (s *stage) carry(t *testing.T, transport zlnode.Transport, port int, cfg *tls.Config) *carried {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	addr := s.gateway.SessionAddrs()[port].String()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if transport.Encrypted() {
		conn = tls.Client(conn, cfg)
	}
	c := &carried{t: t, conn: conn, messages: transport.Messages()}
	if c.messages {
		// Some clients offer a compression, which is declined.
		d := ws.Dialer{NetDial: func(context.Context, string, string) (net.Conn, error) { return conn, nil }, Header: ws.HandshakeHeaderHTTP{
			"Sec-WebSocket-Extensions": {"permessage-deflate"},
		}}
		_, early, hs, err := d.Dial(ctx, "ws://"+addr+"/any")
		if err != nil || early != nil || len(hs.Extensions) > 0 || hs.Protocol != "" {
			t.Fatalf("upgrade: %+v, %v", hs, err)
		}
	}
	return c
}

// write sends a frame.
func (c *carried) write(frame []byte) {
	c.t.Helper()
	if c.messages {
		frame = ws.MustCompileFrame(ws.MaskFrame(ws.NewBinaryFrame(frame)))
	}
	if _, err := c.conn.Write(frame); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next packet that is no heartbeat, or the close frame's status, or an
// error.
func (c *carried) next() (p session.Packet, status ws.StatusCode, err error) {
	c.t.Helper()
	for {
		var frame []byte
		if c.messages {
			h, err := ws.ReadHeader(c.conn)
			if err != nil {
				return p, 0, err
			}
			frame = make([]byte, min(h.Length, 2<<20))
			if _, err := io.ReadFull(c.conn, frame); err != nil {
				return p, 0, err
			}
			switch {
			case h.OpCode == ws.OpClose:
				return p, ws.StatusCode(binary.BigEndian.Uint16(frame)), nil
			case h.OpCode != ws.OpBinary || !h.Fin || h.Masked:
				c.t.Fatalf("a frame with header %+v", h)
			}
			if n, err := session.FrameSize(frame, 0); n != len(frame) {
				c.t.Fatalf("a message of %d bytes has a frame of %d, %v", len(frame), n, err)
			}
		} else {
			frame = make([]byte, 6)
			if _, err := io.ReadFull(c.conn, frame); err != nil {
				return p, 0, err
			}
			n, err := session.FrameSize(frame, 0)
			if err != nil {
				c.t.Fatal(err)
			}
			frame = append(frame, make([]byte, n-6)...)
			if _, err := io.ReadFull(c.conn, frame[6:]); err != nil {
				return p, 0, err
			}
		}
		p, err := session.Decode(frame)
		if err != nil {
			c.t.Fatal(err)
		}
		if p.Kind != session.KindControl || string(p.Name) == session.ClosingName {
			return p, 0, nil
		}
	}
}

// ask sends a request and returns the payload of its Response.
func (c *carried) ask(seq uint64, name, payload string) string {
	c.t.Helper()
	c.write(frames(c.t, request(seq, name, payload)))
	for {
		p, status, err := c.next()
		if err != nil || status != 0 || p.Kind == session.KindError {
			c.t.Fatalf("request %d %q: %v %s, status %d, %v", seq, name, p.Kind, p.Payload, status, err)
		}
		if p.Kind == session.KindResponse && p.Seq == seq {
			return string(p.Payload)
		}
	}
}

// closed reads up to the end and returns the reason and the close frame's status.
func (c *carried) closed() (reason session.CloseReason, status ws.StatusCode) {
	c.t.Helper()
	for {
		p, st, err := c.next()
		switch {
		case err != nil:
			if err != io.EOF { //nolint:errorlint // as io.Reader promises; TLS says its end too
				c.t.Errorf("the connection ended with %v", err)
			}
			return reason, status
		case st != 0:
			status = st
		case p.Kind == session.KindControl:
			if reason, _, err = session.ParseClosing(&p); err != nil {
				c.t.Error(err)
			}
		}
	}
}

func TestSessionsAreTheSameOnEachTransport(t *testing.T) {
	server, client := certificate()
	files := certificateFiles(t, server)
	onEachStageWith(t, func(c *zlnode.Config) {
		typ := c.Sessions[0].Type
		for _, transport := range transports[1:] {
			l := zlnode.SessionListener{Addr: "127.0.0.1:0", Type: typ, Transport: transport}
			switch transport {
			case zlnode.TLS:
				l.TLS = server
			case zlnode.WSS:
				l.TLSFiles = files
			default:
			}
			c.Sessions = append(c.Sessions, l)
		}
	}, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		var all []*carried
		for port, transport := range transports {
			c := s.carry(t, transport, port, client)
			c.ask(1, "login", `{"ID":"over `+transport.String()+`"}`)
			if got := c.ask(2, "note", "7"); got != "7" {
				t.Errorf("%v: the answer is %s", transport, got)
			}
			for _, r := range linkRecords() { // which nodes say to each other, not clients
				hostile := s.carry(t, transport, port, client)
				hostile.write(r.AppendTo(nil))
				if _, status := hostile.closed(); transport.Messages() && status == ws.StatusNormalClosure {
					t.Errorf("%v: %T was answered with status %d", transport, r, status)
				}
			}
			b.served()
			all = append(all, c)
		}
		for port, c := range all {
			if got := c.ask(3, "note", "8"); got != "8" {
				t.Errorf("%v: the answer is %s", transports[port], got)
			}
		}
		stopped := make(chan error, 1)
		go func() { stopped <- s.gateway.Shutdown(t.Context()) }()
		for port, c := range all {
			reason, status := c.closed()
			if reason != session.ServerDrain || c.messages && status != ws.StatusGoingAway {
				t.Errorf("%v: closed with %v, status %d", transports[port], reason, status)
			}
			c.conn.Close()
		}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
	})
}
