package faultproxy

import (
	"bytes"
	"net"
	"slices"
	"sync"

	"github.com/zlnode/zlnode/internal/wire"
)

// Roads are the roads between nodes: what one says to another passes record by record,
// and a test can stop it at a certain one. A node is dialled through its road if it
// advertises it: see Behind. Safe for concurrent use.
type Roads struct {
	work sync.WaitGroup

	mu    sync.Mutex
	lns   []net.Listener
	conns map[net.Conn]pair
	away  map[pair]bool
	still map[pair]chan struct{} // closed when they go on
	stops []*Stop
	count map[passing]int
	bytes map[passing]int
	alter []func(passing, int, []byte) // each sees a record, of which it is the nth, and may change it
}

// pair is two nodes, in the order of their names.
type pair [2]string

func pairOf(a, b string) pair {
	if b < a {
		a, b = b, a
	}
	return pair{a, b}
}

// passing is what passes: a kind of record, from one node to another.
type passing struct {
	from, to string
	cmd      wire.Command
}

// Action is what a road does at a record.
type Action int

// The actions.
const (
	CutBefore   Action = iota // the record is lost with the link, and there is no other until Open
	CutBehind                 // the record is the last that comes
	StallBefore               // nothing passes between the two, from the record on, until GoOn
)

// Stop is where a road ends.
type Stop struct {
	Reached chan struct{} // closed then

	at  passing
	nth int
	do  Action
}

// New returns roads of which nothing is cut.
func New() *Roads {
	return &Roads{
		conns: map[net.Conn]pair{}, away: map[pair]bool{}, still: map[pair]chan struct{}{},
		count: map[passing]int{}, bytes: map[passing]int{},
	}
}

// Close ends all that is under way, and waits.
func (r *Roads) Close() {
	r.mu.Lock()
	for _, ln := range r.lns {
		_ = ln.Close() // nobody comes any more either way
	}
	for c := range r.conns {
		closes(c)
	}
	for _, c := range r.still {
		close(c)
	}
	clear(r.still)
	r.mu.Unlock()
	r.work.Wait()
}

// Behind returns what the node of that RID is to advertise, where its road begins, and on
// what it is to listen, where the road leads.
func (r *Roads) Behind(rid string) (advertise, listen string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	r.mu.Lock()
	r.lns = append(r.lns, ln)
	r.mu.Unlock()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		return "", "", err
	}
	listen = net.JoinHostPort("127.0.0.2", port)
	r.work.Go(func() { r.accept(ln, rid, listen) })
	return ln.Addr().String(), listen, nil
}

func (r *Roads) accept(ln net.Listener, rid, target string) {
	for {
		from, err := ln.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", target)
		if err != nil {
			closes(from)
			continue
		}
		var dialler sync.WaitGroup // until it is known
		dialler.Add(1)
		var other string
		r.work.Go(func() {
			defer closes(from)
			defer closes(to)
			first := true
			r.pass(from, to, func(record []byte) (string, string) {
				if first {
					if h := hello(record); h != nil {
						other = string(h.RID)
					}
					r.opened(pairOf(other, rid), from, to)
					first = false
					dialler.Done()
				}
				return other, rid
			})
			if first {
				dialler.Done()
			}
			r.closed(from, to)
		})
		r.work.Go(func() {
			defer closes(from)
			defer closes(to)
			dialler.Wait()
			r.pass(to, from, func([]byte) (string, string) { return rid, other })
		})
	}
}

func (r *Roads) opened(p pair, conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = p
	}
}

func (r *Roads) closed(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.conns, c)
	}
}

// pass moves records one way until either end closes, or the road does.
func (r *Roads) pass(from, to net.Conn, who func(record []byte) (from, to string)) {
	var in []byte
	b := make([]byte, 64<<10)
	for {
		size, err := wire.RecordSize(in, wire.MaxRecord)
		if err != nil {
			return
		}
		if size == 0 || size > len(in) {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			in = append(in, b[:n]...)
			continue
		}
		record := in[:size:size]
		in = in[size:]
		sender, receiver := who(record)
		goes, last := r.look(passing{sender, receiver, wire.Command(record[4])}, record)
		if goes {
			if _, err := to.Write(record); err != nil {
				return
			}
		}
		if !goes || last { // whoever passes records closes the connection
			r.closeAll(pairOf(sender, receiver))
			return
		}
	}
}

// look decides about one record, after it has waited if the road is still.
func (r *Roads) look(p passing, record []byte) (goes, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	between := pairOf(p.from, p.to)
	if r.away[between] {
		return false, false
	}
	r.count[p]++
	r.bytes[p] += len(record)
	for _, alter := range r.alter {
		alter(p, r.count[p], record)
	}
	goes = true
	for _, s := range r.stops {
		if s.at != p || s.nth != r.count[p] {
			continue
		}
		switch s.do {
		case CutBefore:
			goes, r.away[between] = false, true
		case CutBehind:
			last, r.away[between] = true, true
		case StallBefore:
			r.still[between] = make(chan struct{})
		}
		close(s.Reached)
	}
	if wait := r.still[between]; wait != nil {
		r.mu.Unlock()
		<-wait
		r.mu.Lock()
	}
	return goes, last
}

// At stops the road at the nth record of that kind, counted from the test's beginning.
func (r *Roads) At(do Action, from, to string, cmd wire.Command, nth int) *Stop {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Stop{at: passing{from, to, cmd}, nth: nth, do: do, Reached: make(chan struct{})}
	r.stops = append(r.stops, s)
	return s
}

func (r *Roads) closeAll(between pair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, p := range r.conns {
		if p == between {
			closes(c)
		}
	}
}

// Open lets them link again.
func (r *Roads) Open(a, b string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.away, pairOf(a, b))
}

// GoOn ends a stall.
func (r *Roads) GoOn(a, b string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.still[pairOf(a, b)]; wait != nil {
		close(wait)
		delete(r.still, pairOf(a, b))
	}
}

// Damage changes each record of that kind.
func (r *Roads) Damage(from, to string, cmd wire.Command, change func(nth int, record []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alter = append(r.alter, func(p passing, nth int, record []byte) {
		if p == (passing{from, to, cmd}) {
			change(nth, record)
		}
	})
}

// Watch has see look at each record of that kind.
func (r *Roads) Watch(from, to string, cmd wire.Command, see func(wire.Record)) {
	r.Damage(from, to, cmd, func(_ int, record []byte) {
		if got, err := wire.Decode(bytes.Clone(record)); err == nil {
			see(got)
		}
	})
}

// Passed returns how many records of that kind have come to the road, and their bytes.
func (r *Roads) Passed(from, to string, cmd wire.Command) (records, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := passing{from, to, cmd}
	return r.count[p], r.bytes[p]
}

// Forget forgets the stops that are left.
func (r *Roads) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops, r.alter = slices.Clip(r.stops[:0]), nil
}

// closes closes a connection of which nobody wants to know more.
func closes(c net.Conn) { _ = c.Close() }

// hello returns the first record of a dialler, if it is one.
func hello(b []byte) *wire.Hello {
	r, err := wire.Decode(b)
	if err != nil {
		return nil
	}
	h, _ := r.(*wire.Hello)
	return h
}
