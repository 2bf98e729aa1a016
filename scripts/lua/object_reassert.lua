-- Writes a row as its owner knows it, after the epoch has changed.
-- KEYS: epoch, row, request, first, leases, capacity, reserved, owned, objects, version counter,
--   inventory, then members and pending of the object as a Spot, and row, members and
--   pending of the claimed Spot, of the Spot in the row, and of the one that its move
--   goes to
-- ARGV: nonce, id, operation, epoch, rid, owner, lease generation, kind, type, wide, object
--   generation, owner generation, version, mesh, Spot, 'user', 'entry' or '', 'shares' or
--   '', Spot in the row, Spot of its move
-- Returns: reason and the row (see answer_row).
-- Invariant: of two who know the same incarnation, the later version is true. Versions
--   order all changes of an id, also across epochs. A move of an older epoch is over. A
--   Spot's members stay its members; a member of a PerActor Spot may be at another
--   process, from which it has yet to follow.
-- Idempotency key: operation, in the row.

local K = { spots = {} }
local _, request, first, versions, inventory
local own, spot, from, to = {}, {}, {}, {}
_, K.row, request, first, K.leases, K.capacity, K.reserved, K.owned, K.objects, versions, inventory, own.members, own.pending, spot.row, spot.members, spot.pending, from.row, from.members, from.pending, to.row, to.members, to.pending =
  unpack(KEYS)
local id, op, epoch, rid, owner_id, lease_gen = unpack(ARGV, 2, 7)
local new = { kind = ARGV[8], type = ARGV[9], wide = ARGV[10] == '1' and '1' or nil, object_gen = ARGV[11],
  owner_gen = ARGV[12], state = READY, op = op, epoch = EPOCH }
local version, mesh, new_spot_id, membership, shares, spot_there, move_there = unpack(ARGV, 13, 19)
own.row = K.row
K.spots[id], K.spots[move_there], K.spots[spot_there], K.spots[new_spot_id] = own, to, from, spot
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
local refusal = lease_refusal(K.leases, rid, owner_id, lease_gen, now)
if not refusal and old.state and ((old.spot or '') ~= spot_there or (old.to_spot or '') ~= move_there) then
  refusal = 'VersionConflict'
end
local old_owner = owner_of(old, spot_of(K, old))
if not refusal and old.state and less(version, old.version) then
  refusal = old.object_gen ~= new.object_gen and 'GenerationConflict' or
    (old_owner.owner ~= owner_id or old_owner.lease_gen ~= lease_gen) and 'OwnerConflict' or 'VersionConflict'
end
local owner = { rid = rid, owner = owner_id, lease_gen = lease_gen, mesh = mesh }
local user
if not refusal and membership == 'user' then
  local at = shares == 'shares' and owner or hash_of(spot.row)
  refusal, user = spot_refusal(K, new_spot_id, at.rid, at.owner, at.lease_gen)
  if user and (user.epoch ~= EPOCH or (user.wide == '1') ~= (shares == 'shares')) then
    refusal = 'SpotUnavailable'
  end
end
local members, pending = redis.call('ZCARD', own.members), redis.call('ZCARD', own.pending)
if not refusal and old.state and old.object_gen ~= new.object_gen and members + pending > 0 then
  refusal = 'NotEmpty' -- they are the earlier incarnation's
end
if refusal or exhausted(versions) then
  return outcome(refusal or 'Exhausted')
end

local same = old.state == READY and old.object_gen == new.object_gen
new.version = issue(versions)
place(new, membership ~= '' and new_spot_id or nil, user, owner)
if same then
  new.agg, new.agg_root, new.agg_count = old.agg, old.agg_root, old.agg_count
  new.first = old.version == version and old.first or nil -- else its end may be what was lost
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
