package node

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/internal/timer"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
)

// Compression is how the state of moving objects is encoded on its way.
type Compression = chunker.Compression

// The compressions.
const (
	CompressNone = chunker.None
	CompressS2   = chunker.S2
	CompressZstd = chunker.Zstd
)

// Config is what a node is started with. The public package documents each
// field for users.
type Config struct {
	RID       string
	RIDPrefix string
	// Of the main mesh.
	Mesh      string
	MeshKey   []byte
	MeshKeys  [][]byte // in place of MeshKey
	Role      store.Role
	Listen    string
	Advertise string
	Peers     []Peer
	MeshTLS   TLSFiles

	Meshes   []Mesh // the others
	Sessions []SessionListener

	StoreURL     string
	Namespace    string
	WaitReplicas int           // of the Store that must have a change before its call returns
	RecoveryHold time.Duration // 0: lease TTL and margin; < 0: none; it is also Lease.Hold
	// StoreFailureGrace is how long the last node list is used without a newer one.
	StoreFailureGrace time.Duration
	// RouteCacheMaxAge is how long a route is used without asking the Store; < 0: for the
	// one message that asked.
	RouteCacheMaxAge time.Duration

	// Of moves. MessageFollowDuration is how long an object's old owner relays to the new one;
	// < 0: not at all.
	MessageFollowDuration        time.Duration
	RelocationCutoverWaitTimeout time.Duration
	Moves                        MoveLimits    // with which the node starts
	MoveValidity                 time.Duration // for which a target may go on with the commit after its relay-ready
	MoveCompression              Compression

	Weight    int
	MaxActors int
	MaxSpots  int
	// InstanceIdle is how long an Instance Spot is kept that nobody uses; 0: for ever.
	InstanceIdle time.Duration
	AppVersion   string
	// MaintenanceWave names those that are relocated one after the other: none is another's target.
	MaintenanceWave string

	// Channels are those that the node serves.
	Channels []Channel
	// ChannelServers and ChannelClients are channels that have connections of their own.
	ChannelServers []ChannelServer
	ChannelClients []ChannelClient

	Workers int
	// QueueBytes bounds what the node's mailboxes have queued; 0: 256 MiB.
	QueueBytes int64
	// ObjectQueueMessages and ObjectQueueBytes bound what one object has queued.
	ObjectQueueMessages int
	ObjectQueueBytes    int64
	Loops               int

	Lease          lease.Config
	SendTimeout    time.Duration
	RequestTimeout time.Duration
	CreateTimeout  time.Duration

	// SessionRelocationSealTimeout is how long a Session waits for the end of a bound
	// Actor's move; 0: 3 s.
	SessionRelocationSealTimeout time.Duration
	// ReplacedTimeout is how long the OnReplaced of a Session may take. 0: 30 s.
	ReplacedTimeout time.Duration

	Logger zerolog.Logger
	// Tracer makes spans; nil: none are made. TraceIDs has them tell ids.
	Tracer   trace.Tracer
	TraceIDs bool

	// TimerClock, if set, is the timers' clock: for tests.
	TimerClock timer.Clock

	// Observe, if set, is told what happens to Actors and Spots, where it happens and before
	// anything follows from it: for tests.
	Observe func(*Event)

	// OnJoin, if set, is told of each Join whose barrier stands, on the Join's own task, and
	// decides it then or later in place of the node: for tests.
	OnJoin func(*PendingJoin)

	// Attach gives the public package's view of the node, before anything runs.
	Attach func(*Node) any
}

// What of the engine a SessionListener is described with.
type (
	Transport = engine.Transport
	TLSFiles  = engine.TLSFiles
	ConnRate  = engine.ConnRate
	InputRate = engine.Rate
)

// The transports.
const (
	TCP = engine.TCP
	WS  = engine.WS
	TLS = engine.TLS
	WSS = engine.WSS
)

// SessionListener is one STREAM port.
type SessionListener struct {
	Addr        string
	Type        string
	FrameMax    int // header and payload; 0: 64 KiB; < 0: no cap of its own
	IdleTimeout time.Duration
	MaxConns    int
	MaxPerIP    int

	AuthTimeout time.Duration // of types with Authenticate; 0: 5 s
	CompressMin int           // bytes of a payload to a client; 0: never
	StartFlows  bool          // of packets that have none

	Transport      Transport
	TLSFiles       TLSFiles
	TLS            *tls.Config `json:"-"` // once checked that of TLSFiles, if they are named
	Origins        []string
	TrustedProxies []netip.Prefix

	MaxUnadmitted, MaxHandshakes int
	ConnRate, NetworkRate        ConnRate
	NetworkBits4, NetworkBits6   int
	InputRate                    InputRate
	FrameTimeout, StallTimeout   time.Duration

	OutBytes, OutBurstBytes int           // what must be delivered and may wait for OutTime, and at all; 0: 1 and 4 MiB, or OutBytes if that is more
	OutTime                 time.Duration // 0: 5 s

	ReconnectGrace time.Duration // 0: none
	ReconnectBytes int           // of pushes that are kept for one client; 0: 256 KiB
}

