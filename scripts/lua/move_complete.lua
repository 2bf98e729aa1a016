-- Drops the inventory of a committed aggregate, for its owner.
-- KEYS: epoch, row, leases, inventory
-- ARGV: nonce, the fence, move
-- Returns: reason and the row (see answer_row).
-- Invariant: the row keeps the aggregate's id, root and count, and its version: who owns
--   what is not touched.
-- Idempotency key: none needed; a repeat finds nothing to drop.

local K = { spots = {} }
local _, inventory
_, K.row, K.leases, inventory = unpack(KEYS)
local now = now_ms()

local old = hash_of(K.row)
local refusal = fence_refusal(K, old, spot_of(K, old), READY, now)
if not refusal and (old.move or old.agg ~= ARGV[9]) then
  refusal = old.move and 'Moving' or 'MoveConflict' -- what is stored is the inventory of the next move
end
if refusal then
  return answer_row(refusal, K, now)
end

redis.call('DEL', inventory)
return answer_row('Applied', K, now)
