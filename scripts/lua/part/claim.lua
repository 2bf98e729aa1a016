-- A claim is a row as its owner knows it.

-- Why the row stays and the claim does not replace it; else nothing. Versions order all
-- changes of an id, also across epochs: the later one is true. own has the keys of the
-- object as a Spot, whose members are those of one incarnation.
local function claim_refusal(own, old, old_owner, new, version, owner)
  local same = old.object_gen == new.object_gen
  if not old.state then
    return nil
  elseif less(version, old.version) then
    return not same and 'GenerationConflict' or not same_process(old_owner, owner) and 'OwnerConflict' or 'VersionConflict'
  elseif not same and redis.call('ZCARD', own.members) + redis.call('ZCARD', own.pending) > 0 then
    return 'NotEmpty'
  end
end

-- Why the Actor is not in the User Spot as its owner claims, which was asserted before it;
-- else nothing, and the Spot's row. A member of a PerActor Spot may be at another process,
-- from which it has yet to follow.
local function claimed_spot(K, spot, owner, shares)
  local at = shares and owner or hash_of(K.spots[spot].row)
  local refusal, row = spot_refusal(K, spot, at.rid, at.owner, at.lease_gen)
  if row and (row.epoch ~= EPOCH or (row.wide == '1') ~= shares) then
    refusal = 'SpotUnavailable'
  end
  return refusal, row
end
