-- Writes the descriptor of a process and claims its Entry Spot's id.
-- KEYS: epoch, node, nodes, change, leases, entries, row of the Entry Spot's id
-- ARGV: nonce, rid, owner, generation, keep ms, revision, encoded descriptor, Entry Spot,
--   then fields and values of what target_refusal asks
-- Returns: reason.
-- Invariant: the descriptor is that of the RID's valid lease, and its revision never
--   falls within one lifecycle. An Entry Spot's id is one process's and no object's.
-- Idempotency key: the encoded descriptor.

local _, node, nodes, change, leases, entries, row = unpack(KEYS)
local rid, owner, gen, keep, revision, encoded, spot = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), unpack(ARGV, 6, 8)

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
local claimed = spot ~= '' and redis.call('HGET', entries, 'spot:' .. spot)
if spot ~= '' and ((claimed and claimed ~= process(rid, gen)) or redis.call('EXISTS', row) == 1) then
  return answer('Exists')
end

claim_entry(entries, rid, spot, process(rid, gen))
redis.call('DEL', node)
redis.call('HSET', node, 'lifecycle', gen, 'owner', owner, 'revision', revision, 'spot', spot, 'encoded', encoded,
  unpack(ARGV, 9))
local _, expires = lease_of(leases, rid)
redis.call('PEXPIREAT', node, text(tonumber(expires) + keep))
redis.call('ZADD', nodes, 0, rid)
tell_change(change)
return answer('Applied')
