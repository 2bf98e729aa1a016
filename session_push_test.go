package zlnode_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

// pushWorld is a gateway whose clients have an Actor that pushes what it is told to.
type pushWorld struct {
	*stage
	contexts chan *zlnode.SessionContext // of Sessions that have logged in
}

// batch is what an Actor, or a Session itself, is to push: that many packets, named by their
// class, whose payload is a number, which goes on from batch to batch, and the key.
type batch struct {
	Class zlnode.PushClass
	Keys  []string // in turn
	Size  int
	Count int
}

type pusher struct{ number int }

func (p *pusher) push(b *batch, push func(o zlnode.PushOptions, packet string, v any) error) error {
	for range b.Count {
		o, key := zlnode.PushOptions{Class: b.Class}, ""
		if len(b.Keys) > 0 {
			key = b.Keys[p.number%len(b.Keys)]
			o.Key = key
		}
		payload := fmt.Appendf(make([]byte, 0, b.Size), "%d %s ", p.number, key)
		if err := push(o, b.Class.String(), payload[:max(len(payload), b.Size)]); err != nil {
			return err
		}
		p.number++
	}
	return nil
}

// onEachPushWorld runs f where the Actors live on the gateway and where they do not.
func onEachPushWorld(t *testing.T, listener zlnode.SessionListener, f func(t *testing.T, w *pushWorld)) {
	t.Parallel()
	listener.Addr, listener.Type, listener.IdleTimeout = "127.0.0.1:0", "player", -1
	ports := []zlnode.SessionListener{listener}
	for _, place := range []string{"local", "remote"} {
		t.Run(place, func(t *testing.T) {
			e, err := zlnode.StartEmbeddedStore("")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			w := &pushWorld{newStage(newWorld(t, e.URL())), make(chan *zlnode.SessionContext, 100)}
			if place == "local" {
				w.gateway = w.start(zlnode.Config{RID: "a-both", Role: zlnode.RoleServer, Sessions: ports}, w.app())
				w.owner = w.gateway
			} else {
				w.owner = w.server("b-owner", w.app())
				w.gateway = w.start(zlnode.Config{RID: "a-gateway", Role: zlnode.RoleClient, Sessions: ports}, w.app())
				w.linked(w.gateway, 1)
			}
			f(t, w)
		})
	}
}

func (w *pushWorld) app() *zlnode.App {
	app := zlnode.NewApp()
	a := zlnode.DefineActor(app, "pusher", func(*zlnode.ActorContext) (*pusher, error) { return &pusher{}, nil }, zlnode.DisableRelocation)
	zlnode.OnRequest(a, "push", func(c *zlnode.ActorCall, p *pusher, b batch) (int, error) {
		return p.number, p.push(&b, c.PushWith)
	})
	zlnode.OnSend(a, "push", func(c *zlnode.ActorCall, p *pusher, b batch) error { return p.push(&b, c.PushWith) })
	zlnode.OnRequest(a, "pending", func(c *zlnode.ActorCall, _ *pusher, _ struct{}) (int, error) { return int(c.Pending()), nil })
	zlnode.OnRequest(a, "bad push", func(c *zlnode.ActorCall, _ *pusher, o zlnode.PushOptions) (int, error) {
		return 0, c.PushWith(o, "bad", 1)
	})
	v := zlnode.DefineSession(app, "player", func(c *zlnode.SessionContext) (*pusher, error) {
		w.contexts <- c
		return &pusher{}, nil
	})
	zlnode.OnPacketRequest(v, "login", func(c *zlnode.SessionCall, _ *pusher, l login) (bool, error) {
		r, err := c.Node().GetOrCreateActor(c, zlnode.CreateActor{ID: l.ID, Type: "pusher"})
		if err != nil {
			return false, err
		}
		return true, c.Bind(r.Ref)
	})
	zlnode.OnPacketRequest(v, "burst", func(c *zlnode.SessionCall, p *pusher, b batch) (int, error) {
		return p.number, p.push(&b, c.Session().PushWith)
	})
	zlnode.OnPacketRequest(v, "burst and close", func(c *zlnode.SessionCall, p *pusher, b batch) (int, error) {
		err := p.push(&b, c.Session().PushWith)
		c.Session().Close("enough")
		return 0, err
	})
	zlnode.Relay(v, "push", "pusher")
	defineResuming(v)
	zlnode.OnDisconnect(v, func(_ *zlnode.SessionCall, _ *pusher, why zlnode.Disconnect) { w.closed <- why })
	return app
}

