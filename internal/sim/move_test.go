package sim

import "testing"

// req: JN-07
// req: JN-17
// req: RL-07
// req: RL-08
// req: RL-15
// req: RL-16
// req: RL-17
// req: MF-01
// req: SB-05
// req: MB-04
// req: FO-15
func TestMovesKeepTheirInvariantsInEveryHistory(t *testing.T) {
	all, seeds := playBatch(t, MoveKinds, moveWanted, moveWantedOfMany)
	if seeds == 0 {
		return
	}
	expectReached(t, Matrix, all, seeds >= moveGuardedAll)
}

// Nodes are relocated, and move units by themselves, while Actors join, move and are talked to.
//
// req: AG-01
// req: AG-07
// req: MB-08
// req: JN-13
func TestDrainsKeepTheirInvariantsInEveryHistory(t *testing.T) {
	playBatch(t, DrainKinds, drainWanted, drainWantedOfMany)
}
