package zlnode

import (
	"math"
	"reflect"
	"regexp"
	"strings"

	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/store"
)

// Mode says which gate runs the handlers of a User Spot's members.
type Mode uint8

// The modes.
const (
	// SpotWide: one turn at a time of the Spot, its members, their timers and
	// callbacks, so they may share the Spot's state without locks.
	SpotWide Mode = iota + 1
	// PerActor: each member has turns of its own, and so has the Spot.
	PerActor
)

// SpotType is a type of Spots whose value is *S.
type SpotType[S any] struct {
	app *node.App
	t   *node.ObjectType
}

// Name returns the stable type.
func (t *SpotType[S]) Name() string { return t.t.Name }

// Configurer is the first of the callbacks that a Spot's value may have: Configure, then
// OnCreate (Admitter) and OnInitialize (Initializer), later OnActorJoin (JoinAdmitter),
// OnJoinedActor (JoinObserver), OnLeaveActor (LeaveObserver), OnReconnectingActor
// (ReconnectingObserver), OnReconnectedActor (ReconnectedObserver), OnDisconnectActor
// (DisconnectObserver), OnRelocationReadyCompleted (ReadyObserver) and OnClosing (Closer). What the value does not implement is a
// no-op; a method of that name with other parameters or results is a mistake that Start
// reports. A line like this one has the compiler check one:
//
//	var _ zlnode.Admitter = (*Room)(nil)
//
// Each callback is a turn of the Spot. A failure is logged and counted
// (Stats.FailedCallbacks). The first three run before any message, timer or member, within
// the deadline of the Spot's creation; they may run again for another try of it. If one
// fails, panics or takes too long the Spot does not come into being; that of an Entry Spot
// fails Start.
type Configurer interface{ Configure(c *SpotCall) error }

// Admitter decides about a new User Spot, which without one always comes into being. See
// Configurer.
type Admitter interface {
	OnCreate(c *CreateSpotCall) (Admission, error)
}

// Initializer runs last of those before the first message, for a Spot that is to be. See
// Configurer.
type Initializer interface{ OnInitialize(c *SpotCall) error }

// DisconnectObserver runs once for each binding of an Actor in the Spot whose client is
// gone, be it that its connection ended or that the node which had it is lost. The Actor
// stays as it is.
type DisconnectObserver interface {
	OnDisconnectActor(c *SpotCall, actor ActorRef) error
}

// ReconnectingObserver runs once for each binding of an Actor in the Spot whose client has lost
// its connection and may come back (SessionListener.ReconnectGrace), so that the Spot can
// spare the Actor, say, or pause. Next come OnReconnectedActor (ReconnectedObserver) or
// OnDisconnectActor, in that order with it and with what follows; and nothing if the Actor is
// destroyed meanwhile. If it goes to another Spot meanwhile, it is that Spot which is told how
// it ends; it can see by ActorCall.Reconnecting that the client is away. It is not run for a
// client that is back before its loss is known.
type ReconnectingObserver interface {
	OnReconnectingActor(c *SpotCall, actor ActorRef) error
}

// ReconnectedObserver runs when an Actor in the Spot whose client was reconnecting is bound to
// another Session: as its client has come back and that Session resumes the one it had, or
// otherwise.
type ReconnectedObserver interface {
	OnReconnectedActor(c *SpotCall, actor ActorRef) error
}

// Closer runs when the Spot is closed, behind all work that was accepted. c's deadline is
// the operation's. Not if the process is killed.
//
// With HostShutdown the Spot's members are still there, and have no such callback of their
// own: so the Spot may send to its members and ask them (one that is SpotWide with
// Yielding), which is the time to save their state. What they are sent runs before they end.
// All else that the node's objects send or ask then ends with ShuttingDown, and clients are
// gone. With the other reasons there are no members. With RelocationOut the Spot is at work elsewhere
// already: its value here is the old one, which nothing else uses any more, and c can do nothing.
type Closer interface {
	OnClosing(c *SpotCall, reason ClosingReason) error
}

// ReadyObserver runs when a SpotWide Spot that had said by SpotCall.RelocationReady that it may move
// has moved: at its new node, behind OnInitialize and before anything that waits for the Spot or its
// members, who do not hear of it. It is where the next round of a match begins. A type that has it
// says itself when its Spots may move: see SpotCall.RelocationReady. If it fails it is tried again
// until the relocation's deadline, for 1 s at least; then the Spot and its members stay sealed (Node.StuckObjects).
type ReadyObserver interface {
	OnRelocationReadyCompleted(c *SpotCall) error
}

// ClosingReason says why a Spot is closed.
type ClosingReason = node.ClosingReason

