package zlnode_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

// enters logs in as the avatar of that id, and returns the Session's token.
func (c *carried) enters(id string) (token string) {
	c.t.Helper()
	c.ask(1, "login", `{"ID":"`+id+`"}`)
	return unquoted(c.t, c.ask(2, "token", `{}`))
}

func unquoted(t *testing.T, text string) string {
	t.Helper()
	s, err := strconv.Unquote(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// resumes goes on where the Session of that token was, behind the push of that number, and
// fails unless these pushes come first, in order.
func (c *carried) resumes(token string, last uint64, want ...string) {
	c.t.Helper()
	c.write(frames(c.t, request(1, "resume", jsonOf(c.t, comeBack{token, last}))))
	for i := 0; ; i++ {
		p, _, err := c.next()
		switch {
		case err != nil:
			c.t.Fatal(err)
		case p.Kind == session.KindResponse && i == len(want):
			return
		case i >= len(want) || string(p.Name)+" "+string(p.Payload[:min(len(p.Payload), 8)]) != want[i] || p.Meta.PushNumber() != uint64(i+1):
			c.t.Fatalf("%v %q %.40q with number %d came, want %d of %q", p.Kind, p.Name, p.Payload, p.Meta.PushNumber(), i, want)
		}
	}
}

// reset ends the connection as a network does, below all that it carries.
func (c *carried) reset() {
	c.t.Helper()
	conn := c.conn
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	conn.Close()
}

// oneNode runs f on a node with these session ports, on which the Actors live, too.
func oneNode(t *testing.T, ports []zlnode.SessionListener, f func(s *stage)) {
	t.Parallel()
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	s := newStage(newWorld(t, e.URL()))
	s.gateway = s.startWith(zlnode.Config{RID: "a-both", Role: zlnode.RoleServer}, func(c *zlnode.Config) {
		for i := range ports {
			ports[i].Addr, ports[i].Type = "127.0.0.1:0", "player"
		}
		c.Sessions = ports
	})
	s.owner = s.gateway
	f(s)
}

// A client comes back over each transport, whether its connection was reset or has ended in
// order below the protocol, as that of a process does which is killed.
func TestAClientComesBackOverEachTransport(t *testing.T) {
	server, cfg := certificate()
	files := certificateFiles(t, server)
	var ports []zlnode.SessionListener
	for _, transport := range transports {
		l := zlnode.SessionListener{Transport: transport, ReconnectGrace: time.Minute}
		if transport.Encrypted() {
			l.TLSFiles = files
		}
		ports = append(ports, l)
	}
	oneNode(t, ports, func(s *stage) {
		for port, transport := range transports {
			for end, lose := range map[string]func(*carried){"reset": (*carried).reset, "end": func(c *carried) { c.conn.Close() }} {
				id := fmt.Sprint(transport, " ", end)
				c := s.carry(t, transport, port, cfg)
				token := c.enters(id)
				s.tick(id, 2)
				lose(c)
				s.reserved(1)
				s.isAway(id, true)
				s.tick(id, 1)
				c = s.carry(t, transport, port, cfg)
				c.resumes(token, 0, "tick 0", "tick 1", "tick 2")
				s.isAway(id, false)
				if got := c.ask(3, "note", "8"); got != "8" {
					t.Errorf("%s: the answer is %s", id, got)
				}
				if why := receive(t, s.closed); why.Code != zlnode.SessionResumed {
					t.Errorf("%s: the old session ended with %v", id, why)
				}
			}
		}
	})
}

// A Session is reserved as well if it is the node that gives its connection up, because nothing
// is heard of the client, or because it takes nothing: so it is when the network is gone. One
// that takes something, and too little, is there, and its Session ends.
func TestASessionOfAConnectionThatWasGivenUpIsReserved(t *testing.T) {
	const kept = 8 << 20
	oneNode(t, []zlnode.SessionListener{
		{ReconnectGrace: time.Minute},
		{ReconnectGrace: time.Minute, ReconnectBytes: kept, StallTimeout: 500 * time.Millisecond},
		{ReconnectGrace: time.Minute, ReconnectBytes: kept, OutTime: 250 * time.Millisecond},
		{ReconnectGrace: time.Minute, ReconnectBytes: kept, OutBytes: 256 << 10, OutBurstBytes: 1 << 20},
	}, func(s *stage) {
		enter := func(port int, id string) (*carried, string) {
			c := s.carry(t, zlnode.TCP, port, nil)
			if err := c.conn.(*net.TCPConn).SetReadBuffer(32 << 10); err != nil {
				t.Fatal(err)
			}
			return c, c.enters(id)
		}
		_, silent := enter(0, "silent") // for the 5 s that clients are given
		s.tick("silent", 1)

		const pushes = 15 // of 64 KiB: more than the kernel holds
		want := make([]string, pushes)
		for i := range want {
			want[i] = "flood " + string(make([]byte, 8))
		}
		for i, id := range []string{"stalled", "stuck"} {
			_, token := enter(1+i, id)
			for range pushes {
				if _, err := s.ask(id, "flood", 64<<10); err != nil {
					t.Fatal(err)
				}
			}
			s.reserved(1)
			s.isAway(id, true)
			c := s.carry(t, zlnode.TCP, 1+i, nil)
			c.resumes(token, 0, want...)
			if why := receive(t, s.closed); why.Code != zlnode.SessionResumed {
				t.Errorf("%s: the old session ended with %v", id, why)
			}
			s.isAway(id, false)
			c.conn.Close()
			s.reserved(1)
			if _, err := s.ask(id, "kick", ""); err != nil {
				t.Fatal(err)
			}
			receive(t, s.closed)
		}

		_, slow := enter(3, "slow")
		var err error
		for range 64 {
			if _, err = s.ask("slow", "flood", 64<<10); err != nil {
				break
			}
		}
		wantKind(t, err, zlnode.Unavailable)
		if why := receive(t, s.closed); why.Code != zlnode.ClientSlow {
			t.Errorf("slow: the session ended with %v", why)
		}
		s.noSession(t, slow)

		s.reserved(1)
		s.isAway("silent", true)
		s.tick("silent", 1)
		s.carry(t, zlnode.TCP, 0, nil).resumes(silent, 0, "tick 0", "tick 1")
		if why := receive(t, s.closed); why.Code != zlnode.SessionResumed {
			t.Errorf("silent: the old session ended with %v", why)
		}
	})
}
