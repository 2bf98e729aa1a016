package redislua

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/zlnode/zlnode/store"
)

// authority signs certificates for 127.0.0.1. Its own is the file ca.
type authority struct {
	t    testing.TB
	dir  string
	ca   string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	a.ca = a.write("ca.pem", "CERTIFICATE", a.sign(a.cert, &a.key.PublicKey))
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(c *x509.Certificate, key *ecdsa.PublicKey) []byte {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue makes a certificate and its key, as files.
func (a *authority) issue(name string) (cert, key string) {
	a.t.Helper()
	k := a.newKey()
	der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, &k.PublicKey)
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "EC PRIVATE KEY", private)
}

// embeddedTLS is an embedded Redis with a certificate of the authority.
func embeddedTLS(t *testing.T, a *authority) (addr string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.issue("server"))
	if err != nil {
		t.Fatal(err)
	}
	server := miniredis.NewMiniRedis()
	if err := server.StartTLS(&tls.Config{Certificates: []tls.Certificate{pair}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.Addr()
}

func wantUnavailable(t *testing.T, url string) {
	t.Helper()
	if s, err := Open(within(t), Options{URL: url}); s != nil || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Open(%s) = %v, %v; want ErrUnavailable", url, s, err)
	}
}

func TestServerMustHaveACertificateOfTheAuthority(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	url := "rediss://" + embeddedTLS(t, a)
	wantUnavailable(t, url) // the system knows neither
	wantUnavailable(t, url+"?ca_file="+other.ca)
	newScene(t, openStore(t, url+"?ca_file="+a.ca)).create("player-1")
	newScene(t, openStore(t, url+"?skip_verify=true")).create("player-1")
}

// TestEachServerIsVerifiedByTheNameItIsDialledBy: the first server of the URL is not
// there, and its name is not that of the others.
func TestEachServerIsVerifiedByTheNameItIsDialledBy(t *testing.T) {
	a := newAuthority(t)
	addr := embeddedTLS(t, a)
	newScene(t, openStore(t, "rediss://localhost:1?cluster=true&addr="+addr+"&ca_file="+a.ca)).create("player-1")
	_, port, _ := net.SplitHostPort(addr)
	wantUnavailable(t, "rediss://localhost:"+port+"?ca_file="+a.ca)
}

func TestServerThatAsksForACertificateGetsTheStoresOwn(t *testing.T) {
	a := newAuthority(t)
	serverCert, serverKey := a.issue("server")
	r := startRedis(t, "--tls-port", "PORT", "--tls-cert-file", serverCert, "--tls-key-file", serverKey, "--tls-ca-cert-file", a.ca)
	port := r.args[slices.Index(r.args, "--tls-port")+1]
	url := "rediss://127.0.0.1:" + port + "?ca_file=" + a.ca
	wantUnavailable(t, url)
	cert, key := a.issue("store")
	newStage(t, openStore(t, url+"&cert_file="+cert+"&key_file="+key)).everything()
}