// The reasons.
const (
	ExplicitClose = node.ExplicitClose // by its manager; of User and Instance Spots
	HostShutdown  = node.HostShutdown  // its node stops
	RelocationOut = node.RelocationOut // it goes on at another node
	IdleEvicted   = node.IdleEvicted   // nobody used an Instance Spot
)

// DefineEntrySpot registers the value of the Entry Spot, where Actors begin and are when
// they are in no User Spot. Each object server has one, made by factory at its start.
func DefineEntrySpot[S any](app *App, factory func(*SpotContext) (*S, error)) *SpotType[S] {
	return spotType[S](app, app.app.SetEntry(spotFactory(factory)))
}

// DefineUserSpot registers a type of User Spots: rooms, zones, matches with members.
// The stable type and the factory have the rules of DefineActor; Actors and Spots may have
// types of the same name. The policy of a PerActor Spot is RecreateOnRelocation. For the
// callbacks that *S may have see Configurer. Node.CreateSpot makes one.
func DefineUserSpot[S any](
	app *App, stableType string, factory func(*SpotContext) (*S, error), mode Mode, policy RelocationPolicy, options ...SpotOption,
) *SpotType[S] {
	if mode != SpotWide && mode != PerActor {
		app.app.Fail("spot type %q: %d is no mode", stableType, mode)
	}
	t := app.app.AddSpot(store.UserSpot, stableType, mode == SpotWide, spotFactory(factory))
	policy.apply(app, t, "spot type", (*S)(nil))
	if mode == PerActor && policy.inner != 0 && policy.inner != node.Recreate {
		app.app.Fail("spot type %q: a PerActor Spot moves as what its factory makes, so its policy is RecreateOnRelocation", stableType)
	}
	return spotType[S](app, t, options...)
}

// DefineInstanceSpot registers a type of Instance Spots, which have no members and come
// with their first message: see Node.Instance. The stable type, shared with no type of User
// Spots, and the factory have the rules of DefineActor. For the callbacks that *S may have
// see Configurer; OnCreate is none of them, as nobody asks for the Spot by a call, nor are
// those about members.
func DefineInstanceSpot[S any](
	app *App, stableType string, factory func(*SpotContext) (*S, error), policy RelocationPolicy, options ...SpotOption,
) *SpotType[S] {
	t := app.app.AddSpot(store.InstanceSpot, stableType, false, spotFactory(factory))
	policy.apply(app, t, "spot type", (*S)(nil))
	return spotType[S](app, t, options...)
}

// SpotOption says more about a type of User or Instance Spots.
type SpotOption func(*node.App, *node.ObjectType)

// MaxPerNode bounds the Spots of the type that a node hosts, at most 2,147,483,647; 0, as
// without it: as many as Config.MaxSpots allows. Each node has the bound of its own
// program.
func MaxPerNode(spots int) SpotOption {
	return func(app *node.App, t *node.ObjectType) {
		if spots < 0 || spots > math.MaxInt32 {
			app.Fail("spot type %q: a limit of %d is not in 0 (none) to 2147483647", t.Name, spots)
		}
		t.Max = spots
	}
}

func spotFactory[S any](factory func(*SpotContext) (*S, error)) func(*node.ObjectContext) (any, error) {
	if factory == nil {
		return nil
	}
	return func(c *node.ObjectContext) (any, error) { return made(factory(spotContext(c))) }
}

// checkCallbacks reports methods that have the name of a callback, an interface of one
// method each, and not its signature.
func checkCallbacks(app *App, what, stableType string, value any, callbacks ...reflect.Type) {
	t := reflect.TypeOf(value)
	for _, c := range callbacks {
		want := c.Method(0)
		if has, ok := t.MethodByName(want.Name); ok && !t.Implements(c) {
			app.app.Fail("%s %q: its method %s is no callback, so nobody would call it; want %s", what, stableType, signature(has.Name, has.Type, 1), signature(want.Name, want.Type, 0))
		}
	}
}

// aliased is how reflection names types that the package has from an internal one.
var aliased = regexp.MustCompile(`\bnode\.`)

// signature writes a method as its declaration has it, without the first parameters.
func signature(name string, f reflect.Type, without int) string {
	var in, out []string
	for i := without; i < f.NumIn(); i++ {
		in = append(in, f.In(i).String())
	}
	for i := range f.NumOut() {
		out = append(out, f.Out(i).String())
	}
	s := name + "(" + strings.Join(in, ", ") + ")"
	switch len(out) {
	case 0:
	case 1:
		s += " " + out[0]
	default:
		s += " (" + strings.Join(out, ", ") + ")"
	}
	return aliased.ReplaceAllString(s, "zlnode.")
}

func implements[I any](value any) bool { _, ok := value.(I); return ok }

