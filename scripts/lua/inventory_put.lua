-- Stores a chunk of an aggregate's inventory.
-- KEYS: epoch, row, inventory
-- ARGV: nonce, the move, SHA-256 of the chunk, chunk
-- Returns: reason.
-- Invariant: chunks belong to a move that its row has, not prepared yet, and never change.
-- Idempotency key: the SHA-256.

local _, row, inventory = unpack(KEYS)

local f = hash_of(row)
local refusal = move_refusal(f)
if refusal then
  return answer(refusal)
elseif redis.call('HEXISTS', inventory, ARGV[10]) == 1 then
  return answer('AlreadyApplied')
elseif f.to_root or not f.wide then
  return answer('InventoryConflict')
end

redis.call('HSET', inventory, ARGV[10], ARGV[11])
return answer('Applied')
