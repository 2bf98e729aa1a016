-- Ends a creation at its target: Ready with active slots (CR-06), or row and slots
-- gone (CR-07, CR-08).
-- KEYS: epoch, row, request, first, terminal, leases, capacity, reserved, owned, objects,
--   version counter
-- ARGV: nonce, the fence, operation, result, fail kind, reply, its SHA-256, retention ms
-- Returns: reason and the row (see answer_row).
-- Invariant: the reserved slots turn active or are freed with the row's own change, the
--   request goes, and the result is kept until `retention` after the deadline.
-- Idempotency key: operation, in its terminal record and in the row.

local K = { spots = {} }
local _, request, first, terminal, versions
_, K.row, request, first, terminal, K.leases, K.capacity, K.reserved, K.owned, K.objects, versions = unpack(KEYS)
local id, op, result, fail_kind, reply, hash, retention = ARGV[2], unpack(ARGV, 9, 14)
local op_id, op_of = parts_of(op)
local CREATED = '1'
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
local ready = old.state == READY and old.object_gen == FENCE.object_gen and old.op == op_id
if ready or (terminal_kept(terminal, now) and redis.call('HGET', terminal, 'object_gen') == FENCE.object_gen) then
  return outcome('AlreadyApplied')
end
local refusal = fence_refusal(K, old, nil, CREATING, now)
if refusal then
  return outcome(refusal)
elseif old.op ~= op_id or old.op_of ~= op_of then
  return outcome('VersionConflict')
elseif result == CREATED and exhausted(versions) then
  return outcome('Exhausted')
end

local new = {}
if result == CREATED then
  new = copy(old)
  new.state, new.version, new.epoch, new.deadline, new.hash, new.op_of = READY, issue(versions), EPOCH, nil, nil, nil
else
  redis.call('ZREM', K.objects, index_of(old, id))
  redis.call('DEL', first)
end
redis.call('DEL', request)
save(K, id, old, old, new, new)
local kept_until = tonumber(old.deadline) + tonumber(retention)
if kept_until > now then
  redis.call('HSET', terminal, 'result', result, 'id', id, 'object_gen', FENCE.object_gen, 'fail_kind', fail_kind,
    'reply', reply, 'hash', hash, 'kept_until', text(kept_until))
  redis.call('PEXPIREAT', terminal, text(kept_until))
end
return outcome('Applied')