// spotType registers the callbacks that *S implements.
func spotType[S any](app *App, t *node.ObjectType, options ...SpotOption) *SpotType[S] {
	for _, o := range options {
		o(app.app, t)
	}
	var value any = (*S)(nil)
	checkCallbacks(app, "spot type", t.Name, value,
		reflect.TypeFor[Configurer](), reflect.TypeFor[Admitter](), reflect.TypeFor[Initializer](), reflect.TypeFor[DisconnectObserver](),
		reflect.TypeFor[ReconnectingObserver](), reflect.TypeFor[ReconnectedObserver](), reflect.TypeFor[ReadyObserver](),
		reflect.TypeFor[Closer](), reflect.TypeFor[JoinAdmitter](), reflect.TypeFor[JoinObserver](), reflect.TypeFor[LeaveObserver]())
	joinCallbacks(app, t, value)
	if _, ok := value.(Configurer); ok {
		t.Configure = func(c *node.Call, s any) error { return s.(Configurer).Configure(spotCall(c)) }
	}
	if _, ok := value.(Admitter); ok {
		if t.Kind != store.UserSpot {
			app.app.Fail("spot type %q: nobody asks the OnCreate of a Spot that is no User Spot", t.Name)
		}
		t.OnCreate = func(c *node.Call, s any, request []byte) (node.Admission, error) {
			a, err := s.(Admitter).OnCreate(&CreateSpotCall{spotCall(c), request})
			return a.inner, err
		}
	}
	if _, ok := value.(Initializer); ok {
		t.OnInitialize = func(c *node.Call, s any) error { return s.(Initializer).OnInitialize(spotCall(c)) }
	}
	if _, ok := value.(DisconnectObserver); ok {
		t.OnDisconnectActor = func(c *node.Call, s any, actor ActorRef) error {
			return s.(DisconnectObserver).OnDisconnectActor(spotCall(c), actor)
		}
	}
	if _, ok := value.(ReconnectingObserver); ok {
		t.OnReconnectingActor = func(c *node.Call, s any, actor ActorRef) error {
			return s.(ReconnectingObserver).OnReconnectingActor(spotCall(c), actor)
		}
	}
	if _, ok := value.(ReconnectedObserver); ok {
		t.OnReconnectedActor = func(c *node.Call, s any, actor ActorRef) error {
			return s.(ReconnectedObserver).OnReconnectedActor(spotCall(c), actor)
		}
	}
	if _, ok := value.(ReadyObserver); ok {
		if !t.Wide {
			app.app.Fail("spot type %q: only a SpotWide Spot says when it may move, so nobody calls OnRelocationReadyCompleted", t.Name)
		}
		t.OnRelocationReadyCompleted = func(c *node.Call, s any) error { return s.(ReadyObserver).OnRelocationReadyCompleted(spotCall(c)) }
	}
	if _, ok := value.(Closer); ok {
		t.OnClosing = func(c *node.Call, s any, reason ClosingReason) error {
			return s.(Closer).OnClosing(spotCall(c), reason)
		}
	}
	return &SpotType[S]{app.app, t}
}

// OnSpotSend registers the handler of a one-way packet to Spots of the type, as OnSend
// does for Actors. An Entry Spot has none: it has no address.
func OnSpotSend[S, M any](t *SpotType[S], packet string, h func(c *SpotCall, s *S, m M) error) {
	OnSpotSendRaw(t, packet, func(c *SpotCall, s *S, payload []byte) error {
		var m M
		if err := decode(c.Codec(), payload, &m); err != nil {
			return err
		}
		return h(c, s, m)
	})
}

// OnSpotRequest registers the handler of a request to Spots of the type, as OnRequest
// does for Actors.
func OnSpotRequest[S, Q, R any](t *SpotType[S], packet string, h func(c *SpotCall, s *S, q Q) (R, error)) {
	t.hasAddress("request", packet)
	t.app.OnRequest(t.t, packet, func(c *node.Call, s any, payload []byte) (node.Reply, error) {
		var q Q
		if err := decode(Codec(c.Codec()), payload, &q); err != nil {
			return node.Reply{}, err
		}
		r, err := h(spotCall(c), s.(*S), q)
		return reply(Codec(c.Codec()), r, err)
	})
}

// OnSpotSendRaw is OnSpotSend with any payload, with the rules of OnSendRaw.
func OnSpotSendRaw[S any](t *SpotType[S], packet string, h func(c *SpotCall, s *S, payload []byte) error) {
	t.hasAddress("send", packet)
	t.app.OnSend(t.t, packet, func(c *node.Call, s any, payload []byte) error { return h(spotCall(c), s.(*S), payload) })
}

// OnSpotRequestRaw is OnSpotRequest with any payload, with the rules of OnRequestRaw.
func OnSpotRequestRaw[S any](t *SpotType[S], packet string, h func(c *SpotCall, s *S, payload []byte) ([]byte, error)) {
	t.hasAddress("request", packet)
	t.app.OnRequest(t.t, packet, func(c *node.Call, s any, payload []byte) (node.Reply, error) {
		r, err := h(spotCall(c), s.(*S), payload)
		return node.Reply{Payload: r}, err
	})
}

