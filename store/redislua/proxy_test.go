package redislua

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy stands between a Store and its Redis and does what a bad network does. It
// counts the script calls that it passed on.
type proxy struct {
	t      testing.TB
	target string
	addr   string
	pumps  sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond // of what is below
	listener net.Listener
	conns    map[net.Conn]bool
	held     bool                // answers wait
	scripts  int                 // EVALSHA and EVAL seen
	edit     func([]byte) []byte // what becomes of an answer
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := &proxy{t: t, target: strings.TrimPrefix(target, "redis://"), conns: map[net.Conn]bool{}, addr: "127.0.0.1:0"}
	p.changed = sync.NewCond(&p.mu)
	p.start()
	t.Cleanup(func() {
		p.stop()
		p.pumps.Wait()
	})
	return p
}

func (p *proxy) url() string { return "redis://" + p.addr }

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
			server, err := net.Dial("tcp", p.target)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.conns[client], p.conns[server] = true, true
			p.mu.Unlock()
			p.pumps.Go(func() { p.pump(client, server, p.request) })
			p.pumps.Go(func() { p.pump(server, client, p.answer) })
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
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
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
	for p.scripts < n {
		p.changed.Wait()
	}
}

func (p *proxy) scriptsSeen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scripts
}

func (p *proxy) pump(from, to net.Conn, pass func(conn net.Conn, b []byte) []byte) {
	defer func() {
		_, _ = from.Close(), to.Close()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := to.Write(pass(from, b[:n])); err != nil {
			return
		}
	}
}

func (p *proxy) request(_ net.Conn, b []byte) []byte {
	p.set(func() {
		p.scripts += bytes.Count(b, []byte("\r\nevalsha\r\n")) + bytes.Count(b, []byte("\r\neval\r\n"))
	})
	return b
}

func (p *proxy) answer(conn net.Conn, b []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held && p.conns[conn] {
		p.changed.Wait()
	}
	if p.edit != nil {
		return p.edit(b)
	}
	return b
}
