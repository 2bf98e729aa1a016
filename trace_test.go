package zlnode_test

import (
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

// spans are those of all nodes of a test, each with a Tracer of its node's name.
type spans struct {
	*world
	recorder *tracetest.SpanRecorder
}

// ended returns the latest span of that node and name, when it has ended.
func (s *spans) ended(node, name string) (span sdk.ReadOnlySpan) {
	s.t.Helper()
	s.eventually("span "+name+" of "+node+" ends", func() bool {
		for _, of := range s.recorder.Ended() {
			if of.Name() == name && of.InstrumentationScope().Name == node {
				span = of
			}
		}
		return span != nil
	})
	return span
}

func attributeOf(s sdk.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func TestSpansGoFromNodeToNode(t *testing.T) {
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	f := &flows{world: newWorld(t, e.URL())}
	s := &spans{f.world, tracetest.NewSpanRecorder()}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(s.recorder))
	b := f.start(zlnode.Config{RID: "b", Role: zlnode.RoleServer, Tracer: provider.Tracer("b")}, f.app())
	c := f.start(zlnode.Config{RID: "c", Role: zlnode.RoleServer, Tracer: provider.Tracer("c"), TraceIDs: true}, f.app())
	a := f.start(zlnode.Config{
		RID: "a", Role: zlnode.RoleClient, Tracer: provider.Tracer("a"), Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player"}},
	}, f.app())
	f.linked(a, 2)
	f.linked(b, 1)
	f.linked(c, 1)
	head, tail := f.createActorAt(a, "b", "hopper"), f.createActorAt(a, "c", "hopper")
	p := dialStream(t, a.SessionAddrs()[0].String())
	p.write(request(1, "bind", jsonOf(t, head)))
	p.answer(1)

	// under fails the test unless the span is of the kind and a child of parent.
	under := func(span, parent sdk.ReadOnlySpan, kind trace.SpanKind) {
		t.Helper()
		if span.SpanKind() != kind {
			t.Errorf("%s is of kind %v, want %v", span.Name(), span.SpanKind(), kind)
		}
		if parent == nil && span.Parent().IsValid() || parent != nil &&
			(span.Parent().SpanID() != parent.SpanContext().SpanID() || span.SpanContext().TraceID() != parent.SpanContext().TraceID()) {
			t.Errorf("%s of %s is under %v, not under %v", span.Name(), span.InstrumentationScope().Name, span.Parent().SpanID(), parent)
		}
	}
	// chain checks the spans of one packet that the client has sent, behind that of its Session.
	chain := func(first sdk.ReadOnlySpan) {
		t.Helper()
		start := s.ended("b", "hopper start")
		under(start, first, trace.SpanKindServer)
		ask, tell := s.ended("b", "request end"), s.ended("b", "send late")
		under(ask, start, trace.SpanKindClient)
		under(tell, start, trace.SpanKindProducer)
		under(s.ended("c", "hopper end"), ask, trace.SpanKindServer)
		under(s.ended("c", "hopper late"), tell, trace.SpanKindConsumer)
	}

	p.write(inFlow(request(2, "start", jsonOf(t, leg{Tail: tail.ID}))))
	p.read()
	if r := p.answer(2); r.Kind != session.KindResponse {
		t.Fatalf("%s", r.Payload)
	}
	relayed := s.ended("a", "player start")
	under(relayed, nil, trace.SpanKindServer)
	chain(relayed)
	last := s.ended("c", "hopper end")
	if attributeOf(last, "zlnode.object") != tail.ID || attributeOf(last, "zlnode.flow") != clientFlow {
		t.Errorf("with TraceIDs: %v", last.Attributes())
	}

	s.recorder.Reset()
	p.write(request(3, "through", jsonOf(t, [2]string{head.ID, tail.ID})))
	p.read()
	p.read()
	p.answer(3)
	through := s.ended("a", "player through")
	under(through, nil, trace.SpanKindServer)
	asked := s.ended("a", "request start")
	under(asked, through, trace.SpanKindClient)
	chain(asked)

	s.recorder.Reset()
	p.write(request(4, "start", jsonOf(t, leg{Fail: true})), send("nobody's "+head.ID, "1"), request(5, "forward", `"nobody"`))
	p.read() // the two answers, in any order
	p.read()
	for node, name := range map[string]string{"a": "player start", "b": "hopper start"} {
		if failed := s.ended(node, name); failed.Status().Code != codes.Error || attributeOf(failed, "zlnode.error") != "internal_failure" {
			t.Errorf("%s of %s has %v, %v", name, node, failed.Status(), failed.Attributes())
		}
	}
	if strange := s.ended("a", "player "); strange.Status().Code != codes.Error {
		t.Errorf("a packet that nobody handles has %v", strange.Status())
	}

	s.recorder.Reset()
	spot := f.createSpotAt(a, "c", "room")
	create, creation := s.ended("a", "create room"), s.ended("c", "creation room")
	under(create, nil, trace.SpanKindInternal)
	under(creation, nil, trace.SpanKindInternal)
	if op := attributeOf(create, "zlnode.operation"); len(op) != 32 || attributeOf(creation, "zlnode.operation") != op || creation.Status().Code == codes.Error {
		t.Errorf("a creation is %v and %v, %v", create.Attributes(), creation.Attributes(), creation.Status())
	}
	p.write(request(6, "start", jsonOf(t, leg{Spot: spot.ID})))
	p.read()
	p.answer(6)
	out, in := s.ended("b", "move out"), s.ended("c", "move in")
	under(out, s.ended("b", "hopper start"), trace.SpanKindInternal)
	under(s.ended("c", "hopper late"), s.ended("b", "send late"), trace.SpanKindConsumer) // it was saved in the move
	if id := attributeOf(out, "zlnode.relocation"); len(id) != 32 || attributeOf(in, "zlnode.relocation") != id || attributeOf(in, "zlnode.type") != "hopper" || out.Status().Code == codes.Error || in.Status().Code == codes.Error {
		t.Errorf("a move is %v, %v and %v, %v", out.Attributes(), out.Status(), in.Attributes(), in.Status())
	}

	// Within its node, the callbacks of a Join are of the flow that asks for it.
	s.recorder.Reset()
	next := f.createSpotAt(a, "c", "room")
	p.write(inFlow(request(7, "start", jsonOf(t, leg{Spot: next.ID}))))
	p.read()
	p.answer(7)
	asks := s.ended("c", "hopper start")
	for _, name := range []string{"room OnActorJoin", "hopper OnJoinCompleted"} {
		callback := s.ended("c", name)
		if under(callback, asks, trace.SpanKindInternal); attributeOf(callback, "zlnode.flow") != clientFlow {
			t.Errorf("%s has %v", name, callback.Attributes())
		}
	}

	for _, span := range s.recorder.Ended() {
		if node := span.InstrumentationScope().Name; node != "c" && strings.Contains(fmt.Sprint(span.Name(), span.Attributes()), head.ID) {
			t.Errorf("without TraceIDs %s of %s has %v", span.Name(), node, span.Attributes())
		}
	}
}

// A turn is the context of its span for the application's own ones, and a node without a
// Tracer passes the trace of a message on.
func TestSpansOfTheApplicationAreInTheTrace(t *testing.T) {
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	w := newWorld(t, e.URL())
	s := &spans{w, tracetest.NewSpanRecorder()}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(s.recorder))
	own := provider.Tracer("own")
	app := zlnode.NewApp()
	typ := zlnode.DefineActor(app, "worker", func(*zlnode.ActorContext) (*hopper, error) { return &hopper{}, nil }, zlnode.DisableRelocation)
	zlnode.OnRequest(typ, "pass", func(c *zlnode.ActorCall, _ *hopper, to string) (string, error) {
		return zlnode.Request[string](c, c.Node().Actor(to), "work", 1)
	})
	zlnode.OnRequest(typ, "work", func(c *zlnode.ActorCall, _ *hopper, _ int) (string, error) {
		_, span := own.Start(c, "inside")
		span.End()
		return span.SpanContext().TraceID().String(), nil
	})
	blind := w.server("blind", app) // without a Tracer
	sees := w.start(zlnode.Config{RID: "sees", Role: zlnode.RoleServer, Tracer: provider.Tracer("sees")}, app)
	w.linked(blind, 1)
	w.linked(sees, 1)
	first, second := w.createActorAt(sees, "blind", "worker"), w.createActorAt(sees, "sees", "worker")
	ctx, span := own.Start(w.ctx, "outside")
	got, err := zlnode.Request[string](ctx, sees.Actor(first.ID), "pass", second.ID)
	span.End()
	if want := span.SpanContext().TraceID().String(); err != nil || got != want {
		t.Fatalf("trace %s, want %s: %v", got, want, err)
	}
	work, inside := s.ended("sees", "worker work"), s.ended("own", "inside")
	if inside.Parent().SpanID() != work.SpanContext().SpanID() {
		t.Errorf("the handler's own span is under %v, not %v", inside.Parent().SpanID(), work.SpanContext().SpanID())
	}
	if pass := s.ended("sees", "request pass"); work.Parent().SpanID() != pass.SpanContext().SpanID() || pass.Parent().SpanID() != span.SpanContext().SpanID() {
		t.Errorf("the turn is under %v, the request, %v, under %v", work.Parent().SpanID(), pass.SpanContext().SpanID(), pass.Parent().SpanID())
	}
}

