-- Reserves an id: Missing -> Creating, with its capacity at the target (CR-01).
-- KEYS: epoch, row, request, first, terminal, node, leases, capacity, reserved, objects,
--   entries, object counter, version counter
-- ARGV: nonce, id, kind, stable type, wide, operation, target rid, target lifecycle,
--   timeout ms, hold ms, creation request, its SHA-256, then the first message, if any
-- Returns: reason and the row (see answer_row).
-- Invariant: a Creating row, its request and its reserved slots at a target that could
--   take it exist together or not at all. The row has no time to live. For `hold` after
--   an epoch's begin, processes may live whose rows and leases were lost: nothing new.
-- Idempotency key: operation, in the row and in its terminal record.

local K = { spots = {} }
local epoch, request, first, terminal, entries, object_counter, versions
epoch, K.row, request, first, terminal, K.node, K.leases, K.capacity, K.reserved, K.objects, entries, object_counter, versions =
  unpack(KEYS)
local id, kind, stable_type, wide, op, target, lifecycle = unpack(ARGV, 2, 8)
local timeout, hold, body, hash, message = tonumber(ARGV[9]), tonumber(ARGV[10]), unpack(ARGV, 11, 13)
local op_id, op_of = parts_of(op)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
if (old.op == op_id and (old.op_of or op_of) == op_of) or terminal_kept(terminal, now) then
  return outcome('AlreadyApplied')
elseif old.state then
  return outcome(old.kind == kind and old.type == stable_type and 'Exists' or 'TypeMismatch')
elseif redis.call('HEXISTS', entries, 'spot:' .. id) == 1 then
  return outcome('TypeMismatch')
elseif now < tonumber(redis.call('HGET', epoch, 'since')) + hold then
  return outcome('Recovering')
end
local refusal, node = target_refusal(K, target, lifecycle, { kind = kind, type = stable_type }, 0, now)
if refusal then
  return outcome(refusal)
elseif exhausted(object_counter) or exhausted(versions) then
  return outcome('Exhausted')
end

local new = {
  state = CREATING, kind = kind, type = stable_type, object_gen = issue(object_counter), owner_gen = '1',
  version = issue(versions), mesh = node.mesh, rid = target, owner = node.owner, lease_gen = lifecycle, op = op_id,
  op_of = op_of, deadline = text(now + timeout), hash = hash, epoch = EPOCH,
  spot = kind == ACTOR and node.spot or nil, wide = wide == '1' and '1' or nil, first = message and '0' or nil,
}
redis.call('SET', request, body)
if message then
  redis.call('SET', first, message)
end
redis.call('ZADD', K.objects, 0, index_of(new, id))
save(K, id, {}, nil, new, new)
return outcome('Applied')
