package engine

import (
	"bytes"
	"crypto/x509"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
)

// quiet is a log for tests that do not look at it.
var quiet = zerolog.Nop()

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	a := newAuthority(t, "root")
	good := writeFiles(t, a, a.pem)
	_, otherKey := a.issue(t, "server")
	for name, spoil := range map[string]func(f *TLSFiles) (named string){
		"no certificate":  func(f *TLSFiles) string { f.CertFile += ".no"; return f.CertFile },
		"no key":          func(f *TLSFiles) string { f.KeyFile += ".no"; return f.KeyFile },
		"no roots":        func(f *TLSFiles) string { f.ClientCAFile += ".no"; return f.ClientCAFile },
		"roots of a key":  func(f *TLSFiles) string { f.ClientCAFile = f.KeyFile; return f.KeyFile },
		"another's key":   func(f *TLSFiles) string { f.KeyFile += ".other"; writeFile(t, f.KeyFile, otherKey); return f.KeyFile },
		"nothing is said": func(f *TLSFiles) string { *f = TLSFiles{}; return `""` },
	} {
		f := good
		named := spoil(&f)
		if _, err := f.Config(TLS, quiet); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v, which does not name %s", name, err, named)
		}
	}
}

func TestARenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	a, b := newAuthority(t, "old"), newAuthority(t, "new")
	f := writeFiles(t, a, nil)
	var log bytes.Buffer
	w := &watchedFiles{files: f, transport: TLS, log: zerolog.New(&log), seen: f.states()}
	var err error
	if w.current, err = f.load(TLS); err != nil {
		t.Fatal(err)
	}
	now := clock.Mono(1)
	issuer := func() string {
		t.Helper()
		cert, err := x509.ParseCertificate(w.get(now).Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return cert.Issuer.CommonName
	}
	first := w.get(now)
	now = now.Add(tlsFilesLook)
	if w.get(now) != first { // a copy would forget the keys of its tickets
		t.Error("files that did not change gave another configuration")
	}
	cert, key := b.issue(t, "server")
	writeFile(t, f.CertFile, cert)
	if got := issuer(); got != "old" {
		t.Errorf("looked at the files again within a second: %q", got)
	}
	// A certificate without its key is what a renewal looks like half way.
	for range 3 {
		now = now.Add(tlsFilesLook)
		if got := issuer(); got != "old" {
			t.Errorf("with a broken pair: %q", got)
		}
	}
	if got := strings.Count(log.String(), "\n"); got != 1 || !strings.Contains(log.String(), f.CertFile) {
		t.Errorf("a broken pair was logged %d times: %s", got, log.String())
	}
	writeFile(t, f.KeyFile, key)
	now = now.Add(tlsFilesLook)
	if got := issuer(); got != "new" {
		t.Errorf("after the renewal: %q", got)
	}
	if err := os.Remove(f.KeyFile); err != nil {
		t.Fatal(err)
	}
	now = now.Add(tlsFilesLook)
	if got := issuer(); got != "new" {
		t.Errorf("without files: %q", got)
	}
	if got := strings.Count(log.String(), `"level":"error"`); got != 2 {
		t.Errorf("%d errors were logged: %s", got, log.String())
	}
}
