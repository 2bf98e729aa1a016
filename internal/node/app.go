package node

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
)

// App is what the application registers before a node starts: types and their
// handlers. It is not safe for concurrent use and must not change after Start.
type App struct {
	Actors   map[string]*ObjectType
	Spots    map[string]*ObjectType // User and Instance Spots
	Sessions map[string]*SessionType
	Entry    EntrySpot
	Node     *ServiceType // of messages to the node itself
	Channels map[string]*ServiceType
	errs     []error
}

// NewApp returns an empty App.
func NewApp() *App {
	return &App{
		Actors: map[string]*ObjectType{}, Spots: map[string]*ObjectType{}, Sessions: map[string]*SessionType{},
		Node: newServiceType(""), Channels: map[string]*ServiceType{},
	}
}

// ObjectType is a type of Actors or Spots with its factory, handlers and callbacks.
type ObjectType struct {
	Kind    store.Kind
	Name    string
	Wide    bool // a User Spot whose members share its gate
	Max     int  // Spots of the type at a node; 0: no bound of its own
	Factory func(*ObjectContext) (any, error)
	Timers  map[string]TimerHandler
	packets map[string]*packetType
	topics  map[string]SendHandler // of packets to topics, by name

	Policy Policy
	// Capture and Restore are of PreserveState. The bytes that Capture returns are not
	// changed afterwards, and nil without an error is a breach of its contract; those of
	// Restore are valid during the call.
	Capture func(instance any) ([]byte, error)
	Restore func(instance any, state []byte) error
	// What a capture took of late: bytes with the queue and all else, and nanoseconds.
	captured, captures average

	// Of Spots; nil ones do nothing. OnCreate is of User Spots.
	Configure           func(c *Call, instance any) error
	OnCreate            func(c *Call, instance any, request []byte) (Admission, error)
	OnInitialize        func(c *Call, instance any) error
	OnDisconnectActor   func(c *Call, instance any, actor ActorRef) error
	OnReconnectingActor func(c *Call, instance any, actor ActorRef) error
	OnReconnectedActor  func(c *Call, instance any, actor ActorRef) error
	OnClosing           func(c *Call, instance any, reason ClosingReason) error
	// OnRelocationReadyCompleted is of SpotWide Spots.
	OnRelocationReadyCompleted func(c *Call, instance any) error

	// Of Joins; see joincalls.go. OnActorJoin is of User Spots, which without one let
	// everybody in; the next two are of User Spots and Entry Spots, the last is of Actors.
	OnActorJoin     func(c *Call, instance any, ask JoinAsk) (Admission, error)
	OnJoinedActor   func(c *Call, instance any, actor ActorRef) error
	OnLeaveActor    func(c *Call, instance any, actor ActorRef) error
	OnJoinCompleted func(c *Call, instance any, done JoinDone) error
}

// Policy says what of an object goes along when it moves to another node (PO-01).
type Policy uint8

// The policies.
const (
	Disable       Policy = iota + 1 // it does not move
	Recreate                        // its factory makes it anew there
	PreserveState                   // the same, and Restore gives it what Capture took
)

// packetType is what an object type does with the packets of a name, or with those of a topic.
type packetType struct {
	name    string
	topic   string         // "": they are the object's own
	news    *spotNotice    // of a control message that brings what a Spot is told, from its node before
	send    SendHandler    // nil: it takes none
	request RequestHandler // nil: it takes none
}

// SendHandler and RequestHandler run in the Actor's turn. The payload is valid
// during the call. The reply may be any bytes that stay unchanged until the
// handler's next turn, the payload included; it is copied before that.
type (
	SendHandler    func(c *Call, instance any, payload []byte) error
	RequestHandler func(c *Call, instance any, payload []byte) (Reply, error)
)

// TimerHandler runs in the object's turn.
type TimerHandler func(c *Call, instance any, tick Tick) error

// ClosingReason says why a Spot is closed (CL-01).
type ClosingReason uint8

// The reasons.
const (
	ExplicitClose ClosingReason = iota + 1
	HostShutdown
	RelocationOut
	IdleEvicted
)

// String returns the reason's name.
func (r ClosingReason) String() string {
	switch r {
	case ExplicitClose:
		return "ExplicitClose"
	case HostShutdown:
		return "HostShutdown"
	case RelocationOut:
		return "RelocationOut"
	case IdleEvicted:
		return "IdleEvicted"
	default:
		return fmt.Sprintf("ClosingReason(%d)", uint8(r))
	}
}

