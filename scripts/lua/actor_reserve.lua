-- Reserves an id: Missing -> Creating, with one Actor slot of the target (CR-01).
-- KEYS: row, request, terminal, node, leases, capacity, reserved, object counter,
--   version counter
-- ARGV: nonce, id, stable type, operation, target rid, target lifecycle, timeout ms,
--   creation request, its SHA-256
-- Returns: reason and the row (see answer_row).
-- Invariant: a Creating row, its request and one reserved slot of a target that could
--   take it exist together or not at all. The row has no time to live.
-- Idempotency key: operation, in the row and in its terminal record.

local row, request, terminal, node, leases, capacity, reserved, objects, versions = unpack(KEYS)
local id, stable_type, op, target, lifecycle = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local timeout, body, hash = tonumber(ARGV[7]), ARGV[8], ARGV[9]
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, row, leases, now)
end

local there = redis.call('HMGET', row, 'type', 'op')
if there[2] == op or terminal_kept(terminal, now) then
  return outcome('AlreadyApplied')
elseif there[1] then
  return outcome(there[1] == stable_type and 'Exists' or 'TypeMismatch')
end
local n = redis.call('HMGET', node, 'lifecycle', 'owner', 'state', 'role', 'weight', 'actors_max', 'mesh', 'spot',
  'type:' .. stable_type)
local owner, state, role, weight, actors_max, mesh, spot, offered = unpack(n, 2, 9)
if n[1] ~= lifecycle or state ~= '1' or spot == '' or lease_refusal(leases, target, owner, lifecycle, now) then
  return outcome('TargetUnavailable')
elseif role ~= '2' or weight == '0' or not offered then
  return outcome('TargetIncompatible')
elseif actors_max ~= '0' and slots_used(capacity, target, lifecycle) >= tonumber(actors_max) then
  return outcome('CapacityExceeded')
elseif exhausted(objects) or exhausted(versions) then
  return outcome('Exhausted')
end

redis.call('HSET', row, 'state', CREATING, 'type', stable_type, 'object_gen', issue(objects), 'owner_gen', '1',
  'version', issue(versions), 'mesh', mesh, 'rid', target, 'owner', owner, 'lease_gen', lifecycle, 'spot', spot,
  'op', op, 'deadline', text(now + timeout), 'hash', hash)
redis.call('SET', request, body)
take_slot(capacity, reserved, 'reserved', target, lifecycle, id)
return outcome('Applied')
