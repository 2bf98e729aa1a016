package zlnode_test

import (
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// linkRoads are the roads between nodes: what one says to another passes record by record,
// and a test can stop it at a certain one. A node that is started with behind is dialled
// through its road.
type linkRoads struct {
	t    *testing.T
	work sync.WaitGroup

	mu    sync.Mutex
	lns   []net.Listener
	conns map[net.Conn]pair
	away  map[pair]bool
	still map[pair]chan struct{} // closed when they go on
	stops []*roadStop
	count map[passing]int
	bytes map[passing]int
	alter func(passing, int, []byte) // changes a record, of which it is the nth
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

type roadAction int

const (
	cutBefore   roadAction = iota // the record is lost with the link, and there is no other until open
	cutBehind                     // the record is the last that comes
	stallBefore                   // nothing passes between the two, from the record on, until goOn
)

// roadStop is where a road ends.
type roadStop struct {
	at      passing
	nth     int
	do      roadAction
	reached chan struct{}
}

func newLinkRoads(t *testing.T) *linkRoads {
	r := &linkRoads{
		t: t, conns: map[net.Conn]pair{}, away: map[pair]bool{}, still: map[pair]chan struct{}{},
		count: map[passing]int{}, bytes: map[passing]int{},
	}
	t.Cleanup(func() {
		r.mu.Lock()
		for _, ln := range r.lns {
			ln.Close()
		}
		for c := range r.conns {
			c.Close()
		}
		for _, c := range r.still {
			close(c)
		}
		clear(r.still)
		r.mu.Unlock()
		r.work.Wait()
	})
	return r
}

// behind has the node of that configuration be dialled through its road.
func (r *linkRoads) behind(c zlnode.Config) zlnode.Config {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.lns = append(r.lns, ln)
	r.mu.Unlock()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	c.Advertise, c.Listen = ln.Addr().String(), net.JoinHostPort("127.0.0.2", port)
	r.work.Go(func() { r.accept(ln, c.RID, c.Listen) })
	return c
}

func (r *linkRoads) accept(ln net.Listener, rid, target string) {
	for {
		from, err := ln.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", target)
		if err != nil {
			from.Close()
			continue
		}
		var dialler sync.WaitGroup // until it is known
		dialler.Add(1)
		var other string
		r.work.Go(func() {
			defer from.Close()
			defer to.Close()
			first := true
			r.pass(from, to, func(record []byte) (string, string) {
				if first {
					if h := firstHello(record); h != nil {
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
			defer from.Close()
			defer to.Close()
			dialler.Wait()
			r.pass(to, from, func([]byte) (string, string) { return rid, other })
		})
	}
}

func (r *linkRoads) opened(p pair, conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = p
	}
}

func (r *linkRoads) closed(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.conns, c)
	}
}

// pass moves records one way until either end closes, or the road does.
func (r *linkRoads) pass(from, to net.Conn, who func(record []byte) (from, to string)) {
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
func (r *linkRoads) look(p passing, record []byte) (goes, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	between := pairOf(p.from, p.to)
	if r.away[between] {
		return false, false
	}
	r.count[p]++
	r.bytes[p] += len(record)
	if r.alter != nil {
		r.alter(p, r.count[p], record)
	}
	goes = true
	for _, s := range r.stops {
		if s.at != p || s.nth != r.count[p] {
			continue
		}
		switch s.do {
		case cutBefore:
			goes, r.away[between] = false, true
		case cutBehind:
			last, r.away[between] = true, true
		case stallBefore:
			r.still[between] = make(chan struct{})
		}
		close(s.reached)
	}
	if wait := r.still[between]; wait != nil {
		r.mu.Unlock()
		<-wait
		r.mu.Lock()
	}
	return goes, last
}

// at stops the road at the nth record of that kind, counted from the test's beginning.
func (r *linkRoads) at(do roadAction, from, to string, cmd wire.Command, nth int) *roadStop {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &roadStop{at: passing{from, to, cmd}, nth: nth, do: do, reached: make(chan struct{})}
	r.stops = append(r.stops, s)
	return s
}

func (r *linkRoads) closeAll(between pair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, p := range r.conns {
		if p == between {
			c.Close()
		}
	}
}

func (r *linkRoads) open(a, b string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.away, pairOf(a, b))
}

func (r *linkRoads) goOn(a, b string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.still[pairOf(a, b)]; wait != nil {
		close(wait)
		delete(r.still, pairOf(a, b))
	}
}

// damage changes each record of that kind.
func (r *linkRoads) damage(from, to string, cmd wire.Command, change func(nth int, record []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alter = func(p passing, nth int, record []byte) {
		if p == (passing{from, to, cmd}) {
			change(nth, record)
		}
	}
}

// passed returns how many records of that kind have come to the road, and their bytes.
func (r *linkRoads) passed(from, to string, cmd wire.Command) (records, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := passing{from, to, cmd}
	return r.count[p], r.bytes[p]
}

// forget forgets the stops that are left.
func (r *linkRoads) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops, r.alter = slices.Clip(r.stops[:0]), nil
}
