package relay

import (
	"errors"
	"fmt"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// This file is the table of JN-09: of which kind a move that failed is.
//
//	the row has another ObjectGeneration           InvalidOperation
//	its owner, version or Spot is another, it      Unavailable
//	moves already, or the lease is in doubt
//	the User Spot is not there                     NotFound
//	no Entry Spot, no such node, not fit for it    Unavailable
//	no room at the target                          CapacityExceeded
//	the policy forbids it                          Rejected
//	the deadline, the Session's seal, a target     DeadlineExceeded
//	that died on the way
//	capture, factory, restore                      InternalFailure
//	payload                                        DataLost
//	this node, or the target's, stops              ShuttingDown

// ofReservation is for a reservation that the Store refused.
func ofReservation(reason store.Reason, userSpot bool) *Failure {
	f := func(kind errkind.Kind, text string) *Failure {
		return &Failure{kind, fmt.Sprintf("%s (%v)", text, reason)}
	}
	switch reason {
	case store.GenerationConflict:
		return f(errkind.InvalidOperation, "it is of another generation now")
	case store.SpotUnavailable:
		if userSpot {
			return f(errkind.NotFound, "the spot to enter is not at the target")
		}
		return f(errkind.Unavailable, "the target has no such entry spot")
	case store.CapacityExceeded:
		return f(errkind.CapacityExceeded, "the target has no room for it; a limit such as MaxActors is reached there")
	case store.TargetUnavailable, store.TargetIncompatible:
		return f(errkind.Unavailable, "the target does not take it")
	case store.Missing, store.VersionConflict, store.OwnerConflict, store.Moving, store.Pending, store.EpochChanged,
		store.Unasserted, store.LeaseExpired, store.LeaseSuperseded:
		return f(errkind.Unavailable, "its row does not allow the move now")
	default: // Exhausted, or a Store that is newer than this
		return f(errkind.InternalFailure, "the Store refused the move")
	}
}

// ofPreparation is for an inventory that the Store refused.
func ofPreparation(reason store.Reason) *Failure {
	if reason == store.InventoryConflict || reason == store.Exhausted {
		return &Failure{errkind.InternalFailure, fmt.Sprintf("the Store refused the inventory of its members (%v)", reason)}
	}
	return &Failure{errkind.Unavailable, fmt.Sprintf("its row does not allow the move now (%v)", reason)}
}

// ofError is for a Store that did nothing.
func ofError(err error) *Failure {
	kind := errkind.Unavailable
	if errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrCorrupt) {
		kind = errkind.InternalFailure
	}
	return &Failure{kind, err.Error()}
}

// ofTarget keeps to the kinds that a move can fail with.
func ofTarget(f *Failure) *Failure {
	switch f.Kind {
	case errkind.AlreadyExists, errkind.TypeMismatch, errkind.NotConfigured, errkind.ProtocolError:
		return &Failure{errkind.InternalFailure, fmt.Sprintf("%s (%v)", f.Text, f.Kind)}
	default:
		return f
	}
}

// never reports whether a refusal is for good: what the change expects of the row has gone
// and does not come back. Then no try whose answer was lost applies any more either.
func never(reason store.Reason) bool {
	switch reason {
	case store.Missing, store.GenerationConflict, store.VersionConflict, store.OwnerConflict, store.MoveConflict,
		store.EpochChanged, store.LeaseSuperseded:
		return true
	default:
		return false
	}
}
