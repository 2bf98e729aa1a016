-- Reads a page of the RIDs that have a descriptor, in byte order.
-- KEYS: change, nodes
-- ARGV: nonce, known change number, RID to start behind, count
-- Returns: reason, change number, RIDs; none if the change number is the known one.
-- Invariant: changes nothing.
-- Idempotency key: none needed.

local change, nodes = unpack(KEYS)
local known, behind, count = ARGV[2], ARGV[3], ARGV[4]

local number = redis.call('GET', change) or '0'
if number == known then
  return answer('Exists', number)
end
local from = behind == '' and '-' or '(' .. behind
return answer('Exists', number, unpack(redis.call('ZRANGEBYLEX', nodes, from, '+', 'LIMIT', 0, count)))
