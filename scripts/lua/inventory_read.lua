-- Reads a chunk of an aggregate's inventory.
-- KEYS: inventory
-- ARGV: nonce, SHA-256 of the chunk
-- Returns: Exists with the chunk, or Missing.
-- Invariant: changes nothing.
-- Idempotency key: none needed.

local inventory = KEYS[1]

local chunk = redis.call('HGET', inventory, ARGV[2])
if not chunk then
  return answer('Missing')
end
return answer('Exists', chunk)
