package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
)

// TLSFiles names the files, in PEM form, of a server's TLS configuration.
type TLSFiles struct {
	// CertFile has the server's certificate and those between it and the root, KeyFile its
	// private key.
	CertFile, KeyFile string
	// ClientCAFile has the roots of clients' certificates. A client need not show one; one
	// that it shows must be valid, and Conn.TLS has it. Empty: none is asked for.
	ClientCAFile string
}

// Config reads the files and returns a configuration for listeners of t that follows them:
// when they have changed, which is looked for at a handshake and once a second at most, the
// next handshakes use what is in them. If that cannot be used, what was there before stays
// in use, and log is told once for each change. An error says which file cannot be used.
func (f TLSFiles) Config(t Transport, log zerolog.Logger) (*tls.Config, error) {
	w := &watchedFiles{files: f, transport: t, log: log, seen: f.states()}
	var err error
	if w.current, err = f.load(t); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.get(clock.Now()), nil },
	}, nil
}

// load reads the files.
func (f TLSFiles) load(t Transport) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("engine: certificate %q with key %q: %w", f.CertFile, f.KeyFile, err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}}
	completeTLS(cfg, t)
	if f.ClientCAFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(f.ClientCAFile)
	if err == nil {
		cfg.ClientAuth, cfg.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
			err = errors.New("it has no certificate")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("engine: roots of clients' certificates %q: %w", f.ClientCAFile, err)
	}
	return cfg, nil
}

// fileState tells one content of a file from another, without reading it.
type fileState struct {
	info os.FileInfo // nil: it could not be looked at
}

// states returns those of the files.
func (f TLSFiles) states() (s [3]fileState) {
	for i, name := range [...]string{f.CertFile, f.KeyFile, f.ClientCAFile} {
		s[i].info, _ = os.Stat(name) // what is wrong with it load will say
	}
	return s
}

func (s fileState) same(o fileState) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return os.SameFile(s.info, o.info) && s.info.ModTime().Equal(o.info.ModTime()) && s.info.Size() == o.info.Size()
}

// watchedFiles is a configuration that follows its files. Safe for concurrent use.
type watchedFiles struct {
	files     TLSFiles
	transport Transport
	log       zerolog.Logger

	mu      sync.Mutex // a handshake that comes while files are read waits for them
	current *tls.Config
	seen    [3]fileState
	next    clock.Mono // when to look again
}

// get returns the configuration for a handshake that begins now.
func (w *watchedFiles) get(now clock.Mono) *tls.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.Reached(w.next) {
		return w.current
	}
	w.next = now.Add(tlsFilesLook)
	states := w.files.states()
	same := true
	for i := range states {
		same = same && states[i].same(w.seen[i])
	}
	if same {
		return w.current
	}
	w.seen = states
	fresh, err := w.files.load(w.transport)
	if err != nil {
		w.log.Error().Err(err).Msg("the TLS files have changed and cannot be used; what was in them before stays in use")
		return w.current
	}
	w.current = fresh
	w.log.Info().Str("cert", w.files.CertFile).Msg("the TLS files have changed; new handshakes use them")
	return fresh
}
