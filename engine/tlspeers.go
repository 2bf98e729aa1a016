package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
)

// Peers reads the files and returns configurations for both ends of connections between
// equals: each shows the certificate of CertFile and demands one that a root of ClientCAFile
// vouches for, for the use as server or client that it is put to. Whom the other end's
// certificate is for they do not ask: Conn.TLS has it. TLS 1.3 is the oldest version. Both
// follow the files as Config does.
func (f TLSFiles) Peers(log zerolog.Logger) (server, client *tls.Config, err error) {
	w := &watchedFiles{files: f, transport: TLS, log: log, seen: f.states()}
	if w.current, err = f.loadPeer(); err != nil {
		return nil, nil, err
	}
	server = &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			cfg := w.get(clock.Now()).Clone()
			cfg.MinVersion, cfg.ClientAuth, cfg.SessionTicketsDisabled = tls.VersionTLS13, tls.RequireAndVerifyClientCert, true
			return cfg, nil
		},
	}
	client = &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &w.get(clock.Now()).Certificates[0], nil
		},
		InsecureSkipVerify: true, //nolint:gosec // the chain is verified below, and the name by who knows it
		VerifyConnection: func(s tls.ConnectionState) error {
			if err := verify(s.PeerCertificates, w.get(clock.Now()).ClientCAs, x509.ExtKeyUsageServerAuth); err != nil {
				return fmt.Errorf("engine: the peer's certificate: %w", err)
			}
			return nil
		},
	}
	return server, client, nil
}

// Own reads the files and returns the certificate of CertFile, if a peer that has the same
// roots would take it now, as a server's and as a client's.
func (f TLSFiles) Own() (*x509.Certificate, error) {
	cfg, err := f.loadPeer()
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for _, der := range cfg.Certificates[0].Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("engine: certificate %q: %w", f.CertFile, err)
		}
		chain = append(chain, cert)
	}
	for use, what := range map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server", x509.ExtKeyUsageClientAuth: "client"} {
		if err := verify(chain, cfg.ClientCAs, use); err != nil {
			return nil, fmt.Errorf("engine: certificate %q is no %s's by the roots of %q: %w", f.CertFile, what, f.ClientCAFile, err)
		}
	}
	return chain[0], nil
}

// loadPeer reads the files for connections between peers.
func (f TLSFiles) loadPeer() (*tls.Config, error) {
	if f.ClientCAFile == "" {
		return nil, errors.New("engine: connections between peers need the roots of their certificates")
	}
	return f.load(TLS)
}

// verify is crypto/tls's own check of the other end's certificates, but for the name.
func verify(chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage) error {
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}
