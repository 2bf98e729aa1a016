-- Reserves an id: Missing -> Creating, with its capacity at the target (CR-01).
-- KEYS: epoch, row, request, first, terminal, node, leases, capacity, reserved, objects,
--   entries, object counter, version counter
-- ARGV: nonce, id, kind, stable type, wide, operation, its source, target rid, target
--   lifecycle, timeout ms, hold ms, creation request, its SHA-256, pass or '', then the first message, if any
-- Returns: reason and the row (see answer_row).
-- Invariant: a Creating row, its request and its reserved slots at a target that could
--   take it exist together or not at all. The row has no time to live. For `hold` after
--   an epoch's begin, processes may live whose rows and leases were lost: nothing new.
-- Idempotency key: operation, in the row and in its terminal record.

local _, row, request, first, terminal, node_key, leases, capacity, reserved, objects, entries, object_counter, versions =
  unpack(KEYS)
local id, kind, stable_type, wide, op_id, op_of, target, lifecycle, timeout, hold, body, hash, pass, message =
  unpack(ARGV, 2, 15)
local K = { row = row, node = node_key, leases = leases, capacity = capacity, spots = {} }
local now = now_ms()

local function refuse(reason)
  return answer_row(reason, K, now)
end

local old_kind, old_type, old_op, old_op_of = unpack(redis.call('HMGET', row, 'kind', 'type', 'op', 'op_of'))
if (old_op == op_id and (old_op_of or op_of) == op_of) or terminal_kept(terminal, now) then
  return refuse('AlreadyApplied')
elseif old_kind then
  return refuse(old_kind == kind and old_type == stable_type and 'Exists' or 'TypeMismatch')
elseif redis.call('HEXISTS', entries, 'spot:' .. id) == 1 then
  return refuse('TypeMismatch')
elseif now < EPOCH_SINCE + hold then
  return refuse('Recovering')
end
local object = { kind = kind, type = stable_type, pass = pass }
local refusal, node = target_refusal(K, target, lifecycle, object, 0, now)
if refusal then
  return refuse(refusal)
elseif exhausted(object_counter) or exhausted(versions) then
  return refuse('Exhausted')
end

redis.call('SET', request, body)
if message then
  redis.call('SET', first, message)
end
local applied = { ARGV[1], 'Applied', EPOCH, '1', text(node.left), -- as answer_row does, then the whole row
  'state', CREATING, 'kind', kind, 'type', stable_type, 'object_gen', issue(object_counter), 'owner_gen', '1',
  'version', issue(versions), 'mesh', node.mesh, 'rid', target, 'owner', node.owner, 'lease_gen', lifecycle,
  'op', op_id, 'op_of', op_of, 'deadline', text(now + timeout), 'hash', hash, 'epoch', EPOCH }
add(applied, 'spot', kind == ACTOR and node.spot)
add(applied, 'wide', wide == '1' and wide)
add(applied, 'first', message and '0')
redis.call('HSET', row, unpack(applied, 6))
redis.call('ZADD', objects, '0', index_of(object, id))
redis.call('ZADD', reserved, '0', node.holder .. id)
book_slots(capacity, node.holder .. 'reserved:', object, '1')
return applied
