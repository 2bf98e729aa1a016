-- Moves the replay cursor of an Instance Spot's first message, or drops the message
-- because it is back at the head of its queue (FO-13).
-- KEYS: epoch, row, first, leases, capacity, owned, version counter
-- ARGV: nonce, the fence, operation, cursor, 'done' or ''
-- Returns: reason and the row (see answer_row).
-- Invariant: a Ready row has `first` exactly as long as the message is kept.
-- Idempotency key: operation, in the row.

local K = { spots = {} }
local _, first, versions
_, K.row, first, K.leases, K.capacity, K.owned, versions = unpack(KEYS)
local id, op, cursor, done = ARGV[2], unpack(ARGV, 9, 11)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
if old.op == op then
  return outcome('AlreadyApplied')
end
local refusal = fence_refusal(K, old, spot_of(K, old), READY, now)
if refusal then
  return outcome(refusal)
elseif not old.first then
  return outcome('VersionConflict')
elseif exhausted(versions) then
  return outcome('Exhausted')
end

local new = copy(old)
new.version, new.op, new.epoch, new.first = issue(versions), op, EPOCH, cursor
if done == 'done' then
  new.first = nil
  redis.call('DEL', first)
end
save(K, id, old, old, new, new)
return outcome('Applied')
