-- Reads an authority row.
-- KEYS: row, request, leases
-- ARGV: nonce
-- Returns: Exists or Missing, the row (see answer_row) and, while it is Creating, the
--   creation request.
-- Invariant: changes nothing.
-- Idempotency key: none needed.

local row, request, leases = unpack(KEYS)

local state = redis.call('HGET', row, 'state')
local reply = answer_row(state and 'Exists' or 'Missing', row, leases, now_ms())
if state == CREATING then
  reply[#reply + 1] = redis.call('GET', request) or ''
end
return reply
