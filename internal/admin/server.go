package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/errkind"
)

// The door's limits, of which none is configured: an operator needs less.
const (
	// TokenMin is the least length of a token, in bytes.
	TokenMin = 16
	// connsMax bounds the connections, requestsMax the requests at once.
	connsMax    = 64
	requestsMax = 16
	// headMax and bodyMax bound a request's bytes: 16 passes fit many times.
	headMax = 8 << 10
	bodyMax = 64 << 10
	// headTime is what a request's head may take, readTime all of it, writeTime an answer, and
	// idleTime is how long a connection waits for another request.
	headTime  = 5 * time.Second
	readTime  = 10 * time.Second
	writeTime = 10 * time.Second
	idleTime  = 30 * time.Second
	// waitMax bounds for how long a request waits for what it asks for.
	waitMax = time.Minute
	// callTime bounds what the node is asked and nobody waits for longer.
	callTime = 10 * time.Second
	// shutdownTime is that of a shutdown that has no time of its own, shutdownMax the most.
	shutdownTime = 30 * time.Second
	shutdownMax  = time.Hour
	// lookEvery is how often a request that waits for news looks for them.
	lookEvery = 100 * time.Millisecond
	// lastTime is what answers have that are under way when the door is closed.
	lastTime = 2 * time.Second
)

// Errors of Listen and NewServer.
var (
	ErrAddress = errors.New("admin: the address cannot be served")
	ErrToken   = errors.New("admin: a token has at least 16 bytes")
)

// Server answers at one door. Close must follow NewServer.
type Server struct {
	node   Node
	token  [sha256.Size]byte // of the token: equal lengths have compares tell nothing
	log    zerolog.Logger
	port   net.Listener
	http   http.Server
	places chan struct{}

	closing context.Context // ended: requests that wait do not any more
	close   context.CancelFunc
	tasks   sync.WaitGroup // Serve and the shutdown
	once    sync.Once      // of the shutdown
}

// NewServer begins to serve at a port of Listen, which becomes the Server's.
func NewServer(port net.Listener, token []byte, node Node, log zerolog.Logger) *Server {
	s := newServer(port, token, node, log)
	s.tasks.Go(s.serve)
	return s
}

func newServer(port net.Listener, token []byte, node Node, log zerolog.Logger) *Server {
	s := &Server{node: node, token: sha256.Sum256(token), log: log, port: port, places: make(chan struct{}, requestsMax)}
	s.closing, s.close = context.WithCancel(context.Background())
	s.http = http.Server{
		Handler: http.HandlerFunc(s.guard), ReadHeaderTimeout: headTime, ReadTimeout: readTime, WriteTimeout: writeTime,
		IdleTimeout: idleTime, MaxHeaderBytes: headMax, ErrorLog: quiet(log),
		DisableGeneralOptionsHandler: true,
	}
	return s
}

func (s *Server) serve() {
	if err := s.http.Serve(s.port); !errors.Is(err, http.ErrServerClosed) {
		s.log.Error().Err(err).Msg("the admin port is served no longer")
	}
}

// CheckToken returns ErrToken for one that is too short.
func CheckToken(token []byte) error {
	if len(token) < TokenMin {
		return ErrToken
	}
	return nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.port.Addr() }

// Close has requests that wait answered, and ends. A shutdown that was asked for here must have
// ended or be about to.
func (s *Server) Close() {
	s.close()
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // who was not answered in time is cut off
	}
	s.tasks.Wait()
}

// guard lets a request through to what it asks for, or refuses it.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		refuse(w, http.StatusServiceUnavailable, errkind.CapacityExceeded, "too many requests at once")
		return
	}
	switch {
	case !ownHost(r.Host):
		refuse(w, http.StatusMisdirectedRequest, errkind.Rejected, "the request is for another host; ask for localhost")
	case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
		refuse(w, http.StatusForbidden, errkind.Rejected, "pages of browsers are not served")
	case !s.authentic(r.Header.Values("Authorization")):
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, errkind.Rejected, "the token is missing or wrong")
	default:
		s.route(w, r)
	}
}

// ownHost reports whether a Host header is one of this machine: a name that another one could
// have bound to this address is none.
func ownHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return loopback(host)
}

func (s *Server) authentic(headers []string) bool {
	if len(headers) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// refuse ends a request whose body is not read, and so its connection.
func refuse(w http.ResponseWriter, status int, kind errkind.Kind, text string) {
	w.Header().Set("Connection", "close")
	answer(w, status, &Error{Kind: kind.String(), Text: text})
}
