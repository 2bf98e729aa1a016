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
