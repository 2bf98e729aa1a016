-- Ends a move without a commit: its source aborts it, its target gives it up, or the
-- target sweeps one that it does not know, past its validity.
-- KEYS: epoch, row, leases, capacity, reserved, owned, version counter, inventory, then row,
--   members and pending of the object as a Spot, of its Spot, and of the Spot that it goes to
-- ARGV: nonce, the move, operation, 'source', 'target' or 'sweep', asker's rid, owner and
--   lease generation
-- Returns: reason and the row (see answer_row).
-- Invariant: after it no commit of the move applies; the target's slots and the places
--   among the pending are free. The owner stays.
-- Idempotency key: operation, in the row.

local K = { spots = {} }
local _, versions, inventory
_, K.row, K.leases, K.capacity, K.reserved, K.owned, versions, inventory = unpack(KEYS)
local id, op, as, rid, owner_id, lease_gen = ARGV[2], unpack(ARGV, 10, 14)
K.spots[id], K.spots[MOVE.to_spot], K.spots[MOVE.spot] = spot_keys(9), spot_keys(15), spot_keys(12)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
if old.op == op then
  return outcome('AlreadyApplied')
end
local refusal, source = move_refusal(old), owner_of(old, spot_of(K, old))
if refusal then
  return outcome(refusal)
end
local asked = as == 'source' and { source.rid, source.owner, source.lease_gen } or { old.to_rid, old.to_owner, old.to_lease }
if asked[1] ~= rid or asked[2] ~= owner_id or asked[3] ~= lease_gen then
  return outcome('OwnerConflict')
elseif as == 'sweep' and tonumber(old.to_until) > now then
  return outcome('OwnerAlive')
end
refusal = lease_refusal(K.leases, rid, owner_id, lease_gen, now)
if refusal or exhausted(versions) then
  return outcome(refusal or 'Exhausted')
end

local new = without_move(copy(old))
new.version, new.op, new.epoch = issue(versions), op, EPOCH
redis.call('DEL', inventory)
save(K, id, old, source, new, source)
return outcome('Applied')
