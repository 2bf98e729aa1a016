-- Writes a row as its owner knows it, after the epoch has changed.
-- KEYS: epoch, row, request, first, leases, capacity, reserved, owned, objects, version counter,
--   inventory, freed, entries, removal, then row, members and pending of the object as a Spot, of the
--   claimed Spot, of the Spot in the row, and of the one that its move goes to
-- ARGV: nonce, id, operation, epoch, rid, owner, lease generation, kind, type, wide, object
--   generation, owner generation, version, mesh, Spot, 'user', 'entry' or '', 'shares' or
--   '', Spot in the row, Spot of its move
-- Returns: reason and the row (see answer_row).
-- Invariant: the later incarnation is true, and within one the later version. A move of
--   an older epoch is over. What was removed does not come back by a version that it had.
--   A Spot's members stay its members. Another process whose row is taken is told by `freed`. An id that is a node's Entry Spot now is no object.
-- Idempotency key: operation, in the row.

local K = { spots = {} }
local _, request, first, versions, inventory, freed, entries, removal
_, K.row, request, first, K.leases, K.capacity, K.reserved, K.owned, K.objects, versions, inventory, freed, entries, removal =
  unpack(KEYS)
local id, op, epoch = ARGV[2], ARGV[3], ARGV[4]
local owner = { rid = ARGV[5], owner = ARGV[6], lease_gen = ARGV[7], mesh = ARGV[14] }
local new = { kind = ARGV[8], type = ARGV[9], wide = ARGV[10] == '1' and '1' or nil, object_gen = ARGV[11],
  owner_gen = ARGV[12], state = READY, op = op, epoch = EPOCH }
local version, spot, membership, shares, spot_there, move_there = ARGV[13], unpack(ARGV, 15, 19)
K.spots[id], K.spots[move_there], K.spots[spot_there], K.spots[spot] = spot_keys(15), spot_keys(24), spot_keys(21), spot_keys(18)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
if old.op == op then
  return outcome('AlreadyApplied')
elseif epoch ~= EPOCH then
  return outcome('EpochChanged')
end
local refusal = lease_refusal(K.leases, owner.rid, owner.owner, owner.lease_gen, now)
if refusal then
  return outcome(refusal)
elseif redis.call('HEXISTS', entries, 'spot:' .. id) == 1 then
  return outcome('TypeMismatch')
elseif old.state and ((old.spot or '') ~= spot_there or (old.to_spot or '') ~= move_there) then
  return outcome('VersionConflict')
end
local old_owner, user = owner_of(old, spot_of(K, old)), nil
refusal = claim_refusal(K.spots[id], removal, old, old_owner, new, version, owner)
if not refusal and membership == 'user' then
  refusal, user = claimed_spot(K, spot, owner, shares == 'shares')
end
if refusal or exhausted(versions) then
  return outcome(refusal or 'Exhausted')
end

new.version = issue(versions)
place(new, membership ~= '' and spot or nil, user, owner)
if old.state == READY and old.object_gen == new.object_gen then
  new.agg, new.agg_root, new.agg_count = old.agg, old.agg_root, old.agg_count
  new.first = old.version == version and old.first or nil -- else its end may be what was lost
end
if old_owner.rid and not same_process(old_owner, owner) then
  tell_freed(K.leases, freed, old_owner)
end
if old.state then
  redis.call('ZREM', K.objects, index_of(old, id))
end
redis.call('ZADD', K.objects, 0, index_of(new, id))
redis.call('DEL', request)
if not new.first then
  redis.call('DEL', first)
end
if old.move or not new.agg then
  redis.call('DEL', inventory)
end
save(K, id, old, old_owner, new, owner)
rebase(K.row, {}, nil, new, user)
return outcome('Applied')
