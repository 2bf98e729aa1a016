-- Reads an authority row.
-- KEYS: epoch, row, request, leases, row of the Spot
-- ARGV: nonce, id of that Spot or ''
-- Returns: Exists or Missing, the row (see answer_row) with the creation request as
--   its field `request` while it is Creating. An Actor that shares the owner of a
--   Spot other than that one comes without owner: ask again with its Spot.
-- Invariant: changes nothing.
-- Idempotency key: none needed.

local K = { spots = {} }
local _, row, request, leases, spot = unpack(KEYS)
K.row, K.leases = row, leases
K.spots[ARGV[2]] = { row = spot }

local state = redis.call('HGET', row, 'state')
local reply = answer_row(state and 'Exists' or 'Missing', K, now_ms())
if state == CREATING then
  reply[#reply + 1] = 'request'
  reply[#reply + 1] = redis.call('GET', request) or ''
end
return reply
