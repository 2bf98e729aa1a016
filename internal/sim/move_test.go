package sim

import "testing"

func TestMovesKeepTheirInvariantsInEveryHistory(t *testing.T) {
	playBatch(t, MoveKinds, moveWanted, moveWantedOfMany)
}
