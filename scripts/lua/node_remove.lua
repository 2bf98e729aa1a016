-- Removes the descriptor of a process.
-- KEYS: epoch, node, nodes, change, entries
-- ARGV: nonce, rid, owner, generation
-- Returns: reason.
-- Invariant: another process's descriptor is left alone. The lease is not asked: a
--   process whose lease ended may still take its own offer back.
-- Idempotency key: (owner, generation); a repeat finds Missing or LeaseSuperseded.

local _, node, nodes, change, entries = unpack(KEYS)
local rid, owner, gen = ARGV[2], ARGV[3], ARGV[4]

local stored = redis.call('HMGET', node, 'lifecycle', 'owner')
if not stored[1] then
  return answer('Missing')
end
if stored[1] ~= gen or stored[2] ~= owner then
  return answer('LeaseSuperseded')
end

drop_node(node, nodes, change, entries, rid)
return answer('Applied')