// login connects a client that is bound to the Actor of that id.
func (w *pushWorld) login(t *testing.T, id string) (*stream, *zlnode.SessionContext) {
	t.Helper()
	c := w.stream(t)
	if err := c.conn.SetReadBuffer(32 << 10); err != nil { // or the kernel takes megabytes for it
		t.Fatal(err)
	}
	c.alive(t)
	c.write(request(1, "login", `{"ID":"`+id+`"}`))
	if p := c.answer(1); p.Kind != session.KindResponse {
		t.Fatalf("login: %s", p.Payload)
	}
	return c, receive(t, w.contexts)
}

// pushes has an Actor push, and returns what came of it.
func (w *pushWorld) pushes(id string, b batch) error {
	_, err := zlnode.Request[int](w.ctx, w.gateway.Actor(id), "push", b)
	return err
}

// mustPush has it push without an error.
func (w *pushWorld) mustPush(id string, b batch) {
	w.t.Helper()
	if err := w.pushes(id, b); err != nil {
		w.t.Fatal(err)
	}
}

// alive says on the connection that the client is there, though it does not read, until the
// test ends.
func (c *stream) alive(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_, _ = c.conn.Write(session.PongFrame()) // if the server has closed it, the test sees that
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
}

// arrived is one push of a batch.
type arrived struct {
	class  string
	number int
	key    string
}

// readPush returns the next push.
func (c *stream) readPush() (n arrived) {
	c.t.Helper()
	p := c.read()
	n.class = string(p.Name)
	if _, err := fmt.Sscan(string(p.Payload[:min(len(p.Payload), 40)]), &n.number); err != nil {
		c.t.Fatalf("%v packet %q: %v", p.Kind, p.Name, err)
	}
	_, rest, _ := strings.Cut(string(p.Payload), " ")
	n.key, _, _ = strings.Cut(rest, " ")
	return n
}

