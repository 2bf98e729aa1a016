package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/zlnode/zlnode"
)

// This file is what the clients of the demo are connected by.

// parseTransport returns the transport of that name.
func parseTransport(name string) (zlnode.Transport, error) {
	for _, t := range []zlnode.Transport{zlnode.TCP, zlnode.WS, zlnode.TLS, zlnode.WSS} {
		if t.String() == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("--transport %q is none of tcp, ws, tls and wss", name)
}

// identity is the certificate of all gateways of one run and its key, in PEM. It is made
// when the run starts and forgotten with it.
type identity struct {
	Cert []byte `json:"cert"`
	Key  []byte `json:"key"`
}

// certTime is how long a certificate holds: longer than any run.
const certTime = forMax + time.Hour

// newIdentity makes a certificate for gateways of this machine, signed by itself.
func newIdentity(now time.Time) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "zlnode demo"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certTime),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &identity{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

// server is the configuration of a gateway.
func (i *identity) server() (*tls.Config, error) {
	pair, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}, nil
}

// clients is the configuration of clients that trust these gateways and no others. They
// share it, and with it what lets a later handshake be shorter.
func (i *identity) clients() *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(i.Cert)
	return &tls.Config{RootCAs: roots}
}
