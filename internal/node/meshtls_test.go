package node

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/certtest"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

func filesOf(t *testing.T, p certtest.Pair, roots ...*certtest.Authority) TLSFiles {
	t.Helper()
	pair, root := p.Write(t, t.TempDir(), roots...)
	return TLSFiles{CertFile: pair, KeyFile: pair, ClientCAFile: root}
}

// Files that no peer would take, or none at all, are found before anything is opened.
func TestCertificatesOfLinksAreCheckedAtStart(t *testing.T) {
	ours, stranger := certtest.New(t, "root"), certtest.New(t, "another")
	good := filesOf(t, ours.Issue(t, "b", "a"), ours)
	foreign := filesOf(t, ours.Issue(t, "a"), stranger)
	for name, c := range map[string]struct {
		files TLSFiles
		kind  errkind.Kind
		says  string
	}{
		"no key":          {TLSFiles{CertFile: good.CertFile, ClientCAFile: good.ClientCAFile}, errkind.NotConfigured, "needs CertFile, KeyFile and ClientCAFile"},
		"no roots":        {TLSFiles{CertFile: good.CertFile, KeyFile: good.KeyFile}, errkind.NotConfigured, "needs CertFile, KeyFile and ClientCAFile"},
		"no file":         {TLSFiles{CertFile: "no.pem", KeyFile: good.KeyFile, ClientCAFile: good.ClientCAFile}, errkind.InvalidOperation, `certificate "no.pem"`},
		"no roots' file":  {TLSFiles{CertFile: good.CertFile, KeyFile: good.KeyFile, ClientCAFile: "no.pem"}, errkind.InvalidOperation, `roots of clients' certificates "no.pem"`},
		"another root's":  {foreign, errkind.InvalidOperation, "unknown authority"},
		"expired":         {filesOf(t, ours.IssueExpired(t, "a"), ours), errkind.InvalidOperation, "expired"},
		"no client's":     {filesOf(t, ours.IssueServer(t, "a"), ours), errkind.InvalidOperation, "is no client's"},
		"of another node": {filesOf(t, ours.Issue(t, "b", "*.a"), ours), errkind.InvalidOperation, `is not for node a but for "b *.a"; set RID`},
	} {
		main := serverConfig()
		main.MeshTLS = c.files
		second := serverConfig()
		second.Meshes = []Mesh{{Name: "second", Keys: [][]byte{second.MeshKey}, TLSFiles: c.files}}
		for field, cfg := range map[string]Config{"MeshTLS": main.withDefaults(), `mesh "second": TLSFiles`: second.withDefaults()} {
			err := cfg.check(actorApp())
			if KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %v of %s that says %s", name, err, c.kind, field, c.says)
			}
		}
	}
	c := serverConfig().withDefaults()
	c.MeshTLS = good
	if err := c.check(actorApp()); err != nil {
		t.Error(err)
	}
	c = Config{RID: "a", Role: store.RoleNone, MeshTLS: good}.withDefaults()
	if err := c.check(NewApp()); KindOf(err) != errkind.NotConfigured {
		t.Errorf("certificates without a mesh key: %v", err)
	}
}

func TestACertificateIsForTheRIDsThatItNames(t *testing.T) {
	for _, c := range []struct {
		names string
		rid   string
		is    bool
	}{
		{"a", "a", true},
		{"b a", "a", true},
		{"", "a", false},
		{"a", "A", false},
		{"a", "ab", false},
		{"a.zone", "a.zone", true},
		{"*.zone", "a.zone", true},
		{"*.Zone", "a.zone", false},
		{"*.zone", "zone", false},
		{"*.zone", "a.b.zone", false},
		{"*.b.zone", "a.b.zone", true},
		{"*.zone", ".zone", false},
		{"*.", "a.", false},
		{"*", "a", false},
		{"*.*", "a.zone", false},
		{"a*.zone", "ab.zone", false},
		{".zone", "a.zone", false},
	} {
		err := names(&x509.Certificate{DNSNames: strings.Fields(c.names)}, c.rid)
		if (err == nil) != c.is {
			t.Errorf("of %q, for RID %q: %v", c.names, c.rid, err)
		}
	}
	if err := names(&x509.Certificate{DNSNames: []string{strings.Repeat("n", 10_000)}}, "a"); err == nil || len(err.Error()) > 500 {
		t.Errorf("%v", err)
	}
	common := &x509.Certificate{}
	common.Subject.CommonName = "a"
	if names(common, "a") == nil {
		t.Error("a common name is taken for the RID")
	}
}

func TestTLSOnAPlainLinkPortIsNamed(t *testing.T) {
	hello := []byte{22, 3, 1, 2, 0}
	if _, err := linkFrameSize(hello, false); !errors.Is(err, engine.ErrFrameTooLarge) || !strings.Contains(err.Error(), "TLS") {
		t.Error(err)
	}
	if _, err := linkFrameSize([]byte("GET /"), false); err == nil || strings.Contains(err.Error(), "TLS") {
		t.Error(err)
	}
}