// clientOutMax is the room in a connection's queue. With all that can wait in the outbox put
// into it, before the Session is closed in order, it is not full.
func clientOutMax(l *SessionListener) int64 {
	const classes = 3 // each may have one frame more than its bound
	return outMark + int64(l.OutBurstBytes) + (classes-1)*int64(l.OutBytes) + (classes+1)*(clientFrameMax+engine.MessageCost)
}

// listen is what the engine is told of the port, but for the protocol's own part.
func (l *SessionListener) listen(p *engine.Protocol) engine.Listen {
	p.FrameTimeout, p.StallTimeout = l.FrameTimeout, l.StallTimeout
	if l.InputRate != (InputRate{}) {
		p.Rate = &l.InputRate
	}
	return engine.Listen{
		Addr: l.Addr, Protocol: p, Transport: l.Transport, TLS: l.TLS, Origins: l.Origins, TrustedProxies: l.TrustedProxies,
		MaxConns: l.MaxConns, MaxPerIP: l.MaxPerIP, MaxUnadmitted: l.MaxUnadmitted, MaxHandshakes: l.MaxHandshakes,
		ConnRate: l.ConnRate, NetworkRate: l.NetworkRate, NetworkBits4: l.NetworkBits4, NetworkBits6: l.NetworkBits6,
	}
}

// check says what of the listener cannot be, and reads its TLS files.
func (l *SessionListener) check(log zerolog.Logger) error {
	r := l.InputRate
	switch {
	case l.AuthTimeout < 0:
		return errors.New("AuthTimeout must not be negative")
	case l.CompressMin < 0:
		return errors.New("CompressMin must not be negative")
	case l.OutBytes < outBytesMin || l.OutBytes > outBytesMax:
		return fmt.Errorf("OutBytes %d is not in %d to %d, nor 0 for the default", l.OutBytes, outBytesMin, outBytesMax)
	case l.OutBurstBytes < l.OutBytes || l.OutBurstBytes > outBytesMax:
		return fmt.Errorf("OutBurstBytes %d is not in OutBytes, %d, to %d, nor 0 for the default", l.OutBurstBytes, l.OutBytes, outBytesMax)
	case l.OutTime < outTimeMin:
		return fmt.Errorf("OutTime %v is less than %v", l.OutTime, outTimeMin)
	case l.ReconnectGrace < 0 || l.ReconnectGrace > reconnectGraceMax:
		return fmt.Errorf("ReconnectGrace %v is not in 0 (none) to %v", l.ReconnectGrace, reconnectGraceMax)
	case l.ReconnectBytes < outBytesMin || l.ReconnectBytes > outBytesMax:
		return fmt.Errorf("ReconnectBytes %d is not in %d to %d, nor 0 for the default", l.ReconnectBytes, outBytesMin, outBytesMax)
	case r.BytesPerSecond < 0 || r.BurstBytes < 0 || r.FramesPerSecond < 0 || r.BurstFrames < 0:
		return errors.New("InputRate must not be negative")
	case l.Transport.Encrypted() && l.TLS == nil && l.TLSFiles == (TLSFiles{}):
		return fmt.Errorf("the Transport is %v, and neither TLSFiles nor TLS is set", l.Transport)
	}
	if burst := cmp.Or(r.BurstBytes, r.BytesPerSecond); r.BytesPerSecond > 0 && burst < int64(l.FrameMax) {
		return fmt.Errorf("InputRate allows %d bytes at once, and FrameMax is %d", burst, l.FrameMax)
	}
	if l.TLSFiles != (TLSFiles{}) {
		if l.TLS != nil {
			return errors.New("both TLS and TLSFiles are set")
		}
		if !l.Transport.Encrypted() {
			return fmt.Errorf("the Transport is %v, and TLSFiles are named", l.Transport)
		}
		cfg, err := l.TLSFiles.Config(l.Transport, log)
		if err != nil {
			return fmt.Errorf("TLSFiles: %w", err)
		}
		l.TLS = cfg
	}
	return l.listen(&engine.Protocol{Name: "session"}).Check()
}

