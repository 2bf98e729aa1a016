package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
)

// linkTLS is how both ends of a mesh's links prove themselves by certificates. The mesh key's
// handshake goes on inside: the key says that a node is of the mesh, the certificate which one
// it is.
type linkTLS struct{ server, client *tls.Config }

// checkTLS says what of the mesh's certificate files cannot be, for the node rid. Peers would
// not take what it finds wrong, one by one and later.
func (m *Mesh) checkTLS(field, rid string) *meshFault {
	f := m.TLSFiles
	switch {
	case f == TLSFiles{}:
		return nil
	case f.CertFile == "" || f.KeyFile == "" || f.ClientCAFile == "":
		return lacking("%s needs CertFile, KeyFile and ClientCAFile, the roots of peers' certificates; or none of them", field)
	}
	own, err := f.Own()
	if err != nil {
		return wrong("%s: %w", field, err)
	}
	if err := names(own, rid); err != nil {
		return wrong("%s: %q: %w; set RID to what it names, or issue one for this RID", field, f.CertFile, err)
	}
	return nil
}

// openTLS reads the certificate files, if there are any, and follows them from now on.
func (m *mesh) openTLS() error {
	if m.cfg.TLSFiles == (TLSFiles{}) {
		return nil
	}
	server, client, err := m.cfg.TLSFiles.Peers(m.node.log.With().Str("mesh", m.cfg.Name).Logger())
	if err != nil {
		return err
	}
	m.tls = &linkTLS{server: server, client: client}
	return nil
}

// listen is what the engine is told of the mesh's port.
func (m *mesh) listen() engine.Listen {
	l := engine.Listen{Addr: m.cfg.Listen, Protocol: m.protocol(&linkHandler{mesh: m})}
	if m.tls != nil {
		l.Transport, l.TLS = engine.TLS, m.tls.server
	}
	return l
}

// dialLink opens a connection for a link, which is h's from then on.
func (m *mesh) dialLink(ctx context.Context, endpoint string, h *linkHandler) (err error) {
	if m.tls != nil {
		_, err = m.node.engine.DialTLS(ctx, endpoint, m.protocol(h), m.tls.client)
	} else {
		_, err = m.node.engine.Dial(ctx, endpoint, m.protocol(h))
	}
	return err
}

// sayDialFailed logs it. That nobody answers is usual; that one does who is not to be believed,
// or does not speak TLS, is not. That a node which stops dials no more is no failure.
func (m *mesh) sayDialFailed(rid, endpoint string, err error) {
	level, left := zerolog.DebugLevel, int64(0)
	if op, ok := errors.AsType[*net.OpError](err); m.tls != nil && !(ok && op.Op == "dial") && m.node.life.Err() == nil && !errors.Is(err, engine.ErrEngineClosed) {
		if n, ok := m.node.said.dialFailed.Take(clock.Now()); ok {
			level, left = zerolog.InfoLevel, n
		}
	}
	m.node.log.WithLevel(level).Str("mesh", m.cfg.Name).Str("peer", rid).Str("address", endpoint).Err(err).Int64("left_out", left).Msg("dial failed")
}

// certified has ev refuse a peer whose certificate is not for the RID that it has, or ought to
// have.
func (l *linkConn) certified(rid string, ev link.Event) link.Event {
	if l.mesh.tls == nil {
		return ev
	}
	// Both ends demand a certificate, so there is one, and a root has vouched for it.
	if err := names(l.conn.TLS().PeerCertificates[0], rid); err != nil {
		ev.Refuse, ev.Detail = wire.RejectBadCertificate, err.Error()
	}
	return ev
}

// names returns nil if a certificate is for the node rid: if one of its DNS names is the RID,
// byte for byte, or "*." and what follows the first label of it.
func names(cert *x509.Certificate, rid string) error {
	label, zone, _ := strings.Cut(rid, ".")
	for _, name := range cert.DNSNames {
		if name == rid || label != "" && zone != "" && name == "*."+zone {
			return nil
		}
	}
	return fmt.Errorf("the certificate, serial number %x, is not for node %s but for %q", cert.SerialNumber, rid, clip(strings.Join(cert.DNSNames, " ")))
}

// isTLS reports whether what came begins as a TLS handshake does. No record before admit does.
func isTLS(b []byte) bool { return len(b) > 1 && b[0] == 22 && b[1] == 3 }
