-- Removes a Ready row and frees its slot, for its owner.
-- KEYS: row, deletion, leases, capacity, owned
-- ARGV: nonce, id, object generation, version, owner, lease generation, keep ms
-- Returns: reason and the row (see answer_row).
-- Invariant: row and active slot go together; only the recorded owner, while its
--   lease is valid, removes them.
-- Idempotency key: operation, in the name of the deletion key, which lives `keep` ms
--   and holds the object generation.

local row, deletion, leases, capacity, owned = unpack(KEYS)
local id, keep = ARGV[2], ARGV[7]
local fence = { object_gen = ARGV[3], version = ARGV[4], owner = ARGV[5], lease_gen = ARGV[6] }
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, row, leases, now)
end

if redis.call('GET', deletion) == fence.object_gen then
  return outcome('AlreadyApplied')
end
local refusal = fence_refusal(row, fence, READY)
if refusal then
  return outcome(refusal)
end
local rid, lifecycle = redis.call('HGET', row, 'rid'), fence.lease_gen
refusal = lease_refusal(leases, rid, fence.owner, lifecycle, now)
if refusal then
  return outcome(refusal)
end

redis.call('SET', deletion, fence.object_gen, 'PX', keep)
redis.call('DEL', row)
free_slot(capacity, owned, 'active', rid, lifecycle, id)
return outcome('Applied')