const (
	weightMax       = 10_000
	sealTimeout     = 3 * time.Second
	ridPrefixMax    = 20 // so that "<prefix>-entry-<uuid>" is a name of 64 bytes or less
	sessionFrameMax = 64 << 10
	sessionIdle     = session.DefaultIdle
)

var (
	ridForm  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	meshForm = ridForm
	// entryIDForm is the form of an Entry Spot's id: "<prefix>-entry-<uuid v4>".
	entryIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]+-entry-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
)

// withDefaults fills the zero fields.
func (c Config) withDefaults() Config {
	if c.Mesh == "" {
		c.Mesh = "main"
	}
	if c.RIDPrefix == "" {
		c.RIDPrefix = "node"
	}
	if c.RID == "" {
		var b [4]byte
		rand.Read(b[:])
		c.RID = c.RIDPrefix + "-" + hex.EncodeToString(b[:])
	}
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	if c.ObjectQueueMessages == 0 {
		c.ObjectQueueMessages = objectQueueMessages
	}
	if c.ObjectQueueBytes == 0 {
		c.ObjectQueueBytes = max(objectQueueBytes, int64(c.ObjectQueueMessages)*(objectQueueBytes/objectQueueMessages))
	}
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.SendTimeout, time.Second)
	set(&c.RequestTimeout, 30*time.Second)
	set(&c.CreateTimeout, 5*time.Second)
	set(&c.SessionRelocationSealTimeout, sealTimeout)
	set(&c.ReplacedTimeout, replacedTimeout)
	c.Lease.Hold = c.RecoveryHold
	c.Lease = c.Lease.WithDefaults()
	c.RecoveryHold = c.Lease.Hold
	set(&c.StoreFailureGrace, 30*time.Second)
	set(&c.RouteCacheMaxAge, routeAge)
	set(&c.MessageFollowDuration, followTime)
	set(&c.RelocationCutoverWaitTimeout, cutoverWait)
	c.MessageFollowDuration = max(c.MessageFollowDuration, 0)
	c.Moves = c.Moves.withDefaults()
	c.MoveValidity = cmp.Or(c.MoveValidity, moveValidity)
	c.Sessions = append([]SessionListener(nil), c.Sessions...)
	for i := range c.Sessions {
		l := &c.Sessions[i]
		switch {
		case l.FrameMax == 0:
			l.FrameMax = sessionFrameMax
		case l.FrameMax < 0:
			l.FrameMax = 0
		}
		switch {
		case l.IdleTimeout == 0:
			l.IdleTimeout = sessionIdle
		case l.IdleTimeout < 0:
			l.IdleTimeout = 0
		}
		set(&l.AuthTimeout, authTimeout)
		l.OutBytes = cmp.Or(l.OutBytes, outBytes)
		l.OutBurstBytes = cmp.Or(l.OutBurstBytes, max(outBurstBytes, l.OutBytes))
		set(&l.OutTime, outTime)
		l.ReconnectBytes = cmp.Or(l.ReconnectBytes, reconnectBytes)
	}
	return c
}

// boundMoveTime is how long after the seal of its Session's binding the state of an Actor
// may take to the target: what comes then must not outlast the seal.
func (c *Config) boundMoveTime() time.Duration {
	return c.SessionRelocationSealTimeout - c.RelocationCutoverWaitTimeout - relay.SealMargin
}

