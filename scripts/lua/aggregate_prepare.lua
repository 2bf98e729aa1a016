-- Fixes the inventory of an aggregate's move, for its source.
-- KEYS: epoch, row, leases, capacity, reserved, owned, version counter, inventory, then
--   row, members and pending of the object as a Spot
-- ARGV: nonce, the move, operation, asker's rid, owner and lease generation, root, count
-- Returns: reason and the row (see answer_row).
-- Invariant: the root is stored and counts the Spot and the members that were booked; none
--   of them was freed by hand meanwhile.
-- Idempotency key: operation, in the row.

local K = { spots = {} }
local _, versions, inventory
_, K.row, K.leases, K.capacity, K.reserved, K.owned, versions, inventory = unpack(KEYS)
local id, op, rid, owner_id, lease_gen, root, participants = ARGV[2], unpack(ARGV, 10, 15)
K.spots[id] = spot_keys(9)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
if old.op == op then
  return outcome('AlreadyApplied')
end
local refusal = move_refusal(old)
if refusal then
  return outcome(refusal)
elseif not old.wide then
  return outcome('InventoryConflict')
elseif old.rid ~= rid or old.owner ~= owner_id or old.lease_gen ~= lease_gen then
  return outcome('OwnerConflict')
elseif old.to_root or redis.call('HEXISTS', inventory, root) == 0 or
  tonumber(participants) ~= tonumber(old.to_members) + 1 or
  redis.call('ZCARD', K.spots[id].members) ~= tonumber(old.to_members) then
  return outcome('InventoryConflict')
end
refusal = lease_refusal(K.leases, rid, owner_id, lease_gen, now)
if refusal or exhausted(versions) then
  return outcome(refusal or 'Exhausted')
end

local new = copy(old)
new.version, new.op, new.to_root, new.to_count = issue(versions), op, root, participants
save(K, id, old, old, new, old)
return outcome('Applied')
