-- Reads what is kept of an Instance Spot's first message (FO-13).
-- KEYS: row, first
-- ARGV: nonce, object generation
-- Returns: Exists with cursor and message, or Missing.
-- Invariant: changes nothing.
-- Idempotency key: none needed.

local row, first = unpack(KEYS)

local f = redis.call('HMGET', row, 'object_gen', 'first')
if f[1] ~= ARGV[2] or not f[2] then
  return answer('Missing')
end
return answer('Exists', f[2], redis.call('GET', first) or '')
