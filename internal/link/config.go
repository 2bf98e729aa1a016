package link

import (
	"errors"
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/wire"
)

// Defaults and bounds of a Config.
const (
	DefaultWindow  = 8 << 20
	DefaultTimeout = 2 * time.Second
	// KeyMin is the smallest mesh key in bytes: 128 bits cannot be guessed.
	KeyMin = 16
	// KeysMax is how many keys may be accepted at once: one rotation needs two,
	// and each costs a MAC per unknown caller.
	KeysMax = 4
)

// ErrConfig is wrapped by every error of Config.Validate and
// LivenessConfig.Validate.
var ErrConfig = errors.New("link: invalid configuration")

// Config is what a node says about itself on every link, and what it asks of
// peers. It is shared by all links and must not change after Validate.
type Config struct {
	Mesh      string // or, of the roles of a channel, the channel
	RID       string
	Lifecycle uint64 // generation of this process, ≥ 1
	Role      wire.Role
	// Keys are the mesh keys, KeyMin bytes or more each: the first signs, every
	// one is accepted. To rotate, add the new key as second everywhere, then make
	// it the first everywhere, then remove the old one.
	Keys [][]byte
	// MinVersion and MaxVersion are the protocol versions spoken; 0: wire.Version.
	MinVersion, MaxVersion uint16
	// Window is how many bytes of credited records a peer may send before it gets
	// credit back. 0: DefaultWindow. Less than wire.MinWindow would stop a record
	// of wire.MaxRecord for ever.
	Window uint64
	// Timeout bounds the handshake from the moment the connection is open.
	// 0: DefaultTimeout.
	Timeout time.Duration
}

// Validate fills in the defaults and checks the rest. It must come before the
// first NewDialler or NewAcceptor with this Config. Its errors wrap ErrConfig.
func (c *Config) Validate() error {
	if c.MinVersion == 0 {
		c.MinVersion = wire.Version
	}
	if c.MaxVersion == 0 {
		c.MaxVersion = max(wire.Version, c.MinVersion)
	}
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	switch {
	case !wire.ValidID(c.Mesh):
		return fmt.Errorf("%w: mesh name %.300q: give 1–%d bytes of UTF-8", ErrConfig, c.Mesh, wire.MaxID)
	case !wire.ValidRID(c.RID):
		return fmt.Errorf("%w: RID %.300q: give 1–%d bytes of [A-Za-z0-9._-]", ErrConfig, c.RID, wire.MaxRID)
	case c.Lifecycle < 1 || c.Lifecycle > wire.MaxGeneration:
		return fmt.Errorf("%w: lifecycle %d: must be 1–%d", ErrConfig, c.Lifecycle, int64(wire.MaxGeneration))
	case c.Role > wire.RoleChannelClient:
		return fmt.Errorf("%w: role %d is unknown", ErrConfig, c.Role)
	case c.MaxVersion < c.MinVersion:
		return fmt.Errorf("%w: newest version %d is below the oldest, %d", ErrConfig, c.MaxVersion, c.MinVersion)
	case c.Window < wire.MinWindow || c.Window > wire.MaxWindow:
		return fmt.Errorf("%w: window of %d bytes: must be %d–%d, so that a record of %d bytes can pass",
			ErrConfig, c.Window, wire.MinWindow, int64(wire.MaxWindow), wire.MaxRecord)
	case c.Timeout < 0:
		return fmt.Errorf("%w: handshake timeout %v is negative", ErrConfig, c.Timeout)
	case len(c.Keys) < 1 || len(c.Keys) > KeysMax:
		return fmt.Errorf("%w: %d mesh keys: give 1–%d", ErrConfig, len(c.Keys), KeysMax)
	}
	for i, k := range c.Keys {
		if len(k) < KeyMin {
			return fmt.Errorf("%w: mesh key %d has %d bytes: give at least %d random ones", ErrConfig, i+1, len(k), KeyMin)
		}
	}
	return nil
}
