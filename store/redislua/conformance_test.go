package redislua

import (
	"strings"
	"testing"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
	"github.com/zlnode/zlnode/store/storetest"
)

// The suite's cases, with the audit behind each of them, prove:
//
// req: ID-01 (Reserve/IDsAreTakenAsTheyAre, Spot/AllKindsShareOneSetOfIDs, View/OddIDs…)
// req: ID-02 (Move/CommitChangesOwnerMembershipAndSlotsInOneStep, SpotsMoveAlone)
// req: ID-03 (Delete/…, Member/ChangeOfSpotChangesNeitherGeneration, Move/CommitChanges…)
// req: ID-04 (Move/CommitChanges…, Aggregate/SpotWideSpotMovesWithItsMembersByOneCommit)
// req: ID-06 (Fence/…, Member/ChangeOfSpotIsRefused, Move/…AreRefused)
// req: CR-01 (Reserve/FixesWhatTheCreationIsAbout, FiftyRacersHaveOneWinner)
// req: CR-03 (Reserve/TargetMust…, CapacityIsExactUnderAHundredRacers, Spot/SpotTakesASlot…)
// req: CR-04 (Reserve/FixesWhat…, HasNoTimeToLive, Spot/ReservationOfASpotFixesWhatItIs)
// req: CR-06 (Finish/CreatedMakesTheRowReady, Fence/…)
// req: CR-07 (Finish/RejectedAndFailedLeaveNoRow)
// req: CR-08 (Finish/RejectedAndFailed…, Spot/CreationOfADeadTargetIsCanceled…)
// req: CR-09 (Reserve/FixesWhatTheCreationIsAbout, Spot/ReservationOfASpotFixesWhatItIs)
// req: AG-03 (Aggregate/InventoryIsFixedBeforeTheCommit, ChunksStayAsTheyAre)
// req: AG-04 (Aggregate/SpotWideSpotMovesWithItsMembersByOneCommit)
// req: FO-17 (Move/LostAnswerIsLearntByTheSameOperation)
//
// and the Store's half of what machines above it have to keep too:
//
//	JN-11 (Member/ChangeOfSpotChangesNeitherGeneration)
//	RL-15 (Move/OfAbortAndCommitTheFirstIsTrue)
//	RL-16 (Move/OfGivingUpAndCommitTheFirstIsTrue)
//	RL-17 (Move/CommitChangesOwnerMembershipAndSlotsInOneStep)
//	RL-20 (Fence/…, Move/…ThatWasSupersededChangesNothing)
//	RL-21 (Move/CommitChanges…, LateOperationsOfAnOldAttemptChangeNothing, Aggregate/…)
//	PA-02 PA-03 (Aggregate/PerActorSpotMovesAndItsMembersFollow)
//	FO-11 (Spot/CreationOf…IsNotCanceled, …IsCanceledWithoutATerminalRecord)
//	FO-12 (First/ReadySpotWhoseMessageIsNotBackIsCanceledOnceItsOwnerIsDead)
//	FO-13 (First/MessageIsStoredWithTheReservationAndKeptUntilItIsBack)
func TestStoreConforms(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		raw := rawClient(t, url)
		storetest.Run(t, func(t *testing.T) store.Store {
			s := openStore(t, url)
			wipeAtEnd(t, s, raw)
			s.prepare = onlyDeclaredKeys(t, &s.keys)
			s.page = page{nodes: 7, bytes: 2000} // several pages for a few nodes
			t.Cleanup(func() { audit(t, s) })
			return s
		})
	})
}

// onlyDeclaredKeys makes every script fail that calls a command on a key that is not
// in KEYS, or that has a key outside the namespace's hash tag in KEYS.
func onlyDeclaredKeys(t testing.TB, k *keys) func(lua.Script) lua.Script {
	checked := map[string]lua.Script{}
	for _, s := range lua.All() {
		checked[s.SHA] = lua.New(s.Name, strings.ReplaceAll(keyGuard, "PREFIX", k.prefix)+s.Source)
	}
	return func(s lua.Script) lua.Script {
		guarded, known := checked[s.SHA]
		if !known {
			t.Errorf("script %s is not in lua.All", s.Name)
		}
		return guarded
	}
}

const keyGuard = `
local server = redis
local declared = {}
for _, key in ipairs(KEYS) do
  if string.sub(key, 1, #'PREFIX') ~= 'PREFIX' then
    return server.error_reply('GUARD key ' .. key .. ' is outside the hash tag')
  end
  declared[key] = true
end
local redis = {
  pcall = function(command, section)
    if command ~= 'INFO' or section ~= 'replication' then
      error('GUARD pcall of ' .. command)
    end
    return server.pcall(command, section)
  end,
  call = function(command, key, ...)
    if command ~= 'TIME' and not declared[key] then
      error('GUARD ' .. command .. ' on ' .. tostring(key) .. ', which is not in KEYS')
    end
    if command == 'DEL' and select('#', ...) > 0 then
      error('GUARD DEL of several keys')
    end
    if command == 'TIME' then
      return server.call('TIME')
    end
    return server.call(command, key, ...)
  end,
}
`
