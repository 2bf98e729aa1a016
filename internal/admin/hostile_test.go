package admin

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/errkind"
)

// stranger says something to a door, and returns the status of the answer and its body.
func stranger(t *testing.T, s *Server, request string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(c, request) }() // the answer may come before all is said
	got, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.80q: %v", request, err)
	}
	defer func() { _ = got.Body.Close() }()
	b, _ := io.ReadAll(got.Body)
	return got.StatusCode, string(b)
}

// head is a request's head.
func head(what string, fields ...string) string {
	return what + " HTTP/1.1\r\n" + strings.Join(fields, "\r\n") + "\r\n\r\n"
}

// Without the token nothing is told, and nothing happens, whatever is asked for; nor with it, if
// a page of a browser may have asked.
func TestStrangersAreRefused(t *testing.T) {
	f := &fake{}
	s, _ := door(t, f)
	own, with := "Host: 127.0.0.1", "Authorization: Bearer "+token
	for name, c := range map[string]struct {
		status int
		fields []string
	}{
		"no token":             {401, []string{own}},
		"another token":        {401, []string{own, "Authorization: Bearer another token of length"}},
		"a part of the token":  {401, []string{own, "Authorization: Bearer " + token[:len(token)-1]}},
		"more than the token":  {401, []string{own, "Authorization: Bearer " + token + "x"}},
		"another scheme":       {401, []string{own, "Authorization: Basic " + token}},
		"the token alone":      {401, []string{own, "Authorization: " + token}},
		"two tokens":           {401, []string{own, with, with}},
		"a token in the query": {401, []string{own, "X-Token: " + token}},
		"another host":         {421, []string{"Host: rebound.example.org", with}},
		"such a host and port": {421, []string{"Host: rebound.example.org:80", with}},
		"a host that begins":   {421, []string{"Host: 127.0.0.1.example.org", with}},
		"another address":      {421, []string{"Host: 10.0.0.1", with}},
		"no host's name":       {421, []string{"Host: ", with}},
		"a page's origin":      {403, []string{own, with, "Origin: http://127.0.0.1"}},
		"a sandbox's origin":   {403, []string{own, with, "Origin: null"}},
		"a browser's fetch":    {403, []string{own, with, "Sec-Fetch-Site: same-origin"}},
	} {
		for _, what := range []string{"GET /v1/status", "POST /v1/shutdown?token=" + strings.ReplaceAll(token, " ", "+"), "GET /nothing", "OPTIONS *"} {
			status, body := stranger(t, s, head(what, append(c.fields, "Content-Length: 0")...))
			if status != c.status || strings.Contains(body, "rid") || !strings.Contains(body, errkind.Rejected.String()) {
				t.Errorf("%s: %s is answered %d %q", name, what, status, body)
			}
		}
	}
	if n := f.did(); n != 0 {
		t.Errorf("the node was asked for %q", f.asked)
	}
	for _, host := range []string{"localhost", "localhost:1", "127.0.0.1:80", "127.9.9.9", "[::1]", "[::1]:9"} {
		if status, body := stranger(t, s, head("GET /v1/status", "Host: "+host, with, "Connection: close")); status != 200 {
			t.Errorf("host %s: %d %q", host, status, body)
		}
	}
}

// Nothing is served but what is documented.
func TestNothingElseIsServed(t *testing.T) {
	f := &fake{}
	s, _ := door(t, f)
	for what, want := range map[string]int{
		"GET /": 404, "GET /v1": 404, "GET /v1/status/": 404, "GET /debug/pprof/": 404, "GET /metrics": 404, "GET /v1/../v1/status": 404,
		"GET //v1/status": 404, "POST /v1/status": 405, "GET /v1/shutdown": 405, "HEAD /v1/status": 405, "DELETE /v1/limits": 405,
		"GET /v1/relocation?wait=61s": 400, "GET /v1/relocation?wait=-1s": 400, "GET /v1/relocation?wait=x": 400,
	} {
		status, _ := stranger(t, s, head(what, "Host: localhost", "Authorization: Bearer "+token, "Content-Length: 0", "Connection: close"))
		if status != want {
			t.Errorf("%s is answered %d", what, status)
		}
	}
	if n := f.did(); n != 0 {
		t.Errorf("the node was asked for %q", f.asked)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	f := &fake{}
	s, _ := door(t, f)
	ask := func(typ, body string) int {
		status, _ := stranger(t, s, head("POST /v1/cordon", "Host: localhost", "Authorization: Bearer "+token, "Content-Type: "+typ,
			fmt.Sprint("Content-Length: ", len(body)))+body)
		return status
	}
	const plain = "application/json"
	large := `{"passes":["` + strings.Repeat("x", bodyMax) + `"]}`
	for name, c := range map[string]struct {
		typ, body string
		want      int
	}{
		"too large": {plain, large, 413}, "no JSON": {plain, "passes", 400}, "another field": {plain, `{"pass":"x"}`, 400},
		"two values": {plain, `{}{}`, 400}, "another type": {plain, `{"passes":"x"}`, 400}, "a form": {"application/x-www-form-urlencoded", "a=b", 415},
		"a text": {"text/plain", `{}`, 415},
	} {
		if status := ask(c.typ, c.body); status != c.want {
			t.Errorf("%s is answered %d, want %d", name, status, c.want)
		}
	}
	if n := f.did(); n != 0 {
		t.Errorf("the node was asked for %q", f.asked)
	}
	if status := ask(plain+"; charset=utf-8", `{"passes":["x"]}`); status != 200 {
		t.Errorf("a body that is as it must be is answered %d", status)
	}
	status, _ := stranger(t, s, head("GET /v1/status", "Host: localhost", "X-Long: "+strings.Repeat("x", headMax+4096)))
	if status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long head is answered %d", status)
	}
	chunked := head("POST /v1/cordon", "Host: localhost", "Authorization: Bearer "+token, "Content-Type: "+plain, "Transfer-Encoding: chunked") +
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(large), large)
	if status, _ := stranger(t, s, chunked); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body of unknown length is answered %d", status)
	}
}

