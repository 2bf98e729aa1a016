package zlnode_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/session"
)

// What a client can bring about with each of its packets fills no log: of a kind one line a
// second is written, and none of what is the client's own doing.
func TestAClientsPacketsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	const rounds, each = 20, 50
	const (
		panicked         = "application code panicked"
		anActorsSend     = "a send handler failed"
		anActorsRequest  = "a request failed by its handler, or by who asked"
		aSessionsRequest = "a session's request failed by its handler, or by who asked"
	)
	for what, c := range map[string]struct {
		packet session.Packet
		lines  []string
	}{
		"a panic of an Actor":                {request(1, "fail in actor", `"panic"`), []string{panicked, anActorsRequest}},
		"an error of an Actor":               {request(1, "fail in actor", `"plain"`), []string{anActorsRequest}},
		"a send that its Actor has not":      {send("echo", `1`), []string{anActorsSend}},
		"a send of another form":             {send("note", `"x"`), nil},
		"a request of another form":          {request(1, "note", `"x"`), nil},
		"a panic of a Session":               {request(1, "fail in session", `"panic"`), []string{panicked, aSessionsRequest}},
		"an error of a Session":              {request(1, "fail in session", `"plain"`), []string{aSessionsRequest}},
		"a send of another form, to Session": {send("mark", `"x"`), nil},
		"a name that nobody has":             {request(1, "nothing", `1`), nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var log logLines
			s := guestStage(t, func(*stage, *guests) {}, nil, log.logged(zerolog.WarnLevel))
			p := dialStream(t, s.gateway.SessionAddrs()[1].String())
			p.write(request(1, "login", `{"ID":"a"}`))
			p.answer(1)
			log.clear()
			began, seq := time.Now(), uint64(1)
			for range rounds {
				var packets []session.Packet
				for range each {
					q := c.packet
					if q.Kind == session.KindRequest {
						seq++
						q.Seq = seq
					}
					packets = append(packets, q)
				}
				// The last ones end behind those before them.
				packets = append(packets, request(seq+1, "note", "1"), request(seq+2, "mark", "1"))
				seq += 2
				p.write(packets...)
				ended := 2
				if c.packet.Kind == session.KindRequest {
					ended += each
				}
				for range ended {
					p.read()
				}
			}
			seconds := int(time.Since(began)/time.Second) + 1
			for _, line := range c.lines {
				if n := len(log.saying(line)); n < 1 || n > seconds {
					t.Errorf("%q was logged %d times in %d s", line, n, seconds)
				}
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			if n := len(log.all); n > len(c.lines)*seconds {
				t.Errorf("%d lines were logged in %d s: %+v", n, seconds, log.all[:min(n, 3)])
			}
		})
	}
}
