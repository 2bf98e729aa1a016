package zlnode

import (
	"context"

	"github.com/zlnode/zlnode/internal/node"
)

// Resumed tells what a Session has taken over from the one that it resumed: Actors are bound
// to it now, in the order in which they were bound to the other one; the binding of those in
// Gone had ended meanwhile, as the Actor, or the link to its node, is gone; Pushes is how many
// pushes were sent again. The zero value: nothing. The slices are the caller's.
type Resumed = node.Resumed

// ResumeToken returns the Session's token, with which a new Session of its client can Resume
// this one if the connection is lost: 128 random bits in hexadecimal, valid at this node only,
// and once. It is made with the first call and stays the same. Who has it and can log in gets
// the Session's Actors: let only its client know it.
//
// From then on each push to the client carries its number in its metadata, as "zl-push" in
// decimal, from 1 on without a gap, and is kept; see SessionListener.ReconnectBytes. A push
// whose own metadata is larger than 994 bytes is InvalidOperation then. Replies have no
// number.
//
// Kinds: InvalidOperation: the listener has no ReconnectGrace; Unavailable: the Session is
// over, or reserved. Safe for concurrent use.
func (s *SessionContext) ResumeToken() (string, error) { return s.inner.ResumeToken() }

// Resume goes on where the Session of that token was, whose client has lost its connection
// and is here again: it ends the old Session, with SessionResumed for its OnDisconnect; binds
// its Actors to this one, as Bind does, of which their Spots hear by OnReconnectedActor if it
// was known that the client was away; and sends all that was pushed to the old Session after
// the push with the number last (0: it got none), in order, and behind it what is pushed to
// this one meanwhile. Without an error no push is missing, sent twice or out of order, but for
// those that may be dropped (PushClass). Nothing else of the old Session is used: its value,
// and requests that were under way, are lost.
//
// Call it after the client has authenticated, best in the handler of Authenticate: the token
// says which Session is meant, not who asks, so compare Resumed.Actors, or what you know of
// the token, with who the client is. Call it before anything is bound to this Session, and
// after its own ResumeToken, so that what is sent again is numbered and kept for the next
// time. The client gets these pushes before the answer to the packet of this turn.
//
// An old connection that is not known to be lost is closed. What waits for this Session's
// client meanwhile is bounded by ReconnectBytes. If an Actor is moving, its move is waited
// for, until ctx ends or for RequestTimeout.
//
// Kinds: NotFound: no Session has that token at this node, or it is over, or was resumed
// before, or the token is ""; log in as if for the first time then. DataLost: pushes that had
// to be delivered are not kept any more, or last is none of its numbers: the old Session has
// ended, with all its callbacks. InvalidOperation: the listener has no ReconnectGrace, this Session is over, or
// resumes another one already. With NotFound, DataLost and InvalidOperation this Session is
// as before; after any other error both Sessions end.
func (s *SessionContext) Resume(ctx context.Context, token string, last uint64) (Resumed, error) {
	return s.inner.Resume(ctx, token, last)
}
