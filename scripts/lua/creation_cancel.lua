-- Cancels a creation whose target is dead: a Creating row, or an Instance Spot's row
-- whose first message was not restored yet (CR-08, FO-12).
-- KEYS: epoch, row, removal, request, first, leases, capacity, reserved, owned, objects, freed
-- ARGV: nonce, id, object generation, version, keep ms
-- Returns: reason and the row (see answer_row).
-- Invariant: while the target's lease is valid nobody else ends its creation; no
--   terminal record is written. A target that was only paused is told by `freed`.
-- Idempotency key: none needed; a repeat finds Missing.

local K = { spots = {} }
local _, removal, request, first, freed
_, K.row, removal, request, first, K.leases, K.capacity, K.reserved, K.owned, K.objects, freed = unpack(KEYS)
local id, object_gen, version, keep = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
if not old.state then
  return outcome('Missing')
elseif old.object_gen ~= object_gen then
  return outcome('GenerationConflict')
elseif old.version ~= version or (old.state == READY and not old.first) then
  return outcome('VersionConflict')
elseif not lease_refusal(K.leases, old.rid, old.owner, old.lease_gen, now) then
  return outcome('OwnerAlive')
end

keep_removal(removal, old, '', keep)
tell_freed(K.leases, freed, old)
redis.call('ZREM', K.objects, index_of(old, id))
redis.call('DEL', request)
redis.call('DEL', first)
save(K, id, old, old, {})
return outcome('Applied')