// The request to authenticate has its span, as every packet: what logs a client in is of its trace.
func TestTheRequestToAuthenticateHasASpan(t *testing.T) {
	s := &spans{newWorld(t, ""), tracetest.NewSpanRecorder()}
	own := sdk.NewTracerProvider(sdk.WithSpanProcessor(s.recorder)).Tracer("a")
	app := zlnode.NewApp()
	typ := zlnode.DefineSession(app, "guest", func(*zlnode.SessionContext) (*hopper, error) { return &hopper{}, nil })
	zlnode.Authenticate(typ, "login", func(c *zlnode.SessionCall, _ *hopper, good bool) (bool, error) {
		_, span := own.Start(c, "look up")
		span.End()
		if !good {
			return false, zlnode.Errorf(zlnode.Rejected, "log in again")
		}
		return true, nil
	})
	n := s.start(zlnode.Config{RID: "a", Tracer: own, Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "guest"}}}, app)
	for _, good := range []bool{true, false} {
		s.recorder.Reset()
		p := dialStream(t, n.SessionAddrs()[0].String())
		p.write(request(1, "login", fmt.Sprint(good)))
		p.answer(1)
		login, inside := s.ended("a", "guest login"), s.ended("a", "look up")
		if login.SpanKind() != trace.SpanKindServer || login.Parent().IsValid() || (login.Status().Code != codes.Error) != good {
			t.Errorf("authenticated %t: the span is of kind %v, under %v, %v", good, login.SpanKind(), login.Parent().SpanID(), login.Status())
		}
		if inside.Parent().SpanID() != login.SpanContext().SpanID() {
			t.Errorf("what the handler does is under %v, not %v", inside.Parent().SpanID(), login.SpanContext().SpanID())
		}
	}
}