// What one tick pushes may be far more than a client takes at once, or its connection's
// queue: it arrives, in order.
func TestTheBurstOfOneTickClosesNoClient(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{}, func(t *testing.T, w *pushWorld) {
		c, s := w.login(t, "a")
		const ticks, count = 3, 350
		for tick := range ticks {
			w.mustPush("a", batch{Size: 10 << 10, Count: count})
			w.eventually("more waits than a connection's queue took before", func() bool { return s.Pending() > 1<<20 })
			for i := range count {
				if n := c.readPush(); n.number != tick*count+i {
					t.Fatalf("push %d at place %d", n.number, tick*count+i)
				}
			}
		}
		w.eventually("nothing waits", func() bool { return s.Pending() == 0 })
		w.eventually("no client is behind", func() bool {
			st := w.gateway.Stats()
			return st.ClientsBehind == 0 && st.OutboxBytes == 0
		})
		if st := w.gateway.Stats(); st.SlowSessions != 0 || st.PushesDropped+st.PushesReplaced+st.PushesRefused != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAClientForWhichTooMuchWaitsIsClosedAndTold(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{OutBytes: 256 << 10, OutBurstBytes: 1 << 20}, func(t *testing.T, w *pushWorld) {
		c, _ := w.login(t, "a")
		err := w.pushes("a", batch{Size: 32 << 10, Count: 200})
		if w.gateway == w.owner {
			wantKind(t, err, zlnode.Unavailable)
		}
		if why := receive(t, w.closed); why.Code != zlnode.ClientSlow {
			t.Errorf("the session ended with %v", why)
		}
		e := c.end()
		if e.orderly && (!e.told || e.reason != session.TransportError || !strings.Contains(e.diag, "takes its messages too slowly")) {
			t.Errorf("the server ended with %+v", e)
		}
		if st := w.gateway.Stats(); st.SlowSessions != 1 || st.OutboxBytes != 0 || st.ClientsBehind != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A client that takes nothing is closed when OutTime is over, however little waits.
func TestAClientThatTakesNothingIsClosedInTime(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{OutTime: 250 * time.Millisecond}, func(t *testing.T, w *pushWorld) {
		w.login(t, "a")
		w.mustPush("a", batch{Size: 64 << 10, Count: 15}) // less than OutBytes, more than the kernel holds
		if why := receive(t, w.closed); why.Code != zlnode.ClientSlow {
			t.Errorf("the session ended with %v", why)
		}
		if st := w.gateway.Stats(); st.SlowSessions != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestANewerPushReplacesTheOneOfItsKeyThatWaits(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{}, func(t *testing.T, w *pushWorld) {
		c, s := w.login(t, "a")
		w.mustPush("a", batch{Size: 64 << 10, Count: 15})
		const rounds = 100
		keys := []string{"hp", "mp", "xp"}
		w.mustPush("a", batch{Class: zlnode.NewestPerKey, Keys: keys, Size: 100, Count: 3 * rounds})
		w.mustPush("a", batch{Size: 100, Count: 1})
		last, got, must := map[string]int{}, 0, 0
		for last[""] != 15+3*rounds {
			n := c.readPush()
			if n.class == "MustDeliver" {
				if must++; must <= 15 && n.number != must-1 {
					t.Errorf("push %d came at place %d", n.number, must-1)
				}
			} else {
				got++
			}
			if before, ok := last[n.key]; ok && n.number <= before {
				t.Errorf("%q: %d after %d", n.key, n.number, before)
			}
			last[n.key] = n.number
		}
		for i, key := range keys {
			if newest := 15 + 3*(rounds-1) + i; last[key] != newest {
				t.Errorf("%s ended with %d, want %d", key, last[key], newest)
			}
		}
		dropped, replaced := s.Lost()
		st := w.gateway.Stats()
		if dropped != 0 || int(replaced) != 3*rounds-got || st.PushesReplaced != replaced || st.PushesDropped != 0 || got > 3*rounds/2 || must != 16 {
			t.Errorf("%d of %d arrived, %d replaced, %d dropped; %d that must; %+v", got, 3*rounds, replaced, dropped, must, st)
		}
	})
}

func TestTheOldestAreDroppedWhenTooManyWait(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{OutBytes: 64 << 10}, func(t *testing.T, w *pushWorld) {
		c, s := w.login(t, "a")
		const rounds, each = 20, 500
		for range rounds { // in all 10 MB
			w.mustPush("a", batch{Class: zlnode.DropOldest, Size: 1 << 10, Count: each})
		}
		w.mustPush("a", batch{Size: 10, Count: 1})
		w.eventually("the last push is here", func() bool {
			dropped, _ := s.Lost()
			return dropped > 0 && s.Pending() > 0
		})
		if pending := s.Pending(); pending > 3*64<<10 {
			t.Errorf("%d bytes wait", pending)
		}
		before, got := -1, 0
		for {
			n := c.readPush()
			if n.number <= before {
				t.Fatalf("%d after %d", n.number, before)
			}
			if n.class == "MustDeliver" {
				if n.number != rounds*each || before != rounds*each-1 {
					t.Errorf("the end is %d behind %d", n.number, before)
				}
				break
			}
			before = n.number
			got++
		}
		dropped, replaced := s.Lost()
		if st := w.gateway.Stats(); int(dropped) != rounds*each-got || replaced != 0 || st.PushesDropped != dropped || st.SlowSessions != 0 {
			t.Errorf("%d of %d arrived, %d dropped; %+v", got, rounds*each, dropped, st)
		}
	})
}

// What waits goes out before the Session is closed by the application.
func TestAClosedSessionStillSendsWhatWaits(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{}, func(t *testing.T, w *pushWorld) {
		c, _ := w.login(t, "a")
		const count = 200
		c.write(request(2, "burst and close", `{"Size":10240,"Count":200}`))
		for i := range count {
			if n := c.readPush(); n.number != i {
				t.Fatalf("push %d at place %d", n.number, i)
			}
		}
		if e := c.end(); !e.orderly || !e.told || e.reason != session.ServerDrain || e.diag != "kicked: enough" {
			t.Errorf("the server ended with %+v", e)
		}
	})
}

// A reply comes behind what was pushed before it, and before what was pushed after it, also
// if the client is behind.
func TestRepliesKeepTheirPlaceAmongPushes(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{}, func(t *testing.T, w *pushWorld) {
		c, _ := w.login(t, "a")
		const rounds, each = 20, 10
		for i := range rounds {
			c.write(request(uint64(i+2), "push", `{"Size":10240,"Count":10}`))
		}
		for i := range rounds {
			for j := range each {
				if n := c.readPush(); n.number != i*each+j {
					t.Fatalf("push %d at place %d", n.number, i*each+j)
				}
			}
			if p := c.answer(uint64(i + 2)); p.Kind != session.KindResponse {
				t.Fatalf("%s", p.Payload)
			}
		}
	})
}

// Of 51 clients one reads nothing. What the others are sent tick by tick they get, all of it;
// and what waits for the one is bounded.
func TestOneClientThatNeverReadsHurtsNobodyElse(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{OutBytes: 128 << 10}, func(t *testing.T, w *pushWorld) {
		const healthy, ticks, size = 50, 200, 1 << 10
		_, s := w.login(t, "slow")
		var wg sync.WaitGroup
		var clients []*stream
		for i := range healthy {
			c, _ := w.login(t, fmt.Sprint("p", i))
			clients = append(clients, c)
		}
		tell := func(id string) {
			class, keys := zlnode.MustDeliver, []string(nil)
			if id == "slow" {
				class, keys = zlnode.NewestPerKey, []string{"state"}
			}
			if err := zlnode.Send(w.ctx, w.gateway.Actor(id), "push", batch{Class: class, Keys: keys, Size: size, Count: 1}); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		for _, c := range clients {
			wg.Go(func() {
				for want := range ticks {
					if n := c.readPush(); n.number != want {
						t.Errorf("push %d at place %d", n.number, want)
						return
					}
				}
			})
		}
		w.mustPush("slow", batch{Class: zlnode.DropOldest, Size: 64 << 10, Count: 100})
		for range ticks {
			tell("slow")
			for i := range healthy {
				tell(fmt.Sprint("p", i))
			}
			if pending := s.Pending(); pending > 64<<10+2*(128<<10+64<<10) {
				t.Fatalf("%d bytes wait for the client that does not read", pending)
			}
		}
		wg.Wait()
		w.eventually("the slow client's pushes are replaced", func() bool { return w.gateway.Stats().PushesReplaced > ticks/2 })
		if st := w.gateway.Stats(); st.SlowSessions != 0 || st.Sessions != healthy+1 || st.OutboxBytes > 2*(128<<10+64<<10) {
			t.Errorf("%+v", st)
		}
	})
}

// Many push to one client at once, on all ways and in all classes, while it reads a little at
// a time. What each of them pushed that must be delivered comes in his order, all of it.
func TestManyWhoPushToASlowClientKeepTheirOrder(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{OutBytes: 16 << 20, OutBurstBytes: 64 << 20}, func(t *testing.T, w *pushWorld) {
		c, s := w.login(t, "a")
		const pushers, each = 64, 300
		var wg sync.WaitGroup
		for p := range pushers {
			wg.Go(func() {
				key := fmt.Sprint(p)
				for i := range each {
					for _, class := range []zlnode.PushClass{zlnode.MustDeliver, zlnode.NewestPerKey, zlnode.DropOldest} {
						o := zlnode.PushOptions{Class: class}
						if class == zlnode.NewestPerKey {
							o.Key = key
						}
						if err := s.PushWith(o, class.String(), fmt.Appendf(make([]byte, 0, 300), "%d %d %200d", i, p, i)); err != nil {
							t.Errorf("push %d of %d: %v", i, p, err)
							return
						}
					}
				}
			})
		}
		wg.Go(func() {
			for range 30 {
				w.mustPush("a", batch{Size: 1 << 10, Count: 10})
			}
		})
		next, newest, must, behind := map[string]int{}, map[string]int{}, 0, false
		for must < pushers*each+300 {
			behind = behind || s.Pending() > 64<<10
			n := c.readPush()
			from := n.class + n.key
			switch n.class {
			case "MustDeliver":
				must++
				if n.number != next[from] {
					t.Fatalf("push %d of %q came where %d was due", n.number, n.key, next[from])
				}
				next[from]++
			default:
				if n.number < newest[from] {
					t.Fatalf("%s %d of %q came after %d", n.class, n.number, n.key, newest[from])
				}
				newest[from] = n.number
			}
		}
		wg.Wait()
		if !behind {
			t.Error("the client was never behind")
		}
		for p := range pushers { // the last one of each key may be anywhere behind
			for newest[fmt.Sprint("NewestPerKey", p)] != each-1 {
				n := c.readPush()
				newest[n.class+n.key] = max(newest[n.class+n.key], n.number)
			}
		}
		if st := w.gateway.Stats(); st.SlowSessions != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAnActorSeesWhatWaitsForItsClient(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{}, func(t *testing.T, w *pushWorld) {
		pending := func() int {
			n, err := zlnode.Request[int](w.ctx, w.gateway.Actor("a"), "pending", struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		c, s := w.login(t, "a")
		w.eventually("nothing waits", func() bool { return pending() == 0 }) // what the client has read may not be counted off yet
		w.mustPush("a", batch{Size: 64 << 10, Count: 15})
		w.eventually("the actor knows", func() bool {
			n, truth := pending(), int(s.Pending())
			return truth > 64<<10 && n <= 2*truth && 2*n >= truth
		})
		for range 15 {
			c.readPush()
		}
		w.eventually("the actor knows that nothing waits", func() bool { return pending() == 0 })
	})
}

func TestAPushWhoseOptionsMeanNothingIsRefused(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{}, func(t *testing.T, w *pushWorld) {
		_, s := w.login(t, "a")
		for _, o := range []zlnode.PushOptions{
			{Class: 3},
			{Class: zlnode.NewestPerKey},
			{Class: zlnode.NewestPerKey, Key: strings.Repeat("k", 65)},
			{Class: zlnode.DropOldest, Key: "k"},
			{Key: "k"},
			{Codec: 9},
			{Metadata: session.Metadata{1}},
		} {
			_, err := zlnode.Request[int](w.ctx, w.gateway.Actor("a"), "bad push", o)
			wantKind(t, err, zlnode.InvalidOperation)
			wantKind(t, s.PushWith(o, "bad", 1), zlnode.InvalidOperation)
		}
	})
}

func TestAPushTakesItsCodecAndMetadataAlong(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{}, func(t *testing.T, w *pushWorld) {
		c, s := w.login(t, "a")
		meta, err := session.NewMetadata(map[string]string{"trace": "abc"})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct {
			codec, goes zlnode.Codec
			v           any
			payload     string
		}{
			{zlnode.Raw, zlnode.JSON, "text", `"text"`},
			{zlnode.Raw, zlnode.Raw, []byte("bytes"), "bytes"},
			{zlnode.MessagePack, zlnode.MessagePack, 7, "\x07"},
		} {
			if err := s.PushWith(zlnode.PushOptions{Codec: want.codec, Metadata: meta}, "p", want.v); err != nil {
				t.Error(err)
			}
			p := c.read()
			if v, _ := p.Meta.Lookup("trace"); zlnode.Codec(p.Codec) != want.goes || string(p.Payload) != want.payload || string(v) != "abc" {
				t.Errorf("%v of %v went as %v %q with %v", want.v, want.codec, p.Codec, p.Payload, p.Meta)
			}
		}
	})
}
