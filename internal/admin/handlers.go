package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/errkind"
)

// call is one request that has the token.
type call struct {
	*Server
	w    http.ResponseWriter
	r    *http.Request
	wait time.Duration
}

// routes are all that is served, by path and method.
var routes = map[string]map[string]func(*call){
	"/v1/status":     {http.MethodGet: (*call).status},
	"/v1/relocation": {http.MethodGet: (*call).relocation},
	"/v1/relocate":   {http.MethodPost: (*call).relocate},
	"/v1/cordon":     {http.MethodPost: (*call).cordon},
	"/v1/uncordon":   {http.MethodPost: (*call).uncordon},
	"/v1/limits":     {http.MethodGet: (*call).limits, http.MethodPut: (*call).setLimits},
	"/v1/shutdown":   {http.MethodPost: (*call).shutdown},
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	methods := routes[r.URL.Path]
	handle := methods[r.Method]
	c := call{Server: s, w: w, r: r}
	switch {
	case methods == nil:
		refuse(w, http.StatusNotFound, errkind.NotFound, "there is no such path")
	case handle == nil:
		refuse(w, http.StatusMethodNotAllowed, errkind.InvalidOperation, "the path has no such method")
	case !c.mayWait():
	default:
		if r.Method != http.MethodGet {
			s.log.Info().Str("path", r.URL.Path).Str("from", r.RemoteAddr).Msg("an operator asks")
		}
		handle(&c)
	}
}

// mayWait takes the time that the request may wait for what it asks for.
func (c *call) mayWait() bool {
	text := c.r.URL.Query().Get("wait")
	if text == "" {
		return true
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > waitMax {
		refuse(c.w, http.StatusBadRequest, errkind.InvalidOperation, "wait is a duration of up to 1m, such as 30s")
		return false
	}
	c.wait = d
	return true
}

// waiting returns a context for the wait, which ends when the door is closed, too. The body has
// been read.
func (c *call) waiting() (context.Context, context.CancelFunc) {
	control, until := http.NewResponseController(c.w), time.Now().Add(c.wait)
	_ = control.SetReadDeadline(until.Add(writeTime)) // else the request's own time ends it; a connection without deadlines is a test's
	_ = control.SetWriteDeadline(until.Add(writeTime))
	ctx, cancel := context.WithDeadline(c.r.Context(), until)
	stop := context.AfterFunc(c.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// asking returns a context for what the node is asked.
func (c *call) asking() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.r.Context(), callTime)
}

// body decodes the request's body into v; false: it was refused. An empty one leaves v alone.
func (c *call) body(v any) bool {
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, bodyMax))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(c.w, http.StatusRequestEntityTooLarge, errkind.InvalidOperation, "the body is larger than 64 KiB")
		return false
	case err != nil:
		refuse(c.w, http.StatusBadRequest, errkind.ProtocolError, "the body did not come")
		return false
	case len(b) == 0:
		return true
	}
	if typ, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || typ != "application/json" {
		refuse(c.w, http.StatusUnsupportedMediaType, errkind.InvalidOperation, "a body is application/json")
		return false
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err = d.Decode(v); err == nil && d.More() {
		err = errors.New("there is more than one value")
	}
	if err != nil {
		refuse(c.w, http.StatusBadRequest, errkind.InvalidOperation, "the body is not as it must be: "+err.Error())
		return false
	}
	return true
}

func (c *call) status() {
	s := c.node.Status()
	s.Limits, s.Relocation = c.node.Limits(), c.progress()
	answer(c.w, http.StatusOK, &s)
}

// progress is the relocation with its name.
func (c *call) progress() *Relocation {
	r := c.node.Relocation()
	if r != nil {
		named := *r
		named.Seen, named.EstimatedEnd = "", nil
		b, _ := json.Marshal(&named) // of strings and numbers
		sum := sha256.Sum256(b)
		r.Seen = hex.EncodeToString(sum[:8])
	}
	return r
}

