package zlnode_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/hook"
	"github.com/zlnode/zlnode/session"
)

func TestEachOfManyRelayedRequestsGetsItsOwnReply(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		p.login("a")
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				want := fmt.Sprint("nonce ", i)
				m, err := p.Request(s.ctx, "echo", []byte(want))
				if err != nil {
					t.Errorf("request %d: %v", i, err)
				} else if string(m.Payload) != want {
					t.Errorf("request %d got %q", i, m.Payload)
				}
			})
		}
		wg.Wait()
		if st := p.Stats(); st.LateReplies != 0 {
			t.Errorf("%d replies for nobody", st.LateReplies)
		}
	})
}

func TestPushesArriveInTheOrderOfTheActor(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		p.login("a")
		const each, turns = 50, 40
		for i := range turns { // by the client and by others in turn
			ask := p.ask
			if i%2 == 1 {
				ask = func(packet string, q any) (int, error) { return s.ask("a", packet, q) }
			}
			if n, err := ask("tick", each); err != nil || n != (i+1)*each {
				t.Fatalf("turn %d: %d %v", i, n, err)
			}
		}
		for want := range each * turns {
			if got := pushed[int](p, "tick"); got != want {
				t.Fatalf("push %d came at place %d", got, want)
			}
		}
	})
}

// A client that does not wait for its login pushes the Actor to answer in the
// very first message behind it.
func TestAPushInTheFirstRelayedMessageArrives(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		var wg sync.WaitGroup
		for i := range 50 {
			c := s.stream(t)
			wg.Go(func() {
				id := fmt.Sprint("a", i)
				c.write(request(1, "login", `{"ID":"`+id+`"}`), send("greet", `""`))
				if p := c.answer(1); p.Kind != session.KindResponse {
					t.Errorf("login %d: %s", i, p.Payload)
				}
				if p := c.read(); string(p.Name) != "welcome" || string(p.Payload) != `"`+id+`"` {
					t.Errorf("push %d is %q %q", i, p.Name, p.Payload)
				}
			})
		}
		wg.Wait()
	})
}

// Others make the Actor push while a client is being bound to it. Each push is
// refused or arrives.
func TestAPushWhileBindingIsRefusedOrArrives(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		for round := range 10 {
			ref := s.create(fmt.Sprint("a", round))
			p := s.dial(t)
			accepted := make(chan int)
			bound := make(chan struct{})
			go func() {
				total, after := 0, 0
				for after < 20 && s.ctx.Err() == nil {
					select {
					case <-bound:
						after++
					default:
					}
					n, err := s.ask(ref.ID, "tick", 1)
					switch {
					case err == nil:
						total = n
					case zlnode.KindOf(err) != zlnode.InvalidOperation || after > 0:
						t.Errorf("push: %v", err)
						after = 20
					}
				}
				accepted <- total
			}()
			if err := p.bind(ref); err != nil {
				t.Error(err)
			}
			close(bound)
			total := receive(t, accepted)
			for want := range total {
				if got := pushed[int](p, "tick"); got != want {
					t.Fatalf("round %d: push %d came at place %d of %d", round, got, want, total)
				}
			}
			p.Close()
		}
	})
}

// A client writes everything at once: its login, packets for its Actor and
// packets for its Session's handler.
func TestPacketsOfOneClientKeepTheirOrder(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		packets := []session.Packet{request(1, "login", `{"ID":"a"}`)}
		const rounds = 40
		for i := range rounds {
			n := func(k int) string { return fmt.Sprint(2*i + k) }
			packets = append(packets,
				send("note", n(0)), send("mark", n(0)),
				request(uint64(2*i+2), "note", n(1)), request(uint64(2*i+3), "mark", n(1)))
		}
		c.write(packets...)
		answers := map[uint64]string{}
		for range 2*rounds + 1 {
			p := c.read()
			if p.Kind != session.KindResponse {
				t.Fatalf("%v to %d: %s", p.Kind, p.Seq, p.Payload)
			}
			answers[p.Seq] += string(p.Payload)
		}
		for i := range rounds {
			want := fmt.Sprint(2*i + 1)
			if note, mark := answers[uint64(2*i+2)], answers[uint64(2*i+3)]; note != want || mark != want {
				t.Errorf("answers %s and %s, want %s", note, mark, want)
			}
		}
		for _, word := range []string{"note", "mark"} {
			for i, line := range s.journal.of(word) {
				if line != fmt.Sprint(i) {
					t.Fatalf("%s %s was executed at place %d", word, line, i)
				}
			}
		}
	})
}

func TestARelayedPacketWaitsForTheHandlerBeforeIt(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		c.write(request(2, "wait", `{}`), send("note", "1"), request(3, "note", "2"))
		receive(t, s.gate.entered)
		c.drained()
		if _, err := s.ask("a", "bound", nil); err != nil { // what was relayed is executed before it
			t.Fatal(err)
		}
		if notes := s.journal.of("note"); len(notes) != 0 {
			t.Errorf("%v overtook the handler", notes)
		}
		s.gate.open <- struct{}{}
		c.answer(2)
		c.answer(3)
		if notes := s.journal.of("note"); !slices.Equal(notes, []string{"1", "2"}) {
			t.Errorf("executed %v", notes)
		}
	})
}

