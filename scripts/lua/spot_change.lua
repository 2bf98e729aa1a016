-- Moves an Actor's membership to another Spot of the same process (JN-11).
-- KEYS: epoch, row, leases, capacity, owned, entries, version counter, then row, members
--   and pending of its Spot, and of the new one
-- ARGV: nonce, the fence, operation, new Spot, 'user' or 'entry'
-- Returns: reason and the row (see answer_row).
-- Invariant: owner and generations stay; the Actor is member of one Spot. Neither Spot is
--   moving with its members.
-- Idempotency key: operation, in the row.

local K = { spots = {} }
local _, entries, versions
_, K.row, K.leases, K.capacity, K.owned, entries, versions = unpack(KEYS)
local id, op, spot, user = ARGV[2], ARGV[9], ARGV[10], ARGV[11] == 'user'
K.spots[spot], K.spots[FENCE.spot] = spot_keys(11), spot_keys(8)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
if old.op == op then
  return outcome('AlreadyApplied')
end
local old_spot = spot_of(K, old)
local refusal = fence_refusal(K, old, old_spot, READY, now)
if refusal then
  return outcome(refusal)
elseif old.move or spot_moves(K, old) then
  return outcome('Moving')
end
local owner, new_spot = owner_of(old, old_spot), nil
if user then
  refusal, new_spot = spot_refusal(K, spot, owner.rid, owner.owner, owner.lease_gen)
elseif redis.call('HGET', entries, 'spot:' .. spot) ~= process(owner.rid, owner.lease_gen) then
  refusal = 'SpotUnavailable'
end
if refusal or exhausted(versions) then
  return outcome(refusal or 'Exhausted')
end

local new = copy(old)
new.version, new.op, new.epoch = issue(versions), op, EPOCH
place(new, spot, new_spot, owner)
save(K, id, old, owner, new, owner)
rebase(K.row, old, old_spot, new, new_spot)
return outcome('Applied')