// relocation answers at once, or if nothing has changed since the caller has seen it, when that
// has, or the wait is over.
func (c *call) relocation() {
	ctx, cancel := c.waiting()
	defer cancel()
	seen := c.r.URL.Query().Get("seen")
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		r := c.progress()
		if r == nil {
			c.failed(errkind.NotFound, "the node was never relocated")
			return
		}
		if r.Seen != seen || ctx.Err() != nil {
			answer(c.w, http.StatusOK, r)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (c *call) relocate() {
	var ask RelocateRequest
	if !c.body(&ask) {
		return
	}
	ctx, cancel := c.waiting()
	defer cancel()
	result, err := c.node.Relocate(ctx, ask)
	if err != nil {
		c.fail(err)
		return
	}
	status := http.StatusAccepted
	if result != nil {
		status = http.StatusOK
	}
	answer(c.w, status, &RelocateReply{Result: result, Relocation: c.progress()})
}

func (c *call) cordon() {
	var ask CordonRequest
	if !c.body(&ask) {
		return
	}
	ctx, cancel := c.asking()
	defer cancel()
	c.done(c.node.Cordon(ctx, ask.Passes))
}

func (c *call) uncordon() {
	if !c.body(&struct{}{}) {
		return
	}
	ctx, cancel := c.asking()
	defer cancel()
	c.done(c.node.Uncordon(ctx))
}

func (c *call) limits() {
	l := c.node.Limits()
	answer(c.w, http.StatusOK, &l)
}

// setLimits changes those that the body names.
func (c *call) setLimits() {
	l := c.node.Limits()
	if !c.body(&l) {
		return
	}
	if err := c.node.SetLimits(l); err != nil {
		c.fail(err)
		return
	}
	c.limits()
}

// shutdown begins the node's end, and tells how it ended if that comes within the wait. Whoever
// asks again waits for the same.
func (c *call) shutdown() {
	var ask ShutdownRequest
	if !c.body(&ask) {
		return
	}
	timeout := millis(ask.TimeoutMS)
	switch {
	case ask.TimeoutMS == 0:
		timeout = shutdownTime
	case timeout < 0 || timeout > shutdownMax:
		c.failed(errkind.InvalidOperation, "timeout_ms is of up to an hour")
		return
	}
	wait, stop := c.waiting()
	defer stop()
	c.once.Do(func() {
		c.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			if err := c.node.Shutdown(ctx); err != nil {
				c.log.Warn().Err(err).Msg("a shutdown that an operator has asked for")
			}
		})
	})
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for c.node.Status().ShutdownEnd == nil && wait.Err() == nil {
		select {
		case <-tick.C:
		case <-wait.Done():
		}
	}
	s := c.node.Status()
	status := http.StatusAccepted
	if s.ShutdownEnd != nil {
		status = http.StatusOK
	}
	answer(c.w, status, &s)
}

// done answers with the status, or tells the error.
func (c *call) done(err error) {
	if err != nil {
		c.fail(err)
		return
	}
	c.status()
}

// fail tells an error of the node.
func (c *call) fail(err error) {
	for k := range errkind.Kind(errkind.Count) {
		if errors.Is(err, k) {
			c.failed(k, err.Error())
			return
		}
	}
	c.failed(errkind.InternalFailure, err.Error())
}

func (c *call) failed(kind errkind.Kind, text string) {
	answer(c.w, statusOf(kind), &Error{Kind: kind.String(), Text: text})
}

func statusOf(k errkind.Kind) int {
	switch k {
	case errkind.NotFound:
		return http.StatusNotFound
	case errkind.InvalidOperation, errkind.ProtocolError:
		return http.StatusBadRequest
	case errkind.NotConfigured, errkind.AlreadyExists, errkind.TypeMismatch, errkind.Rejected:
		return http.StatusConflict
	case errkind.Unavailable, errkind.ShuttingDown, errkind.CapacityExceeded:
		return http.StatusServiceUnavailable
	case errkind.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"kind":"InternalFailure","text":"the answer cannot be encoded"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // who has gone needs no answer
}

// quiet is where the HTTP server says what strangers did wrong.
func quiet(l zerolog.Logger) *log.Logger { return log.New(debugLines{l}, "", 0) }

type debugLines struct{ log zerolog.Logger }

// Write implements io.Writer.
func (d debugLines) Write(line []byte) (int, error) {
	d.log.Debug().Str("detail", strings.TrimSpace(string(line))).Msg("the admin port")
	return len(line), nil
}
