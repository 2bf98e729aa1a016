-- Starts a new epoch if the server's history is another than the one noted, or if an
-- operator asks for it.
-- KEYS: epoch, lease counter, object counter, version counter, change
-- ARGV: nonce, 'raise' or ''
-- Returns: reason, epoch.
-- Invariant: an epoch's number is larger than all before it, and so is whatever its
--   counters issue, even if the last changes of the epoch before were lost or the
--   whole namespace was: numbers follow the clock, a million to the millisecond, and
--   where it is behind the counters they leave a distance to what may be lost. Two
--   histories that begin at the same state, because one was lost, differ in their numbers
--   also under a clock that is behind. No number is more than seconds before the clock:
--   what follows may have to begin from the clock alone. `since` is when the epoch began;
--   0 for a server that keeps nothing and so has no past.
-- Idempotency key: the replication id; a repeat of 'raise' starts one more.

local epoch, counters = KEYS[1], { unpack(KEYS, 2) }
local PER_MS, DISTANCE_MS = 1048576, 1024
local now, id = now_ms(), replication_id()

local noted = hash_of(epoch)
if noted.number and noted.replication == id and ARGV[2] ~= 'raise' then
  return answer('AlreadyApplied', noted.number)
end

-- Counters are doubles here: they may be off by a thousand, of the distance's billion.
local number = math.max(now, tonumber(noted.number or '0') + 1)
for _, counter in ipairs(counters) do
  local issued_ms = math.floor(tonumber(redis.call('GET', counter) or '0') / PER_MS)
  if issued_ms >= now then
    number = math.max(number, issued_ms + DISTANCE_MS)
  end
end
if number > now and noted.replication ~= id then
  number = number + (tonumber(string.sub(id, 1, 3), 16) or 0) -- at most 4 s, random as the id is
end
local floor = string.format('%.0f', number * PER_MS)
if less(GEN_MAX, floor) then
  floor = GEN_MAX
end
redis.call('HSET', epoch, 'number', text(number), 'replication', id,
  'since', (id == '' and not noted.number) and '0' or text(now))
for _, counter in ipairs(counters) do
  redis.call('SET', counter, floor)
end
return answer('Applied', text(number))
