package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"
)

// handshake has a client and a gateway shake hands.
func handshake(t *testing.T, clients, server *tls.Config) error {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		_ = tls.Server(far, server).HandshakeContext(t.Context()) // the client tells
	}()
	c := clients.Clone()
	c.ServerName = "127.0.0.1"
	err := tls.Client(near, c).HandshakeContext(t.Context())
	near.Close()
	<-done
	return err
}

func TestClientsTrustTheGatewaysOfTheirOwnRunOnly(t *testing.T) {
	one, err := newIdentity(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	other, err := newIdentity(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server, err := one.server()
	if err != nil {
		t.Fatal(err)
	}
	if err := handshake(t, one.clients(), server); err != nil {
		t.Error(err)
	}
	if err := handshake(t, other.clients(), server); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("a client of another run: %v", err)
	}
	leaf, err := x509.ParseCertificate(server.Certificates[0].Certificate[0])
	if err != nil || time.Until(leaf.NotAfter) < forMax {
		t.Errorf("it holds until %v, %v", leaf.NotAfter, err)
	}
}
