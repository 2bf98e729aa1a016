-- Writes a move into the row, for its owner, and books the capacity at the target.
-- KEYS: epoch, row, node, leases, capacity, reserved, owned, version counter, inventory,
--   then row, members and pending of the object as a Spot, of its Spot, and of the Spot that
--   it goes to
-- ARGV: nonce, the fence, operation, epoch, move, attempt, validity ms, target rid, target
--   lifecycle, new Spot, 'user', 'entry' or '' for an object without membership
-- Returns: reason and the row (see answer_row).
-- Invariant: a row has one move, with its slots at the target and its places among the
--   pending of both Spots. A Spot with pending members does not move, nor does one
--   that moves take any: its members at this instant are the inventory (AG-03). An
--   Instance Spot's first message is restored where it was activated (FO-13).
-- Idempotency key: operation, in the row.

local K = { spots = {} }
local _, versions, inventory
_, K.row, K.node, K.leases, K.capacity, K.reserved, K.owned, versions, inventory = unpack(KEYS)
local id, op, epoch, move, attempt, validity, target, lifecycle, spot, membership = ARGV[2], unpack(ARGV, 9, 17)
local own = spot_keys(10)
K.spots[id], K.spots[spot], K.spots[FENCE.spot] = own, spot_keys(16), spot_keys(13)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
if old.op == op then
  return outcome('AlreadyApplied')
end
local old_spot = spot_of(K, old)
local refusal = fence_refusal(K, old, old_spot, READY, now)
if refusal then
  return outcome(refusal)
elseif epoch ~= EPOCH then
  return outcome('EpochChanged')
elseif old.epoch ~= EPOCH or (old.shares and old_spot.epoch ~= EPOCH) then
  return outcome('Unasserted')
elseif old.move or spot_moves(K, old) then
  return outcome('Moving')
elseif redis.call('ZCARD', own.pending) > 0 or old.left or old.first then
  return outcome('Pending')
end
local owner = owner_of(old, old_spot)
if owner.rid == target and owner.lease_gen == lifecycle then
  return outcome('TargetIncompatible')
end
local members = old.wide and redis.call('ZCARD', own.members) or 0
local unavailable, node = target_refusal(K, target, lifecycle, old, members, now)
if not unavailable and membership == 'user' then
  unavailable = spot_refusal(K, spot, target, node.owner, lifecycle)
elseif not unavailable and membership == 'entry' and node.spot ~= spot then
  unavailable = 'SpotUnavailable'
end
if unavailable or exhausted(versions) then
  return outcome(unavailable or 'Exhausted')
end

local new = copy(old)
new.version, new.op, new.move, new.attempt = issue(versions), op, move, attempt
new.to_rid, new.to_owner, new.to_lease, new.to_mesh = target, node.owner, lifecycle, node.mesh
new.to_until, new.to_spot, new.to_member = text(now + tonumber(validity)), spot, membership == 'user' and '1' or nil
new.to_members = old.wide and text(members) or nil
redis.call('DEL', inventory) -- of the aggregate before, if it was not completed
save(K, id, old, owner, new, owner)
return outcome('Applied')
