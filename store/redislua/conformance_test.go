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
// req: ID-01 (Reserve/IDsAreTakenAsTheyAre)
// req: CR-01 (Reserve/FixesWhatTheCreationIsAbout, FiftyRacersHaveOneWinner)
// req: CR-03 (Reserve/TargetMust…, CapacityIsExactUnderAHundredRacers)
// req: CR-04 (Reserve/FixesWhatTheCreationIsAbout, HasNoTimeToLive)
// req: CR-06 (Finish/CreatedMakesTheRowReady, Fence/…)
// req: CR-07 CR-08 (Finish/RejectedAndFailedLeaveNoRow; the Store's part)
// req: CR-09 (Reserve/FixesWhatTheCreationIsAbout; the Store's part)
func TestStoreConforms(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		storetest.Run(t, func(t *testing.T) store.Store {
			s := openStore(t, url)
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
