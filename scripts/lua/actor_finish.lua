-- Ends a creation at its target: Ready with an active slot (CR-06), or row and slot
-- gone (CR-07, CR-08).
-- KEYS: row, request, terminal, leases, capacity, reserved, owned, version counter
-- ARGV: nonce, id, object generation, version, owner, lease generation, operation,
--   result, fail kind, reply, its SHA-256, retention ms
-- Returns: reason and the row (see answer_row).
-- Invariant: the reserved slot turns active or is freed with the row's own change, the
--   request goes, and the result is kept until `retention` after the deadline.
-- Idempotency key: operation, in its terminal record and in the row.

local row, request, terminal, leases, capacity, reserved, owned, versions = unpack(KEYS)
local id, op, result, retention = ARGV[2], ARGV[7], ARGV[8], tonumber(ARGV[12])
local fence = { object_gen = ARGV[3], version = ARGV[4], owner = ARGV[5], lease_gen = ARGV[6] }
local CREATED = '1'
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, row, leases, now)
end

local there = redis.call('HMGET', row, 'state', 'object_gen', 'op', 'rid', 'deadline')
local ready = there[1] == READY and there[2] == fence.object_gen and there[3] == op
if ready or (terminal_kept(terminal, now) and redis.call('HGET', terminal, 'object_gen') == fence.object_gen) then
  return outcome('AlreadyApplied')
end
local refusal = fence_refusal(row, fence, CREATING)
if refusal then
  return outcome(refusal)
elseif there[3] ~= op then
  return outcome('VersionConflict')
end
local rid, lifecycle, kept_until = there[4], fence.lease_gen, tonumber(there[5]) + retention
refusal = lease_refusal(leases, rid, fence.owner, lifecycle, now)
if refusal then
  return outcome(refusal)
elseif result == CREATED and exhausted(versions) then
  return outcome('Exhausted')
end

if result == CREATED then
  redis.call('HSET', row, 'state', READY, 'version', issue(versions))
  redis.call('HDEL', row, 'deadline', 'hash')
  take_slot(capacity, owned, 'active', rid, lifecycle, id)
else
  redis.call('DEL', row)
end
redis.call('DEL', request)
free_slot(capacity, reserved, 'reserved', rid, lifecycle, id)
if kept_until > now then
  redis.call('HSET', terminal, 'result', result, 'id', id, 'object_gen', fence.object_gen, 'fail_kind', ARGV[9],
    'reply', ARGV[10], 'hash', ARGV[11], 'kept_until', text(kept_until))
  redis.call('PEXPIREAT', terminal, text(kept_until))
end
return outcome('Applied')
