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
	if f.ClientCAFile == "" {
		return nil, nil, errors.New("engine: connections between peers need the roots of their certificates")
	}
	w := &watchedFiles{files: f, transport: TLS, log: log, seen: f.states()}
	if w.current, err = f.load(TLS); err != nil {
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
			return verifyServer(s.PeerCertificates, w.get(clock.Now()).ClientCAs)
		},
	}
	return server, client, nil
}

// verifyServer is crypto/tls's own check of a server's certificates, but for the name.
func verifyServer(chain []*x509.Certificate, roots *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("engine: the peer's certificate: %w", err)
	}
	return nil
}
