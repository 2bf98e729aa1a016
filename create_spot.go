package zlnode

import (
	"context"

	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/store"
)

// SpotRef names one incarnation of a User or Instance Spot at one place, as ActorRef does
// an Actor's.
type SpotRef = node.SpotRef

// CreateSpot asks for a new User Spot.
type CreateSpot struct {
	// ID is its global key, of one set with those of Actors: 1–255 bytes of UTF-8,
	// case-sensitive. Node.CreateSpot issues a UUID for an empty one.
	ID string
	// Type is its stable type. The creating node need not know it.
	Type string
	// Request goes to OnCreate: []byte as it is, anything else as JSON; at most 1 MiB.
	Request any
	// Pass names a pass of a Cordon, as that of CreateActor.
	Pass string
	// Mesh is where it is placed, as that of CreateActor.
	Mesh string
}

// SpotCreation is the end of a creation without error.
type SpotCreation struct {
	Outcome Outcome
	Ref     SpotRef // of OutcomeCreated and OutcomeExisting
	Reply   []byte  // of OnCreate
}

// DecodeReply decodes a JSON reply into v.
func (c *SpotCreation) DecodeReply(v any) error { return decode(JSON, c.Reply, v) }

// CreateSpot creates a User Spot somewhere in the mesh. If the id exists, or is being
// created, it fails with AlreadyExists, or with TypeMismatch if it is of another kind or
// type. A rejection by OnCreate is an outcome, not an error.
//
// DeadlineExceeded does not mean that the creation failed: ask again, if the id is known.
func (n *Node) CreateSpot(ctx context.Context, req CreateSpot) (SpotCreation, error) {
	return n.createSpot(ctx, req, false)
}

// GetOrCreateSpot returns the User Spot with that id, or creates it. Of callers who race
// one creates it, the others wait and get OutcomeExisting; if the creation was rejected or
// failed they try for themselves.
func (n *Node) GetOrCreateSpot(ctx context.Context, req CreateSpot) (SpotCreation, error) {
	return n.createSpot(ctx, req, true)
}

func (n *Node) createSpot(ctx context.Context, req CreateSpot, get bool) (SpotCreation, error) {
	body, err := requestBytes(req.Request)
	if err != nil {
		return SpotCreation{}, err
	}
	r, err := n.inner.Create(ctx, node.CreateRequest{
		Kind: store.UserSpot, ID: req.ID, Type: req.Type, Mesh: req.Mesh, Pass: req.Pass, Request: body, GetOrCreate: get,
	})
	if err != nil {
		return SpotCreation{}, err
	}
	return SpotCreation{Outcome(r.Outcome), SpotRef(r.Ref), r.Reply}, nil
}

// FindSpot returns the User or Instance Spot with that id if it is Ready; an Actor's id is
// a TypeMismatch. It creates nothing. A Spot whose node is dead is found until the node's
// lease has ended, then Unavailable; its ref comes with that error, for CloseSpot. See
// FindActor.
func (n *Node) FindSpot(ctx context.Context, id string) (ref SpotRef, found bool, err error) {
	return n.inner.FindSpot(ctx, id)
}

// CloseSpot ends the User Spot that ref names: behind what it had accepted before comes its
// OnClosing, with the deadline of ctx (or the node's create timeout, whichever is earlier);
// then its row is removed, and whatever comes later is NotFound. If OnClosing fails, which
// is logged and counted, the Spot ends all the same. It returns false, and has changed
// nothing, if the Spot is gone or has members: they leave first. It fails with
// InvalidOperation if the id now belongs to another incarnation, or is an Instance Spot's,
// which only its own handlers close (SpotCall.Close).
//
// It is Unavailable while the Spot moves to another node. A Spot that a move has left sealed, see
// Node.StuckObjects, is freed, without OnClosing, if ref is exact; an Instance Spot, too.
//
// DeadlineExceeded leaves open what becomes of the Spot: what OnClosing had begun by then
// goes on to the Spot's end.
//
// A Spot whose node is dead is freed, without OnClosing, if ref is exact, as CreateSpot and
// FindSpot return it; an Instance Spot, too. See DestroyActor. Members that the Store knows
// go before it.
func (n *Node) CloseSpot(ctx context.Context, ref SpotRef) (bool, error) {
	return n.inner.CloseSpot(ctx, ref)
}