// Reply is encoded data with its codec number.
type Reply struct {
	Codec   uint8
	Payload []byte
}

// EntrySpot is where every Actor begins.
type EntrySpot struct {
	// OnCreateActor decides whether a staged Actor comes into being. Nil
	// accepts all. It may run for several Actors at once.
	OnCreateActor func(*CreateCall) (Admission, error)
	// Type is that of the node's own Entry Spot; nil: it has no value and no callbacks.
	Type *ObjectType
}

// Admission is the decision of OnCreateActor, OnCreate or OnActorJoin with its optional
// reply.
type Admission struct {
	Reject bool
	Reply  []byte
}

// SessionType is how a client connection behaves.
type SessionType struct {
	Name     string
	Factory  func(*SessionContext) (any, error)
	Sends    map[string]SessionSendHandler
	Requests map[string]SessionRequestHandler
	Relays   map[string]string // packet name → Actor type whose binding gets it

	// Nil ones do nothing; see the public package.
	OnConnect    func(c *SessionCall, instance any) error
	OnError      func(c *SessionCall, instance any, err *Error)
	OnDisconnect func(c *SessionCall, instance any, why Disconnect)
	Auth         SessionRequestHandler // of the request with which a client must begin
	AuthPacket   string                // its name

	// OnReplaced and OnNotice, if not nil, run in the Session's turn: once when an Actor of
	// its was bound to another Session, and for each notice about a binding.
	OnReplaced func(c *SessionCall, instance any, actor ActorRef)
	OnNotice   func(c *SessionCall, instance any, n Notice)
	// NoticePacket is the packet in which clients get notices; "": they get none.
	NoticePacket string
}

// hearNotices reports whether there are Sessions that want notices.
func (a *App) hearNotices() bool {
	for _, t := range a.Sessions {
		if t.OnNotice != nil || t.NoticePacket != "" {
			return true
		}
	}
	return false
}

// SessionSendHandler and SessionRequestHandler run in the Session's turn, with
// the same rules on bytes as the Actor's.
type (
	SessionSendHandler    func(c *SessionCall, instance any, payload []byte) error
	SessionRequestHandler func(c *SessionCall, instance any, payload []byte) (Reply, error)
)

var stableType = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// AddActor registers a type.
func (a *App) AddActor(name string, factory func(*ObjectContext) (any, error)) *ObjectType {
	t := a.newType(store.Actor, "actor type", name, factory)
	if _, twice := a.Actors[name]; twice {
		a.Fail("actor type %q is defined twice", name)
	}
	a.Actors[name] = t
	return t
}

// AddSpot registers a type of User or Instance Spots.
func (a *App) AddSpot(kind store.Kind, name string, wide bool, factory func(*ObjectContext) (any, error)) *ObjectType {
	t := a.newType(kind, "spot type", name, factory)
	t.Wide = wide
	if _, twice := a.Spots[name]; twice {
		a.Fail("spot type %q is defined twice", name)
	}
	a.Spots[name] = t
	return t
}

// SetEntry registers the type of the Entry Spots.
func (a *App) SetEntry(factory func(*ObjectContext) (any, error)) *ObjectType {
	if a.Entry.Type != nil {
		a.Fail("the entry spot is defined twice")
	}
	a.Entry.Type = a.newType(store.EntrySpot, "entry spot", "entry", factory)
	return a.Entry.Type
}

func (a *App) newType(kind store.Kind, what, name string, factory func(*ObjectContext) (any, error)) *ObjectType {
	if !stableType.MatchString(name) {
		a.Fail("%s %q: a stable type is 1 to 64 of A-Z a-z 0-9 . _ -", what, name)
	}
	if factory == nil {
		a.Fail("%s %q has no factory", what, name)
	}
	return &ObjectType{
		Kind: kind, Name: name, Factory: factory,
		Timers: map[string]TimerHandler{}, packets: map[string]*packetType{}, topics: map[string]SendHandler{},
	}
}

// typeOf returns a type of Actors or Spots, or nil.
func (a *App) typeOf(kind store.Kind, name string) *ObjectType {
	if kind == store.Actor {
		return a.Actors[name]
	}
	if t := a.Spots[name]; t != nil && t.Kind == kind {
		return t
	}
	return nil
}

