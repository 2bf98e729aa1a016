package zlnode_test

import (
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/zlnode/zlnode/internal/wire"
)

// proxy is the road to a node, which a test can cut for those who use it. It
// listens on the port that the node advertises and passes connections on to the
// same port of the host that the node really listens on.
type proxy struct {
	ln     net.Listener
	target string
	work   sync.WaitGroup

	mu    sync.Mutex
	cutBy map[string]bool // RIDs that may not pass
	ways  []*way
}

// way is one connection and the beginnings of what its ends said.
type way struct {
	dialler, acceptor []byte
	rid               string // of the dialler, once it has said hello
	conns             [2]net.Conn
}

func newProxy(t *testing.T, advertised, host string) *proxy {
	t.Helper()
	_, port, err := net.SplitHostPort(advertised)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", advertised)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, target: net.JoinHostPort(host, port), cutBy: map[string]bool{}}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		ln.Close()
		for _, w := range p.all() {
			w.close()
		}
		p.work.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		from, err := p.ln.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.target)
		if err != nil {
			from.Close()
			continue
		}
		w := &way{conns: [2]net.Conn{from, to}}
		p.mu.Lock()
		p.ways = append(p.ways, w)
		p.mu.Unlock()
		p.work.Go(func() { p.pass(w, from, to, &w.dialler) })
		p.work.Go(func() { p.pass(w, to, from, &w.acceptor) })
	}
}

// pass moves bytes one way until either end closes.
func (p *proxy) pass(w *way, from, to net.Conn, heard *[]byte) {
	defer w.close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil || !p.hear(w, heard, b[:n]) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// hear notes what one end says and reports whether it may pass.
func (p *proxy) hear(w *way, heard *[]byte, b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(*heard) < wire.PreAdmitMax {
		*heard = append(*heard, b...)
	}
	if h := firstHello(w.dialler); w.rid == "" && h != nil {
		w.rid = string(h.RID)
	}
	return !p.cutBy[w.rid]
}

// firstHello returns the hello that the bytes of one end begin with, or nil.
func firstHello(b []byte) *wire.Hello {
	size, err := wire.RecordSize(b, wire.PreAdmitMax)
	if err != nil || size == 0 || size > len(b) {
		return nil
	}
	r, err := wire.Decode(b[:size])
	if err != nil {
		return nil
	}
	h, _ := r.(*wire.Hello)
	return h
}

func (w *way) close() {
	for _, c := range w.conns {
		c.Close()
	}
}

// cut ends the node's connections and lets none of it pass until open.
func (p *proxy) cut(rid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutBy[rid] = true
	for _, w := range p.ways {
		if w.rid == rid {
			w.close()
		}
	}
}

func (p *proxy) open(rid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.cutBy, rid)
}

// all returns the connections that there were. Those that were refused ended
// with their dialler's hello.
func (p *proxy) all() []way {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []way
	for _, w := range p.ways {
		out = append(out, *w)
	}
	return out
}

// passed reports whether the node of that RID, or any if it is "", has sent such a record.
func (p *proxy) passed(rid string, cmd wire.Command) bool {
	return slices.ContainsFunc(p.all(), func(w way) bool {
		return (rid == "" || w.rid == rid) && slices.Contains(commands(w.dialler), cmd)
	})
}

// commands lists the whole records that b begins with.
func commands(b []byte) (out []wire.Command) {
	for {
		size, err := wire.RecordSize(b, wire.MaxRecord)
		if err != nil || size == 0 || size > len(b) {
			return out
		}
		out = append(out, wire.Command(b[4]))
		b = b[size:]
	}
}
