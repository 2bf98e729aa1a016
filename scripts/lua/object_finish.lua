-- Ends a creation at its target: Ready with active slots (CR-06), or row and slots
-- gone (CR-07, CR-08).
-- KEYS: epoch, row, request, first, terminal, leases, capacity, reserved, owned, objects,
--   version counter
-- ARGV: nonce, the fence, operation, its source, result, fail kind, reply, its SHA-256,
--   retention ms
-- Returns: reason and the row (see answer_row).
-- Invariant: the reserved slots turn active or are freed with the row's own change, the
--   request goes, and the result is kept until `retention` after the deadline.
-- Idempotency key: operation, in its terminal record and in the row.

local _, row, request, first, terminal, leases, capacity, reserved, owned, objects, versions = unpack(KEYS)
local id, op_id, op_of, result, fail_kind, reply, hash, retention = ARGV[2], unpack(ARGV, 9, 15)
local K = { row = row, leases = leases, spots = {} }
local CREATED = '1'
local now = now_ms()

local function refuse(reason)
  return answer_row(reason, K, now)
end

local state, kind, stable_type, object_gen, owner_gen, version, mesh, rid, owner, lease_gen, old_op, old_op_of, deadline, spot, wide, cursor =
  unpack(redis.call('HMGET', row, 'state', 'kind', 'type', 'object_gen', 'owner_gen', 'version', 'mesh', 'rid',
    'owner', 'lease_gen', 'op', 'op_of', 'deadline', 'spot', 'wide', 'first'))
local object = { state = state, kind = kind, type = stable_type, object_gen = object_gen, version = version, spot = spot,
  rid = rid, owner = owner, lease_gen = lease_gen }
local refusal, left = fence_refusal(K, object, nil, CREATING, now)
if refusal then
  local done = (state == READY and object_gen == FENCE.object_gen and old_op == op_id) or
    (terminal_kept(terminal, now) and redis.call('HGET', terminal, 'object_gen') == FENCE.object_gen)
  return refuse(done and 'AlreadyApplied' or refusal)
elseif old_op ~= op_id or old_op_of ~= op_of then
  return refuse('VersionConflict')
elseif result == CREATED and exhausted(versions) then
  return refuse('Exhausted')
end

local holder, kept_until = process(rid, lease_gen) .. ':', deadline + retention
if result == CREATED then
  version = issue(versions) -- first: a server without memory refuses this and so all
end
redis.call('DEL', request)
redis.call('ZREM', reserved, holder .. id)
book_slots(capacity, holder .. 'reserved:', object, '-1')
if kept_until > now then
  kept_until = text(kept_until)
  redis.call('HSET', terminal, 'result', result, 'id', id, 'object_gen', object_gen, 'fail_kind', fail_kind,
    'reply', reply, 'hash', hash, 'kept_until', kept_until)
  redis.call('PEXPIREAT', terminal, kept_until)
end
if result ~= CREATED then
  redis.call('DEL', row)
  redis.call('DEL', first)
  redis.call('ZREM', objects, index_of(object, id))
  return answer('Applied', EPOCH, '0')
end
redis.call('HDEL', row, 'deadline', 'hash', 'op_of')
redis.call('HSET', row, 'state', READY, 'version', version, 'epoch', EPOCH)
redis.call('ZADD', owned, '0', holder .. id)
book_slots(capacity, holder .. 'active:', object, '1')
local applied = { ARGV[1], 'Applied', EPOCH, '1', text(left), -- as answer_row does, then the whole row
  'state', READY, 'kind', kind, 'type', stable_type,
  'object_gen', object_gen, 'owner_gen', owner_gen, 'version', version, 'mesh', mesh, 'rid', rid, 'owner', owner,
  'lease_gen', lease_gen, 'op', op_id, 'epoch', EPOCH }
add(applied, 'spot', spot)
add(applied, 'wide', wide)
add(applied, 'first', cursor)
return applied
