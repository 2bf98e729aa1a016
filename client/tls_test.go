package client_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// testTLS returns the two ends' configurations, with the certificate that
// httptest brings along.
func testTLS() (server, dialler *tls.Config) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	dialler = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	dialler.ServerName = "example.com"
	dialler.NextProtos = nil
	return &tls.Config{Certificates: s.TLS.Certificates}, dialler
}

// Read deadlines pass while nothing arrives, and reading goes on: TLS must take
// that as plain TCP does.
func TestDeadlinesThatPassDoNotBreakTLS(t *testing.T) {
	serverTLS, clientTLS := testTLS()
	s := newServer(t, func(p *peer) {
		p = newPeer(tls.Server(p.conn, serverTLS))
		req, err := p.read()
		if err != nil {
			return
		}
		for pings := 0; pings < 5; {
			frame, err := p.readFrame()
			if err != nil {
				return
			}
			if string(frame) == string(session.PingFrame()) {
				pings++
			}
		}
		if p.write(replyTo(&req, req.Payload)) == nil {
			p.drain(t)
		}
	})
	dialer := tls.Dialer{Config: clientTLS}
	c := s.dial(t, client.Options{
		HeartbeatInterval: 5 * time.Millisecond,
		Dialer: func(ctx context.Context, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", addr)
		},
	})
	m, err := c.Request(t.Context(), "after five pings", []byte("secret"))
	if err != nil || string(m.Payload) != "secret" {
		t.Errorf("reply %+v, %v", m, err)
	}
}
