-- Reads some authority rows, each as object_read does, without the creation request.
-- KEYS: epoch, leases, then one row for each object
-- ARGV: nonce
-- Returns: reason, epoch, then for each row that is there its place in KEYS, ms left of
--   its owner's lease, the count of fields, fields and values. An Actor that shares its
--   Spot's owner comes without owner.
-- Invariant: changes nothing.
-- Idempotency key: none needed.

local leases = KEYS[2]
local now = now_ms()

local reply = answer('Exists', EPOCH)
for i = 3, #KEYS do
  local flat = redis.call('HGETALL', KEYS[i])
  if #flat > 0 then
    local lease = redis.call('HMGET', KEYS[i], 'rid', 'owner', 'lease_gen')
    reply[#reply + 1] = text(i - 3)
    reply[#reply + 1] = lease[1] and lease_left(leases, lease[1], lease[2], lease[3], now) or '0'
    reply[#reply + 1] = text(#flat / 2)
    for _, word in ipairs(flat) do
      reply[#reply + 1] = word
    end
  end
end
return reply
