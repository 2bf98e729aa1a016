-- Starts a new epoch if the server's history is another than the one noted, or if an
-- operator asks for it.
-- KEYS: epoch, lease counter, object counter, version counter
-- ARGV: nonce, 'raise' or ''
-- Returns: reason, epoch.
-- Invariant: an epoch's number is larger than all before it, and so is whatever its
--   counters issue, even if the last changes of the epoch before were lost or the
--   whole namespace was: numbers follow the clock, a million to the millisecond. `since`
--   is when it began; 0 for a server that keeps nothing and so has no past.
-- Idempotency key: the replication id; a repeat of 'raise' starts one more.

local epoch, counters = KEYS[1], { unpack(KEYS, 2) }
local now, id = now_ms(), replication_id()

local noted = hash_of(epoch)
if noted.number and noted.replication == id and ARGV[2] ~= 'raise' then
  return answer('AlreadyApplied', noted.number)
end

local number, floor = text(now), text(now * 1048576)
if noted.number and not less(noted.number, number) then
  redis.call('HINCRBY', epoch, 'number', 1)
else
  redis.call('HSET', epoch, 'number', number)
end
redis.call('HSET', epoch, 'replication', id, 'since', (id == '' and not noted.number) and '0' or text(now))
for _, counter in ipairs(counters) do
  if less(redis.call('GET', counter) or '0', floor) then
    redis.call('SET', counter, floor)
  end
end
return answer('Applied', redis.call('HGET', epoch, 'number'))
