-- Ends the lease of a process and removes its descriptor.
-- KEYS: leases, ends, node, nodes, change
-- ARGV: nonce, rid, owner, generation
-- Returns: reason.
-- Invariant: another process's lease and descriptor are left alone.
-- Idempotency key: (owner, generation); a repeat finds Missing or LeaseSuperseded.

local leases, ends, node, nodes, change = unpack(KEYS)
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
drop_node(node, nodes, change, rid)
return answer('Applied')
