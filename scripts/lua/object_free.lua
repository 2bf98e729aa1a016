-- Removes a row by hand: its owner is dead or asks itself, or its move, or that of the
-- SpotWide Spot that it is in, is past its validity.
-- KEYS: epoch, row, removal, request, first, leases, capacity, owned, reserved, objects,
--   freed, inventory, then row, members and pending of the object as a Spot, of its Spot, and
--   of the Spot that its move goes to
-- ARGV: nonce, id, object generation, version, Spot, Spot of the move, operation, keep ms,
--   owner and lease generation of the asker, if it is the owner
-- Returns: reason and the row (see answer_row).
-- Invariant: nothing of a live owner is freed, and the owner, if it was only paused, is
--   told by `freed` when it renews. Members of a Spot go before it.
-- Idempotency key: operation, in the removal, as in object_delete.

local K = { spots = {} }
local _, removal, request, first, freed, inventory
_, K.row, removal, request, first, K.leases, K.capacity, K.owned, K.reserved, K.objects, freed, inventory = unpack(KEYS)
local id, object_gen, version, op, keep = ARGV[2], ARGV[3], ARGV[4], ARGV[7], ARGV[8]
local own = spot_keys(13)
K.spots[ARGV[6]], K.spots[ARGV[5]] = spot_keys(19), spot_keys(16)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

if removed_by(removal, object_gen, op) then
  return outcome('AlreadyApplied')
end
local old = hash_of(K.row)
if not old.state then
  return outcome('Missing')
elseif old.object_gen ~= object_gen then
  return outcome('GenerationConflict')
elseif old.version ~= version or (old.spot or '') ~= ARGV[5] or (old.to_spot or '') ~= ARGV[6] then
  return outcome('VersionConflict')
elseif redis.call('ZCARD', own.members) > 0 or redis.call('ZCARD', own.pending) > 0 then
  return outcome('NotEmpty')
end
local spot_row = spot_of(K, old)
local owner, moving = owner_of(old, spot_row), old.move and old or spot_row
local may = (moving.move and tonumber(moving.to_until) <= now) or (owner.owner == ARGV[9] and owner.lease_gen == ARGV[10])
if not may and not lease_refusal(K.leases, owner.rid, owner.owner, owner.lease_gen, now) then
  return outcome('OwnerAlive')
end

keep_removal(removal, old, op, keep)
tell_freed(K.leases, freed, owner)
redis.call('ZREM', K.objects, index_of(old, id))
for _, key in ipairs({ request, first, inventory }) do
  redis.call('DEL', key)
end
save(K, id, old, owner, {})
return outcome('Applied')
