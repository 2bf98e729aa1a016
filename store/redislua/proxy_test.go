package redislua

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/zlnode/zlnode/scripts/lua"
)

// proxy stands between a Store and its Redis and does what a bad network does. It
// counts the script calls that it passed on, and holds answers to those only, so
// that new connections come about.
type proxy struct {
	t     testing.TB
	addr  string
	pumps sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond // of what is below
	target   *url.URL
	listener net.Listener
	links    map[*link]bool
	held     bool                // answers wait
	scripts  int                 // EVALSHA and EVAL seen
	passed   int                 // of them written to the server
	edit     func([]byte) []byte // what becomes of an answer
	trap     *caught             // waits for a call
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	asked          bool    // a script call went over it
	caught         *caught // the call of it that was caught
}

// caught is a script call that the proxy keeps on its way. Other connections go on.
type caught struct {
	p      *proxy
	script lua.Script
	at     stretch
	link   *link  // once it came by
	gone   bool   // it may go on
	answer []byte // what the server said
}

// stretch is where a call is caught.
type stretch int

const (
	wayThere stretch = iota // the server does not have it
	wayBack                 // the server has answered it
)

var errCut = errors.New("the connection was cut")

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, target: u, links: map[*link]bool{}, addr: "127.0.0.1:0"}
	p.changed = sync.NewCond(&p.mu)
	p.start()
	t.Cleanup(func() {
		p.stop()
		p.pumps.Wait()
	})
	return p
}

// url is the target's with the proxy's address.
func (p *proxy) url() string {
	u := *p.target
	u.Host = p.addr
	return u.String()
}

// start listens, again on the same address after stop.
func (p *proxy) start() {
	p.t.Helper()
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.listener, p.addr = l, l.Addr().String()
	p.mu.Unlock()
	p.pumps.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			var target string
			p.set(func() { target = p.target.Host })
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			l := &link{client: client, server: server}
			p.set(func() { p.links[l] = true })
			p.pumps.Go(func() { p.pump(l, client, server, p.request) })
			p.pumps.Go(func() { p.pump(l, server, client, p.answer) })
		}
	})
}

// stop refuses new connections and cuts those that are.
func (p *proxy) stop() {
	p.mu.Lock()
	_ = p.listener.Close()
	p.mu.Unlock()
	p.cut()
}

// lead makes new connections go to another server, and ends all others.
func (p *proxy) lead(target string) {
	p.t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		p.t.Fatal(err)
	}
	p.set(func() { p.target = u })
	p.cut()
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		_, _ = l.client.Close(), l.server.Close()
	}
	clear(p.links)
	p.changed.Broadcast()
}

// hold keeps answers back until release or the end of their connection.
func (p *proxy) hold() { p.set(func() { p.held = true }) }

func (p *proxy) release() { p.set(func() { p.held = false }) }

// editAnswers makes f see, and return, what is passed on of each answer.
func (p *proxy) editAnswers(f func([]byte) []byte) { p.set(func() { p.edit = f }) }

func (p *proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

// catch keeps the next call of the script, which the server must have loaded.
func (p *proxy) catch(script lua.Script, at stretch) *caught {
	c := &caught{p: p, script: script, at: at}
	p.set(func() { p.trap = c })
	return c
}

// wait waits until the call is caught.
func (c *caught) wait() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for c.link == nil || c.at == wayBack && c.answer == nil {
		c.p.changed.Wait()
	}
}

// letGo lets the call go on and returns the server's answer to it.
func (c *caught) letGo() []byte {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.gone = true
	c.p.changed.Broadcast()
	for c.answer == nil && c.p.links[c.link] {
		c.p.changed.Wait()
	}
	return c.answer
}

// drop ends the call's connection, by a reset if so wanted.
func (c *caught) drop(reset bool) {
	c.p.set(func() {
		for _, conn := range []net.Conn{c.link.client, c.link.server} {
			if tcp, is := conn.(*net.TCPConn); is && reset {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		}
		delete(c.p.links, c.link)
	})
}

// waitForScripts waits until n script calls in all were passed on.
func (p *proxy) waitForScripts(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.passed < n {
		p.changed.Wait()
	}
}

func (p *proxy) scriptsSeen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scripts
}

func (p *proxy) pump(l *link, from, to net.Conn, pass func(*link, []byte) error) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.set(func() { delete(p.links, l) })
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil || pass(l, b[:n]) != nil {
			return
		}
	}
}

func (p *proxy) request(l *link, b []byte) error {
	calls := bytes.Count(b, []byte("\r\nevalsha\r\n")) + bytes.Count(b, []byte("\r\neval\r\n"))
	p.mu.Lock()
	l.asked = l.asked || calls > 0
	p.scripts += calls
	if c := p.trap; c != nil && bytes.Contains(b, []byte(c.script.SHA)) {
		p.trap, c.link, l.caught = nil, l, c
	}
	c := l.caught
	p.changed.Broadcast()
	for c != nil && c.at == wayThere && !c.gone && p.links[l] {
		p.changed.Wait()
	}
	there := p.links[l]
	p.mu.Unlock()
	if !there {
		return errCut
	}
	_, err := l.server.Write(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed += calls
	p.changed.Broadcast()
	for c != nil && c.answer == nil && p.links[l] && err == nil {
		p.changed.Wait() // also if the caller has gone meanwhile
	}
	return err
}

func (p *proxy) answer(l *link, b []byte) error {
	p.mu.Lock()
	c := l.caught
	if c != nil {
		c.answer = append(c.answer, b...)
		p.changed.Broadcast()
	}
	for (p.held && l.asked || c != nil && c.at == wayBack && !c.gone) && p.links[l] {
		p.changed.Wait()
	}
	edit := p.edit
	p.mu.Unlock()
	if edit != nil {
		b = edit(b)
	}
	_, err := l.client.Write(b)
	return err
}