// packet returns what the type does with packets of that name, to be filled in.
func (t *ObjectType) packet(name string) *packetType {
	p := t.packets[name]
	if p == nil {
		p = &packetType{name: name}
		t.packets[name] = p
	}
	return p
}

// OnSend registers the handler of a one-way packet of t, a type of a's.
func (a *App) OnSend(t *ObjectType, name string, h SendHandler) {
	p := t.packet(name)
	a.CheckName("send", t.Name, name, p.send != nil)
	p.send = h
}

// OnRequest registers the handler of a request to objects of t, a type of a's.
func (a *App) OnRequest(t *ObjectType, name string, h RequestHandler) {
	p := t.packet(name)
	a.CheckName("request", t.Name, name, p.request != nil)
	p.request = h
}

// AddSession registers a session type.
func (a *App) AddSession(name string, factory func(*SessionContext) (any, error)) *SessionType {
	t := &SessionType{
		Name: name, Factory: factory, Sends: map[string]SessionSendHandler{},
		Requests: map[string]SessionRequestHandler{}, Relays: map[string]string{},
	}
	if _, twice := a.Sessions[name]; twice {
		a.Fail("session type %q is defined twice", name)
	}
	if factory == nil {
		a.Fail("session type %q has no factory", name)
	}
	a.Sessions[name] = t
	return t
}

// Authenticate registers the request with which clients of t, a type of a's, must begin.
// Behind its success a second one is refused.
func (a *App) Authenticate(t *SessionType, name string, h SessionRequestHandler) {
	a.CheckName("authentication", t.Name, name, t.Requests[name] != nil)
	if t.Auth != nil {
		a.Fail("session type %q authenticates by %q and by %q", t.Name, t.AuthPacket, name)
	}
	t.Auth, t.AuthPacket = h, name
	t.Requests[name] = func(*SessionCall, any, []byte) (Reply, error) { return Reply{}, errAuthTwice }
}

// CheckName notes an error if name cannot be a packet's name or is taken.
func (a *App) CheckName(kind, owner, name string, taken bool) {
	switch {
	case !wire.ValidID(name):
		a.Fail("%s %q of %q: a packet name has 1 to %d bytes of UTF-8", kind, name, owner, nameBytesMax)
	case strings.HasPrefix(name, session.ReservedPrefix):
		a.Fail("%s %q of %q: names that begin with %s are reserved", kind, name, owner, session.ReservedPrefix)
	case taken:
		a.Fail("%s %q of %q is registered twice", kind, name, owner)
	}
}

// Fail notes a mistake in the registration; Start reports all of them at once.
func (a *App) Fail(format string, args ...any) {
	a.errs = append(a.errs, fmt.Errorf(format, args...))
}

// check returns the mistakes of the registration as one error, or nil.
func (a *App) check() error {
	for _, s := range a.Sessions {
		for name, actor := range s.Relays {
			if _, ok := s.Sends[name]; ok {
				a.Fail("packet %q of session type %q is both handled and relayed to %q", name, s.Name, actor)
			}
			if _, ok := s.Requests[name]; ok {
				a.Fail("packet %q of session type %q is both handled and relayed to %q", name, s.Name, actor)
			}
		}
	}
	if len(a.errs) == 0 {
		return nil
	}
	e := &Error{Kind: errkind.InvalidOperation, Op: "start", Text: "the application is registered wrongly"}
	for _, err := range a.errs {
		e.Text += "; " + err.Error()
	}
	return e
}

// actorTypes returns the stable types, sorted.
func (a *App) actorTypes() []string {
	names := make([]string, 0, len(a.Actors))
	for name := range a.Actors {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// actorPolicies returns their policies.
func (a *App) actorPolicies() map[string]uint8 {
	policies := make(map[string]uint8, len(a.Actors))
	for name, t := range a.Actors {
		policies[name] = policyOf(t)
	}
	return policies
}

// spotTypes returns what the node publishes of its types of Spots, sorted.
func (a *App) spotTypes() []store.SpotType {
	types := make([]store.SpotType, 0, len(a.Spots))
	for _, t := range a.Spots {
		types = append(types, store.SpotType{Type: t.Name, Kind: t.Kind, Max: t.Max, Wide: t.Wide, Policy: policyOf(t)})
	}
	slices.SortFunc(types, func(a, b store.SpotType) int { return strings.Compare(a.Type, b.Type) })
	return types
}
