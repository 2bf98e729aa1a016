-- Removes a Ready row and frees its capacity, for its owner.
-- KEYS: epoch, row, removal, first, leases, capacity, owned, objects, inventory, then
--   row, members and pending of the object as a Spot, and of its Spot
-- ARGV: nonce, the fence, operation, keep ms
-- Returns: reason and the row (see answer_row).
-- Invariant: row and active slots go together; only the recorded owner, while its lease
--   is valid, removes them; never a Spot with members, nor an Actor in a User Spot.
-- Idempotency key: operation, in the removal, which lives `keep` ms or until the id is
--   removed again.

local K = { spots = {} }
local _, removal, first, inventory
_, K.row, removal, first, K.leases, K.capacity, K.owned, K.objects, inventory = unpack(KEYS)
local id, op, keep, own = ARGV[2], ARGV[9], ARGV[10], spot_keys(10)
K.spots[FENCE.spot] = spot_keys(13)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

if removed_by(removal, FENCE.object_gen, op) then
  return outcome('AlreadyApplied')
end
local old = hash_of(K.row)
local refusal = fence_refusal(K, old, spot_of(K, old), READY, now)
if refusal then
  return outcome(refusal)
elseif old.move then
  return outcome('Moving')
elseif old.member then
  return outcome('IsMember')
elseif redis.call('ZCARD', own.members) > 0 or redis.call('ZCARD', own.pending) > 0 then
  return outcome('NotEmpty')
end

keep_removal(removal, old, op, keep)
redis.call('ZREM', K.objects, index_of(old, id))
redis.call('DEL', first)
redis.call('DEL', inventory)
save(K, id, old, old, {})
return outcome('Applied')
