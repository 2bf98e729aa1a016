-- Gives an object to its move's target, which asks: the one commit of a move (RL-21).
-- KEYS: epoch, row, leases, capacity, reserved, owned, version counter, then row, members
--   and pending of the object as a Spot, of its Spot, and of the Spot that it goes to
-- ARGV: nonce, the move, operation, source's owner, source's lease generation, target
--   rid, target owner, target lease generation, root of the inventory or ''
-- Returns: reason and the row (see answer_row).
-- Invariant: owner, membership, both capacities and owner generation change together.
--   The source is compared as it was recorded, not by its lease; the target's is valid.
--   An aggregate of which a member was freed by hand meanwhile does not move.
-- Idempotency key: operation, in the row.

local K = { spots = {} }
local _, versions
_, K.row, K.leases, K.capacity, K.reserved, K.owned, versions = unpack(KEYS)
local id, op, source_owner, source_lease, rid, owner_id, lease_gen, root = ARGV[2], unpack(ARGV, 10, 16)
K.spots[id], K.spots[MOVE.to_spot], K.spots[MOVE.spot] = spot_keys(8), spot_keys(14), spot_keys(11)
local now = now_ms()

local function outcome(reason)
  return answer_row(reason, K, now)
end

local old = hash_of(K.row)
if old.op == op then
  return outcome('AlreadyApplied')
end
local refusal, old_spot = move_refusal(old), spot_of(K, old)
local source = owner_of(old, old_spot)
if refusal then
  return outcome(refusal)
elseif source.owner ~= source_owner or source.lease_gen ~= source_lease or
  old.to_rid ~= rid or old.to_owner ~= owner_id or old.to_lease ~= lease_gen then
  return outcome('OwnerConflict')
elseif (old.wide and (old.to_root or 'none') or '') ~= root or
  (old.wide and redis.call('ZCARD', K.spots[id].members) ~= tonumber(old.to_members)) then
  return outcome('InventoryConflict')
end
refusal = lease_refusal(K.leases, rid, owner_id, lease_gen, now)
if refusal or exhausted(versions) or old.owner_gen == GEN_MAX then
  return outcome(refusal or 'Exhausted')
end

local new = without_move(copy(old))
local target = { rid = rid, owner = owner_id, lease_gen = lease_gen, mesh = old.to_mesh }
local new_spot = old.to_member and hash_of(K.spots[MOVE.to_spot].row) or nil
new.version, new.op, new.epoch = issue(versions), op, EPOCH
if old.kind == ACTOR then
  place(new, MOVE.to_spot, new_spot, target)
else
  new.rid, new.owner, new.lease_gen, new.mesh = rid, owner_id, lease_gen, old.to_mesh
  if old.wide then
    new.agg, new.agg_root, new.agg_count = MOVE.move, root, old.to_count
  end
end
save(K, id, old, source, new, target)
redis.call('HINCRBY', K.row, 'owner_gen', 1)
rebase(K.row, old, old_spot, new, new_spot)
return outcome('Applied')