// check looks at everything that can be wrong before a socket is opened, and
// names the first fault (ID-07).
func (c *Config) check(app *App) error {
	bad := func(kind errkind.Kind, format string, args ...any) error {
		return &Error{Kind: kind, Op: "start", Object: c.RID, Text: fmt.Sprintf(format, args...)}
	}
	if app == nil {
		return bad(errkind.NotConfigured, "there is no App; pass one from NewApp")
	}
	if err := app.check(); err != nil {
		return err
	}
	invalid := errkind.InvalidOperation
	switch {
	case !ridForm.MatchString(c.RID):
		return bad(invalid, "RID must be 1 to 64 of A-Z a-z 0-9 . _ -")
	case len(c.RIDPrefix) > ridPrefixMax || !ridForm.MatchString(c.RIDPrefix):
		return bad(invalid, "RID prefix %q must be 1 to %d of A-Z a-z 0-9 . _ -", c.RIDPrefix, ridPrefixMax)
	case c.Weight < 0 || c.Weight > weightMax:
		return bad(invalid, "weight %d is not in 0 to %d", c.Weight, weightMax)
	case c.MaxActors < 0 || c.MaxActors > 1<<31-1:
		return bad(invalid, "actor limit %d is not in 0 (none) to 2147483647", c.MaxActors)
	case c.MaxSpots < 0 || c.MaxSpots > 1<<31-1:
		return bad(invalid, "spot limit %d is not in 0 (none) to 2147483647", c.MaxSpots)
	case len(c.Channels) > wire.MaxOffered:
		return bad(invalid, "a node serves at most %d channels, not %d", wire.MaxOffered, len(c.Channels))
	case c.QueueBytes != 0 && c.QueueBytes < queueBytesMin:
		return bad(invalid, "queues of %d bytes for the node are less than %d; set QueueBytes to more, or 0 for the default", c.QueueBytes, queueBytesMin)
	case c.ObjectQueueMessages < 0 || c.ObjectQueueMessages > objectQueueMessagesMax:
		return bad(invalid, "ObjectQueueMessages %d is not in 1 to %d, nor 0 for the default", c.ObjectQueueMessages, objectQueueMessagesMax)
	case c.ObjectQueueBytes != 0 && (c.ObjectQueueBytes < objectQueueBytesMin || c.ObjectQueueBytes > objectQueueBytesMax):
		return bad(invalid, "ObjectQueueBytes %d is not in %d to %d, nor 0 for the default", c.ObjectQueueBytes, objectQueueBytesMin, int64(objectQueueBytesMax))
	case c.InstanceIdle < 0:
		return bad(invalid, "InstanceSpotIdleTimeout must not be negative; 0 is never")
	case c.SendTimeout < 0 || c.RequestTimeout < 0 || c.CreateTimeout < 0 || c.StoreFailureGrace < 0:
		return bad(invalid, "timeouts must not be negative")
	case c.RelocationCutoverWaitTimeout <= 0:
		return bad(invalid, "RelocationCutoverWaitTimeout must be more than 0")
	case c.MessageFollowDuration > 0 && c.RouteCacheMaxAge > 0 && c.RouteCacheMaxAge+followSlack > c.MessageFollowDuration:
		return bad(invalid, "MessageFollowDuration %v is less than RouteCacheMaxAge %v and %v: old routes would outlive it", c.MessageFollowDuration, c.RouteCacheMaxAge, followSlack)
	case c.MoveCompression > chunker.Zstd:
		return bad(invalid, "unknown compression %d", c.MoveCompression)
	case c.boundMoveTime() <= 0:
		return bad(invalid, "SessionRelocationSealTimeout %v leaves a move no time: it must be more than %v, for the cutover, and %v", c.SessionRelocationSealTimeout, c.RelocationCutoverWaitTimeout, relay.SealMargin)
	}
	if err := c.Moves.check(); err != nil {
		return bad(err.Kind, "%s", err.Text)
	}
	if err := c.Lease.Validate(); err != nil {
		return bad(invalid, "%v", err)
	}
	if fault := c.checkMeshes(len(app.Actors) + len(app.Spots)); fault != nil {
		return bad(fault.kind, "%v", fault.error)
	}
	served := map[string]bool{}
	for _, ch := range c.Channels {
		m, in := c.mesh(ch.Mesh)
		switch {
		case app.Channels[ch.Name] == nil:
			return bad(errkind.NotConfigured, "the node shall serve channel %q, which is not defined", ch.Name)
		case served[ch.Name]:
			return bad(invalid, "channel %q is served twice", ch.Name)
		case ch.Weight < 0 || ch.Weight > weightMax:
			return bad(invalid, "weight %d of channel %q is not in 0 to %d", ch.Weight, ch.Name, weightMax)
		case !in:
			return bad(errkind.NotConfigured, "channel %q shall be served in mesh %q, which the node is not in", ch.Name, ch.Mesh)
		case len(m.Keys) == 0:
			return bad(errkind.NotConfigured, "a node that serves channel %q needs links; set the key of mesh %q", ch.Name, m.Name)
		}
		served[ch.Name] = true
	}
	if fault := c.checkChannelSides(app, served); fault != nil {
		return bad(fault.kind, "%v", fault.error)
	}
	for i, l := range c.Sessions {
		typ, ok := app.Sessions[l.Type]
		if !ok {
			return bad(errkind.NotConfigured, "session listener %s wants session type %q, which is not defined", l.Addr, l.Type)
		}
		if len(typ.Relays) > 0 && !c.objects() {
			return bad(errkind.NotConfigured, "session type %q relays packets to actors, and a node of RoleNone knows none; set Role", l.Type)
		}
		if _, _, err := net.SplitHostPort(l.Addr); err != nil {
			return bad(invalid, "session listener %q: %v", l.Addr, err)
		}
		if err := c.Sessions[i].check(c.Logger); err != nil {
			return bad(invalid, "session listener %s: %v", l.Addr, err)
		}
	}
	return nil
}
