-- Reads a page of a sorted set whose members all have score 0, in byte order.
-- KEYS: set
-- ARGV: nonce, lower and upper bound as ZRANGEBYLEX takes them, count
-- Returns: reason, members.
-- Invariant: changes nothing.
-- Idempotency key: none needed.

local set = KEYS[1]

return answer('Exists', unpack(redis.call('ZRANGEBYLEX', set, ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])))
