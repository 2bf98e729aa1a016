package zlnode_test

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/scripts/lua"
)

// storeProxy is the road to a Store that loses the answer to one script: the
// script runs, its answer is swallowed, and the Store is out of reach until heal. Or it
// lets no call of one script pass, and all others; or it keeps one's on the way.
type storeProxy struct {
	ln     net.Listener
	target string
	work   sync.WaitGroup
	lose   atomic.Pointer[string] // SHA of the script whose answer is to be lost
	bar    atomic.Pointer[string] // SHA of the script that is to reach the Store no more
	barred atomic.Int64           // its calls
	late   atomic.Pointer[lateScript]
	away   atomic.Bool
	lost   chan struct{} // one value when it happened

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// behindProxy makes a proxy to the world's Store; nodes started afterwards use it.
func (w *world) behindProxy() *storeProxy {
	w.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	p := &storeProxy{ln: ln, target: strings.TrimPrefix(w.url, "redis://"), lost: make(chan struct{}, 1), conns: map[net.Conn]struct{}{}}
	w.url = "redis://" + ln.Addr().String()
	p.work.Go(p.accept)
	w.t.Cleanup(func() {
		ln.Close()
		p.cut()
		p.work.Wait()
	})
	return p
}

func (p *storeProxy) loseAnswerTo(s lua.Script) { p.lose.Store(&s.SHA) }

// barScript lets no call of the script pass until passAll.
func (p *storeProxy) barScript(s lua.Script) { p.bar.Store(&s.SHA) }
func (p *storeProxy) passAll()               { p.bar.Store(nil) }

// lateScript is one whose calls reach the Store late, perhaps behind who gave them up.
type lateScript struct {
	sha  string
	goOn chan struct{}
}

// keepScript keeps the calls of the script on their way, until letGo.
func (p *storeProxy) keepScript(s lua.Script) (letGo func()) {
	late := &lateScript{s.SHA, make(chan struct{})}
	p.late.Store(late)
	return sync.OnceFunc(func() {
		p.late.Store(nil)
		close(late.goOn)
	})
}

// goAway cuts all connections and takes no new ones until heal.
func (p *storeProxy) goAway() {
	p.away.Store(true)
	p.cut()
}

func (p *storeProxy) heal() { p.away.Store(false) }

func (p *storeProxy) accept() {
	for {
		from, err := p.ln.Accept()
		if err != nil {
			return
		}
		if p.away.Load() {
			from.Close()
			continue
		}
		to, err := net.Dial("tcp", p.target)
		if err != nil {
			from.Close()
			continue
		}
		p.mu.Lock()
		p.conns[from], p.conns[to] = struct{}{}, struct{}{}
		p.mu.Unlock()
		if p.away.Load() { // it went while this one was made
			p.cut()
		}
		var swallow atomic.Bool
		p.work.Go(func() { p.pass(from, to, func(b []byte) bool { return p.ask(b, &swallow) }) })
		p.work.Go(func() { p.pass(to, from, func([]byte) bool { return p.answer(&swallow) }) })
	}
}

func (p *storeProxy) pass(from, to net.Conn, look func([]byte) bool) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && !look(b[:n]) {
			return
		}
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// ask sees what a node sends: the armed script arms the connection, the barred one ends it.
func (p *storeProxy) ask(b []byte, swallow *atomic.Bool) bool {
	if sha := p.bar.Load(); sha != nil && bytes.Contains(b, []byte(*sha)) {
		p.barred.Add(1)
		return false
	}
	if late := p.late.Load(); late != nil && bytes.Contains(b, []byte(late.sha)) {
		<-late.goOn
		return true
	}
	if sha := p.lose.Load(); sha != nil && bytes.Contains(b, []byte(*sha)) && p.lose.CompareAndSwap(sha, nil) {
		swallow.Store(true)
	}
	return true
}

// answer sees what the Store sends.
func (p *storeProxy) answer(swallow *atomic.Bool) bool {
	if !swallow.Load() {
		return true
	}
	p.goAway()
	p.lost <- struct{}{}
	return false
}

func (p *storeProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}
