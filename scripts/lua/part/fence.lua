-- A fence is what a change expects of the row and who asks. It takes ARGV[2] to
-- ARGV[8]: id, object generation, version, owner, lease generation, and of an Actor
-- its Spot's id and, if it shares that one's owner, its Spot's version.

local FENCE = {
  object_gen = ARGV[3], version = ARGV[4], owner = ARGV[5], lease_gen = ARGV[6], spot = ARGV[7], spot_version = ARGV[8],
}

-- Why the fence does not match the row, or the asker may not act; nothing if all is
-- well. wanted is the state.
local function fence_refusal(K, f, spot, wanted, now)
  if not f.state then
    return 'Missing'
  elseif f.object_gen ~= FENCE.object_gen then
    return 'GenerationConflict'
  elseif f.version ~= FENCE.version or f.state ~= wanted or (f.spot or '') ~= FENCE.spot then
    return 'VersionConflict'
  elseif f.shares and spot.version ~= FENCE.spot_version then
    return 'VersionConflict'
  end
  local owner = owner_of(f, spot)
  if owner.owner ~= FENCE.owner or owner.lease_gen ~= FENCE.lease_gen then
    return 'OwnerConflict'
  end
  return lease_refusal(K.leases, owner.rid, FENCE.owner, FENCE.lease_gen, now)
end
