-- Reads the descriptors of some nodes, with used capacity and lease.
-- KEYS: change, leases, capacity, then one node for each RID
-- ARGV: nonce, byte limit, then the RIDs
-- Returns: reason, change number, count of RIDs done, then for each of them that has
--   a descriptor: encoded descriptor, Actor and Spot slots in use, ms left of its lease. The first
--   is always done; one that would pass the byte limit is left for another call.
-- Invariant: changes nothing.
-- Idempotency key: none needed.

local change, leases, capacity = unpack(KEYS, 1, 3)
local bytes_left = tonumber(ARGV[2])
local now = now_ms()

local reply = answer('Exists', redis.call('GET', change) or '0', '0')
local done = 0
for i = 4, #KEYS do
  local rid = ARGV[i - 1]
  local node = redis.call('HMGET', KEYS[i], 'encoded', 'lifecycle', 'owner')
  if node[1] then
    bytes_left = bytes_left - #node[1]
    if bytes_left < 0 and done > 0 then
      break
    end
    reply[#reply + 1] = node[1]
    for _, what in ipairs({ 'actors', 'spots' }) do
      reply[#reply + 1] = text(slots_used(capacity, process(rid, node[2]) .. ':', what))
    end
    reply[#reply + 1] = lease_left(leases, rid, node[3], node[2], now)
  end
  done = done + 1
end
reply[4] = text(done)
return reply
