-- Ends the lease of a process and removes its descriptor.
-- KEYS: epoch, leases, ends, node, nodes, change, entries, freed
-- ARGV: nonce, rid, owner, generation
-- Returns: reason.
-- Invariant: another process's lease and descriptor are left alone.
-- Idempotency key: (owner, generation); a repeat finds Missing or LeaseSuperseded.

local _, leases, ends, node, nodes, change, entries, freed = unpack(KEYS)
local rid, owner, gen = ARGV[2], ARGV[3], ARGV[4]

local held_gen, _, holder = lease_of(leases, rid)
if not held_gen then
  return answer('Missing')
end
if held_gen ~= gen or holder ~= owner then
  return answer('LeaseSuperseded')
end

redis.call('HDEL', leases, rid)
redis.call('ZREM', ends, rid)
redis.call('HDEL', freed, process(rid, gen))
drop_node(node, nodes, change, entries, rid)
return answer('Applied')
