// Package certtest is certificates for tests: authorities, and what they issue to nodes.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a root that vouches for certificates.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// New returns a root of its own.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	template := validFor(time.Hour)
	template.Subject.CommonName = name
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// Pool has the roots.
func Pool(roots ...*Authority) *x509.CertPool {
	p := x509.NewCertPool()
	for _, a := range roots {
		p.AddCert(a.cert)
	}
	return p
}

// Pair is a certificate and its key, as PEM.
type Pair []byte

// Issue returns a certificate for those DNS names, for the use as server and client.
func (a *Authority) Issue(t testing.TB, names ...string) Pair {
	t.Helper()
	return a.issue(t, validFor(time.Hour), names, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

// IssueExpired is Issue of one that is no longer valid.
func (a *Authority) IssueExpired(t testing.TB, names ...string) Pair {
	t.Helper()
	return a.issue(t, validFor(-time.Minute), names, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

// IssueServer is Issue of one for the use as server only.
func (a *Authority) IssueServer(t testing.TB, names ...string) Pair {
	t.Helper()
	return a.issue(t, validFor(time.Hour), names, x509.ExtKeyUsageServerAuth)
}

func (a *Authority) issue(t testing.TB, template *x509.Certificate, names []string, use ...x509.ExtKeyUsage) Pair {
	t.Helper()
	key := newKey(t)
	template.DNSNames, template.KeyUsage, template.ExtKeyUsage = names, x509.KeyUsageDigitalSignature, use
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	return append(p, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
}

// TLS is the pair for crypto/tls.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(p, p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Write writes the pair and the roots into two files of the directory, in the place of those
// that are there. Each changes at once.
func (p Pair) Write(t testing.TB, dir string, roots ...*Authority) (pair, root string) {
	t.Helper()
	var all []byte
	for _, a := range roots {
		all = append(all, a.pem...)
	}
	return replace(t, dir, "node.pem", p), replace(t, dir, "roots.pem", all)
}

func replace(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	name = filepath.Join(dir, name)
	err := os.WriteFile(name+".new", content, 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func validFor(d time.Duration) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{Subject: pkix.Name{Organization: []string{"tests"}}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(d)}
}
