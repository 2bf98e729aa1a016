package redislua

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a Store and its Redis and does what a bad network does. It
// counts the script calls that it passed on, and holds answers to those only, so
// that new connections come about.
type proxy struct {
	t      testing.TB
	target *url.URL
	addr   string
	pumps  sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond // of what is below
	listener net.Listener
	links    map[*link]bool
	held     bool                // answers wait
	scripts  int                 // EVALSHA and EVAL seen
	passed   int                 // of them written to the server
	edit     func([]byte) []byte // what becomes of an answer
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	asked          bool // a script call went over it
}

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
			server, err := net.Dial("tcp", p.target.Host)
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
	p.set(func() {
		l.asked = l.asked || calls > 0
		p.scripts += calls
	})
	_, err := l.server.Write(b)
	p.set(func() { p.passed += calls })
	return err
}

func (p *proxy) answer(l *link, b []byte) error {
	p.mu.Lock()
	for p.held && l.asked && p.links[l] {
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
