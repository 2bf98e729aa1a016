-- Writes the descriptor of a process.
-- KEYS: node, nodes, change, leases
-- ARGV: nonce, rid, owner, generation, keep ms, revision, role, state, weight,
--   actor limit, mesh, entry spot, encoded descriptor, then the stable types
-- Returns: reason.
-- Invariant: the descriptor is that of the RID's valid lease, and its revision never
--   falls within one lifecycle. The fields beside the encoded descriptor are those
--   that actor_reserve checks.
-- Idempotency key: the encoded descriptor.

local node, nodes, change, leases = unpack(KEYS)
local rid, owner, gen, keep, revision = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local encoded = ARGV[13]

-- a < b for decimals without leading zeros.
local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

local refusal = lease_refusal(leases, rid, owner, gen, now_ms())
if refusal then
  return answer(refusal)
end
local stored = redis.call('HMGET', node, 'lifecycle', 'revision', 'encoded')
if stored[1] == gen then
  if less(revision, stored[2]) then
    return answer('VersionConflict')
  elseif stored[3] == encoded then
    return answer('AlreadyApplied')
  end
end

redis.call('INCR', change)
redis.call('DEL', node)
redis.call('HSET', node, 'lifecycle', gen, 'owner', owner, 'revision', revision, 'role', ARGV[7], 'state', ARGV[8],
  'weight', ARGV[9], 'actors_max', ARGV[10], 'mesh', ARGV[11], 'spot', ARGV[12], 'encoded', encoded)
for i = 14, #ARGV do
  redis.call('HSET', node, 'type:' .. ARGV[i], '1')
end
local _, expires = lease_of(leases, rid)
redis.call('PEXPIREAT', node, text(tonumber(expires) + keep))
redis.call('ZADD', nodes, 0, rid)
return answer('Applied')