func (t *SpotType[S]) hasAddress(kind, packet string) {
	if t.t.Kind == store.EntrySpot {
		t.app.Fail("%s %q of the entry spot: it has no address, so no packet reaches it", kind, packet)
	}
}

// OnSpotTimer registers the handler of a timer of Spots of the type; see OnTimer.
func OnSpotTimer[S any](t *SpotType[S], name string, h func(c *SpotCall, s *S, tick Tick) error) {
	t.app.CheckName("timer", t.t.Name, name, t.t.Timers[name] != nil)
	t.t.Timers[name] = func(c *node.Call, s any, tick node.Tick) error { return h(spotCall(c), s.(*S), tickOf(tick)) }
}

// SpotContext is what a Spot knows of itself, for as long as it lives. Safe for
// concurrent use.
type SpotContext struct{ ObjectContext }

func spotContext(c *node.ObjectContext) *SpotContext {
	o, ok := c.Outer.(*SpotContext)
	if !ok {
		o = &SpotContext{ObjectContext{c}}
		c.Outer = o
	}
	return o
}

// Ref returns the Spot's identity and place.
func (s *SpotContext) Ref() SpotRef { return SpotRef(s.inner.Ref()) }

// SpotCall is a turn of a Spot.
type SpotCall struct{ Turn }

func spotCall(c *node.Call) *SpotCall {
	o, ok := c.Outer.(*SpotCall)
	if !ok {
		o = &SpotCall{Turn{c, c}}
		c.Outer = o
	}
	return o
}

// CreateSpotCall is the turn in which a new User Spot decides whether it is to be.
type CreateSpotCall struct {
	*SpotCall
	// Request is what the creator gave. It must not be modified.
	Request []byte
}

// DecodeRequest decodes a JSON request into v.
func (c *CreateSpotCall) DecodeRequest(v any) error { return decode(JSON, c.Request, v) }

// Close closes the Spot by its own hand, behind this turn and what it has accepted: true
// says that this was taken, and OnClosing comes within the node's create timeout; false,
// that the Spot has members, and nothing was changed. Whom it has let in by then keeps it
// open, too.
//
// Kinds: InvalidOperation for an Entry Spot; CapacityExceeded; Unavailable, also while the Spot moves
// to another node, or waits for that.
func (c *SpotCall) Close() (bool, error) { return c.inner.Close() }

// RelocationReady is for a SpotWide Spot that may not move at any time, such as a match that may
// between two rounds: see RelocationReady.Defer.
func (c *SpotCall) RelocationReady() RelocationReady { return RelocationReady{c.inner} }

// RelocationReady is what SpotCall.RelocationReady gives.
type RelocationReady struct{ inner *node.Call }

// Defer says that the Spot may move, with its members, from the end of this turn to its own next
// one. It has no effect if the turn fails.
//
// If the node is being relocated and waits for the Spot, it moves then: the Spot's next message,
// timer or callback runs where it is by then, behind OnRelocationReadyCompleted (ReadyObserver). What
// comes for it waits meanwhile; its members run on until they are sealed together. If it cannot move it
// goes on here, and may say so again. If nobody waits, nothing happens, and a relocation that begins
// before the Spot's next turn need not wait.
//
// A Spot whose type has OnRelocationReadyCompleted, or that has called Defer once, moves at no other
// time: a relocation waits for it to its deadline, and is Blocked by it then. While it does the Spot
// may close itself. Others move at the end of any turn.
//
// Kinds: InvalidOperation for a Spot that is not SpotWide; Unavailable.
func (r RelocationReady) Defer() error { return r.inner.RelocationReady() }

// Relocated reports whether the Spot came to this node from another one, as that was relocated: so
// Configure and OnInitialize, which run there before the Spot goes on, can tell. OnCreate does not
// run again. What the Spot's policy has captured is in its value by then; its timers and
// subscriptions are as they were.
func (c *SpotCall) Relocated() bool { return c.inner.Relocated() }

// Members returns how many Actors are in the User Spot or have been let in and are on their
// way, in OnActorJoin with the one that asks; 0 for other Spots. Who has just left may be
// counted yet.
func (c *SpotCall) Members() int { return c.inner.Members() }

// Spot returns the Spot's context.
func (c *SpotCall) Spot() *SpotContext { return spotContext(c.inner.Object()) }

// Spot returns the address of a User or Instance Spot. See Actor.
func (n *Node) Spot(id string) Addr {
	return Addr{node: n.inner, to: n.inner.Target(id, true), as: JSON}
}