// An Error frame holds a kind and a text, and the text is the application's own
// or tells nothing.
// req: FO-04
func TestAClientLearnsKindAndNothingOfTheInside(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		for i, r := range []struct {
			name, payload string
			kind          zlnode.Kind
			text          string // "": anything that tells nothing
		}{
			{"echo", `1`, zlnode.InvalidOperation, ""}, // no Actor is bound
			{"login", `{"ID":"a"}`, 0, ""},             // no failure
			{"nothing", `1`, zlnode.NotFound, ""},      // no such packet
			{"err", `1`, 0, ""},
			{"greet", `1`, zlnode.NotFound, ""}, // the Actor takes it one-way only
			{"fail in session", `"kind"`, zlnode.Rejected, "you may not"},
			{"fail in session", `"plain"`, zlnode.InternalFailure, ""},
			{"fail in session", `"panic"`, zlnode.InternalFailure, ""},
			{"fail in session", `{`, zlnode.ProtocolError, ""},
			{"fail in actor", `"kind"`, zlnode.Rejected, "you may not"},
			{"fail in actor", `"plain"`, zlnode.InternalFailure, ""},
			{"fail in actor", `"panic"`, zlnode.InternalFailure, ""},
			{"fail in actor", `{`, zlnode.ProtocolError, ""},
			{"login", `5`, zlnode.ProtocolError, ""},
			{"fail in actor", `5`, zlnode.ProtocolError, ""},
			{"bind", `{"id":"a"}`, zlnode.InvalidOperation, ""},
		} {
			c.write(request(uint64(i+1), r.name, r.payload))
			p := c.answer(uint64(i + 1))
			if r.kind == 0 && p.Kind == session.KindResponse {
				continue
			}
			var body map[string]string
			if err := json.Unmarshal(p.Payload, &body); p.Kind != session.KindError || err != nil {
				t.Errorf("%s %s: %v %s", r.name, r.payload, p.Kind, p.Payload)
				continue
			}
			keys := slices.Sorted(maps.Keys(body))
			if body["code"] != r.kind.Code() || !slices.Equal(keys, []string{"code", "message"}) || p.Codec != session.CodecJSON {
				t.Errorf("%s %s: %s", r.name, r.payload, p.Payload)
			}
			text := body["message"]
			if text == "" || r.text != "" && text != r.text {
				t.Errorf("%s %s says %q, want %q", r.name, r.payload, text, r.text)
			}
			for _, word := range []string{"secret", "avatar", "player", "b-owner", "a-gateway", "Go ", "zlnode"} {
				if r.text == "" && strings.Contains(text, word) {
					t.Errorf("%s %s tells the client %q", r.name, r.payload, text)
				}
			}
		}
	})
}

func TestAPushNeedsABinding(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		s.create("a")
		_, err := s.ask("a", "tick", 1)
		wantKind(t, err, zlnode.InvalidOperation)
	})
}

// An Actor's queue is full: what its client sends on is refused, request by
// request, and what was taken is executed in order.
func TestAFullActorRefusesWhatItsClientSends(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		full := zlnode.Unavailable // a queue of another node
		if s.owner == s.gateway {
			full = zlnode.CapacityExceeded
		}
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`), request(2, "stop", `{}`))
		receive(t, s.gate.entered)
		if s.owner != s.gateway { // the login's turn is over, so what follows goes on without the Session's queue
			s.await("the gateway is idle", hook.Inner(s.gateway).Idle)
		}
		const first, count = 10, 4200 // the queue holds 4,096
		var packets []session.Packet
		for i := range uint64(count) {
			packets = append(packets, request(first+i, "note", fmt.Sprint(i)))
		}
		c.write(packets...)
		c.drained()
		opened := false
		ended, refused := map[uint64]bool{}, 0
		var executed []string
		for len(ended) < count+2 {
			p := c.read()
			if ended[p.Seq] {
				t.Fatalf("request %d ended twice", p.Seq)
			}
			ended[p.Seq] = true
			switch {
			case p.Kind == session.KindError:
				if kind, _, err := session.ParseErrorBody(p.Payload); err != nil || kind != full {
					t.Fatalf("request %d: %s, want %v", p.Seq, p.Payload, full)
				}
				refused++
			case p.Seq >= first:
				executed = append(executed, string(p.Payload))
			}
			if refused == count-4095 && !opened { // one place is taken by the message that waits
				opened = true
				s.gate.open <- struct{}{}
			}
		}
		if notes := s.journal.of("note"); refused != count-4095 || !slices.Equal(notes, executed) || !slices.IsSortedFunc(notes, byNumber) {
			t.Errorf("%d refused, %d executed, %d answered", refused, len(notes), len(executed))
		}
	})
}

func byNumber(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// A client's request to an Actor ends at the gateway's request timeout. One that
// still waits then is not executed, and a reply that comes late is dropped.
func TestARelayedRequestEndsAtItsDeadline(t *testing.T) {
	onEachStageWith(t, func(c *zlnode.Config) { c.RequestTimeout = 300 * time.Millisecond }, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		c.write(request(2, "stop", `{}`), request(3, "note", "3"))
		receive(t, s.gate.entered)
		ended := map[uint64]bool{}
		for range 2 {
			p := c.read()
			kind, _, err := session.ParseErrorBody(p.Payload)
			if p.Kind != session.KindError || err != nil || kind != zlnode.DeadlineExceeded {
				t.Errorf("%v to %d: %s", p.Kind, p.Seq, p.Payload)
			}
			ended[p.Seq] = true
		}
		s.gate.open <- struct{}{}
		c.write(send("note", "4"), send("greet", `""`))
		if p := c.read(); string(p.Name) != "welcome" || !ended[2] || !ended[3] {
			t.Errorf("%v to %d: %s, after ends of %v", p.Kind, p.Seq, p.Payload, ended)
		}
		if notes := s.journal.of("note"); !slices.Equal(notes, []string{"4"}) {
			t.Errorf("executed %v", notes)
		}
	})
}
