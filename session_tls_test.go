package zlnode_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
)

// clientCertificate returns one for a client of that name, and the file of its root.
func clientCertificate(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "clients.pem")
	if err := os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, root
}

// A Session knows the certificate that its client has shown, and that it has shown none.
func TestASessionKnowsItsClientsCertificate(t *testing.T) {
	t.Parallel()
	server, dialler := certificate()
	files := certificateFiles(t, server)
	shown, root := clientCertificate(t, "alice")
	files.ClientCAFile = root
	app := zlnode.NewApp()
	v := zlnode.DefineSession(app, "client", func(*zlnode.SessionContext) (*visitor, error) { return &visitor{}, nil })
	zlnode.OnPacketRequest(v, "who", func(c *zlnode.SessionCall, _ *visitor, _ struct{}) (string, error) {
		s := c.Session().TLS()
		switch {
		case s == nil:
			return "not encrypted", nil
		case len(s.VerifiedChains) == 0:
			return "nobody", nil
		}
		return s.VerifiedChains[0][0].Subject.CommonName, nil
	})
	n, err := zlnode.Start(t.Context(), zlnode.Config{Sessions: []zlnode.SessionListener{
		{Addr: "127.0.0.1:0", Type: "client"}, {Addr: "127.0.0.1:0", Type: "client", Transport: zlnode.TLS, TLSFiles: files},
	}}, app)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	named := dialler.Clone()
	named.Certificates = []tls.Certificate{shown}
	for want, o := range map[string]client.Options{
		"not encrypted": {Addr: n.SessionAddrs()[0].String()},
		"nobody":        {Addr: "tls://" + n.SessionAddrs()[1].String(), TLS: dialler},
		"alice":         {Addr: "tls://" + n.SessionAddrs()[1].String(), TLS: named},
	} {
		c, err := client.Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := c.RequestJSON(t.Context(), "who", struct{}{}, &got); err != nil || got != want {
			t.Errorf("it is %q, %v, want %q", got, err, want)
		}
		_ = c.Close() // always nil
	}
}
