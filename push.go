package zlnode

import (
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/session"
)

// PushClass says what may become of a push whose client is behind, that is, takes less than
// it is sent. A client that keeps up gets pushes of all classes, in order. The zero value is
// MustDeliver.
type PushClass = session.PushClass

// The classes of pushes.
const (
	// MustDeliver: the push goes out, in its order, or the session is closed as slow; see
	// SessionListener.OutBytes. Replies are of this class, and Push, PushAs and PushRaw.
	MustDeliver = session.MustDeliver
	// NewestPerKey: a later push of its key replaces one that still waits, for what is out of
	// date then, such as a position. It keeps the place of the one that it replaces, so a key
	// that changes all the time is not put off for ever; and so it may overtake what was pushed
	// between the two.
	NewestPerKey = session.NewestPerKey
	// DropOldest: the oldest that wait are dropped when they are too many, for what is not
	// missed, such as effects.
	DropOldest = session.DropOldest
)

// PushOptions says how a push is sent. The zero value is that of Push: it must be delivered,
// in JSON.
type PushOptions struct {
	// Class says what may become of it if the client is behind.
	Class PushClass
	// Key is what the push is about, for NewestPerKey, and only for that: 1–64 bytes. Actors
	// do not share keys; those of a Session's own pushes are the Session's.
	Key string
	// Codec encodes the value. Raw, the zero value, means JSON, unless the value is a []byte.
	Codec Codec
	// Metadata goes along: what session.NewMetadata makes. nil: none. No key begins with
	// session.ReservedKeyPrefix.
	Metadata session.Metadata
	// Flow is what the push belongs to, which the client is told. The zero value: the flow of
	// the ActorCall, if it has one; of a Session's push none, as that is of no call.
	Flow Flow
}

// encode returns v as it goes out.
func (o *PushOptions) encode(v any) (Codec, []byte, error) {
	if err := checkMetadata("push", "", o.Metadata); err != nil {
		return 0, nil, err
	}
	codec := o.Codec
	if b, ok := v.([]byte); ok && codec == Raw {
		return codec, b, nil
	} else if codec == Raw {
		codec = JSON
	}
	b, err := encode(codec, v)
	return codec, b, err
}

func (o *PushOptions) inner() node.PushOptions {
	return node.PushOptions{Class: o.Class, Key: o.Key, Flow: o.Flow.id, Origin: o.Flow.origin}
}

// PushWith is Push with options. A []byte goes as it is, and is copied, if no codec is set. A
// class or a key that is none is InvalidOperation. Without an error the push may still be
// dropped or replaced, as its class allows.
func (c *ActorCall) PushWith(o PushOptions, packet string, v any) error {
	codec, b, err := o.encode(v)
	if err != nil {
		return err
	}
	return c.inner.PushWith(o.inner(), packet, uint8(codec), o.Metadata, b)
}

// Pending returns how many bytes wait at the gateway for the bound Session's client, each
// message with 32 more, so that the Actor can send less while they are many. Without a binding
// it is 0.
//
// If the client is connected to this node, it is what waits now. Else it is what its node said
// last, which this turn does not change. That node says so when more than 64 KiB wait, and
// again whenever they have doubled or halved since, or are at most 32 KiB, which it calls 0;
// ten times a second at most. So the number is right but for a factor of two, and up to
// 350 ms and the way old. After the Actor has moved it is 0 until it is told anew.
func (c *ActorCall) Pending() int64 { return c.inner.Pending() }

// PushWith is Push with options; see the one of ActorCall.
func (s *SessionContext) PushWith(o PushOptions, packet string, v any) error {
	codec, b, err := o.encode(v)
	if err != nil {
		return err
	}
	return s.inner.PushWith(o.inner(), packet, uint8(codec), o.Metadata, b)
}

// Pending returns how many bytes wait at this node for the client, each message with 32 more.
func (s *SessionContext) Pending() int64 { return s.inner.Pending() }

// Lost returns how many pushes to the client were dropped so far, and how many were replaced
// by newer ones of their key, as their classes allow. Both are 0 once the Session is closed.
func (s *SessionContext) Lost() (dropped, replaced uint64) { return s.inner.Lost() }
