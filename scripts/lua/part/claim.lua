-- A claim is a row as its owner knows it.

-- Why the row stays and the claim does not replace it; else nothing. Of two incarnations
-- the later one is true, whatever their versions: an earlier one's owner may have asserted
-- it first. Within one, versions order all changes, also across epochs; that it was removed is
-- the last one, unless what was lost came behind the version that was removed. own has the
-- keys of the object as a Spot, whose members are those of one incarnation.
local function claim_refusal(own, removal, old, old_owner, new, version, owner)
  if not old.state then
    local gone = removal_of(removal)
    if gone.op and (less(new.object_gen, gone.object_gen) or
      (new.object_gen == gone.object_gen and not less(gone.version, version))) then
      return 'Missing'
    end
  elseif old.object_gen ~= new.object_gen then
    if less(new.object_gen, old.object_gen) then
      return 'GenerationConflict'
    elseif redis.call('ZCARD', own.members) + redis.call('ZCARD', own.pending) > 0 then
      return 'NotEmpty'
    end
  elseif less(version, old.version) then
    return same_process(old_owner, owner) and 'VersionConflict' or 'OwnerConflict'
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
