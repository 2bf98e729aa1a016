-- A node's descriptor is the hash `node`; the sorted set `nodes` lists the RIDs that
-- have one. `change` grows with each change of the list or of a descriptor.

-- Removes the RID's descriptor, if it has one.
local function drop_node(node, nodes, change, rid)
  if redis.call('DEL', node) + redis.call('ZREM', nodes, rid) > 0 then
    redis.call('INCR', change)
  end
end
