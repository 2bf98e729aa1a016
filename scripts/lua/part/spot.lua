-- Places among a Spot's members.

-- Why the Actor cannot become a member of the User Spot at that process; else nothing,
-- and the Spot's row.
local function spot_refusal(K, spot, rid, owner, lease_gen)
  local s = hash_of(K.spots[spot].row)
  if s.state ~= READY or s.kind ~= USER_SPOT or s.rid ~= rid or s.owner ~= owner or s.lease_gen ~= lease_gen then
    return 'SpotUnavailable'
  elseif s.move then
    return 'Moving'
  end
  return nil, s
end

-- Whether the Spot of the member is moving with it.
local function spot_moves(K, f)
  local s = f.member and K.spots[f.spot] and hash_of(K.spots[f.spot].row) or {}
  return s.move and s.wide
end

-- Gives the row `new` of an Actor a membership and an owner. spot_row is the User
-- Spot's row, nothing for an Entry Spot. rebase follows behind save.
local function place(new, spot, spot_row, owner)
  new.spot = spot
  new.member = spot_row and '1' or nil
  new.shares = spot_row and spot_row.wide
  if new.shares then
    new.mesh, new.rid, new.owner, new.lease_gen = nil, nil, nil, nil
  else
    new.mesh, new.rid, new.owner, new.lease_gen = owner.mesh, owner.rid, owner.owner, owner.lease_gen
  end
end

-- The owner generation of an Actor that shares its Spot's owner is the sum of both
-- rows'. This keeps the sum when it changes Spots (decimals: only Redis adds them).
local function rebase(row, old, old_spot, new, new_spot)
  if old.shares then
    redis.call('HINCRBY', row, 'owner_gen', old_spot.owner_gen)
  end
  if new.shares then
    redis.call('HINCRBY', row, 'owner_gen', '-' .. new_spot.owner_gen)
  end
end