// Requests at once, connections at once, and the time of a head are bounded; what is there is
// served all the same.
func TestTheDoorIsNotCrowded(t *testing.T) {
	entered, leave := make(chan struct{}, requestsMax+1), make(chan struct{})
	f := &fake{status: func() {
		entered <- struct{}{}
		<-leave
	}}
	s, c := door(t, f)
	served := make(chan error, requestsMax)
	for range requestsMax {
		go func() {
			_, err := c.Status(t.Context())
			served <- err
		}()
	}
	for range requestsMax {
		<-entered
	}
	_, err := c.Status(t.Context())
	wantError(t, err, http.StatusServiceUnavailable, errkind.CapacityExceeded)
	close(leave)
	for range requestsMax {
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	c.Close()

	var idle []net.Conn
	defer func() {
		for _, conn := range idle {
			_ = conn.Close()
		}
	}()
	bounded := s.port.(*bounded)
	eventually(t, "the connections are over", func() bool { return bounded.open.Load() == 0 })
	for range connsMax {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	eventually(t, "they are there", func() bool { return bounded.open.Load() == connsMax })
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("one connection more is served")
	}
	_ = idle[0].Close()
	eventually(t, "there is room again", func() bool {
		_, err := c.Status(t.Context())
		return err == nil
	})
}

// A client that says its request slowly is cut off, before the token or behind it.
func TestSlowClientsAreCutOff(t *testing.T) {
	f := &fake{}
	s, _ := door(t, f, func(h *http.Server) {
		if h.ReadHeaderTimeout != headTime || h.ReadTimeout != readTime || h.WriteTimeout != writeTime || h.IdleTimeout != idleTime {
			t.Errorf("the times are %v, %v, %v and %v", h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout, h.IdleTimeout)
		}
		h.ReadHeaderTimeout, h.ReadTimeout = 20*time.Millisecond, 40*time.Millisecond
	})
	for _, begin := range []string{
		"GET /v1/sta",
		head("POST /v1/cordon", "Host: localhost", "Authorization: Bearer "+token, "Content-Type: application/json", "Content-Length: 20") + `{"pas`,
	} {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, begin)
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		b, err := io.ReadAll(conn) // to the end of the connection
		if err != nil || bytes.Contains(b, []byte("200 OK")) {
			t.Errorf("%.20q: %q, %v", begin, b, err)
		}
		_ = conn.Close()
	}
	if n := f.did(); n != 0 {
		t.Errorf("the node was asked for %q", f.asked)
	}
}

// A wait is longer than the time that a request has to come.
func TestAWaitOutlivesTheTimesOfRequests(t *testing.T) {
	f := &fake{at: &Relocation{Running: true}}
	_, c := door(t, f, func(h *http.Server) { h.ReadTimeout, h.WriteTimeout = 30*time.Millisecond, 30*time.Millisecond })
	first, err := c.Relocation(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Relocation(t.Context(), first.Seen, 3*lookEvery); err != nil || r.Seen != first.Seen {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestOnlyThisMachineIsListenedTo(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "10.0.0.1:0", "192.168.0.1:0", "example.org:0", "127.0.0.1.example.org:0", "127.0.0.1", ""} {
		if l, err := Listen(addr); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", addr, err)
			if err == nil {
				_ = l.Close()
			}
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "127.0.0.2:0", "localhost:0"} {
		l, err := Listen(addr)
		if err != nil {
			t.Errorf("%q: %v", addr, err)
			continue
		}
		_ = l.Close()
	}
	if err := CheckToken([]byte("fifteen bytes..")); !errors.Is(err, ErrToken) {
		t.Errorf("a short token: %v", err)
	}
	if err := CheckToken([]byte("sixteen bytes...")); err != nil {
		t.Error(err)
	}
}

// A client takes its answers from a door and from nobody else.
func TestAClientTellsWhatIsNoDoor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan string, 8)
	other := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body, _ := strings.Cut(<-answers, " ")
		if status == "302" {
			w.Header().Set("Location", "http://"+l.Addr().String()+"/elsewhere")
		}
		var code int
		_, _ = fmt.Sscan(status, &code)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = other.Serve(l)
	}()
	defer func() {
		_ = other.Close()
		<-served
	}()
	c := NewClient(l.Addr().String(), []byte(token))
	defer c.Close()
	for _, answer := range []string{"200 hello", "404 not found", "500 {}", "302 x"} {
		answers <- answer
		if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
