-- A node's descriptor is the hash `node`; the sorted set `nodes` lists the RIDs that
-- have one. The counter `change` grows with each change of the list or of a descriptor,
-- and with each epoch, for what was known may be undone; its name is also the channel
-- that says so. The hash `entries` has for each RID its
-- Entry Spot's id, and for that id its process.

local function tell_change(change)
  redis.call('PUBLISH', change, issue(change))
end

local function claim_entry(entries, rid, spot, owner)
  local before = redis.call('HGET', entries, 'rid:' .. rid)
  if before and before ~= spot then
    redis.call('HDEL', entries, 'spot:' .. before, 'rid:' .. rid)
  end
  if spot ~= '' then
    redis.call('HSET', entries, 'rid:' .. rid, spot, 'spot:' .. spot, owner)
  end
end

-- Removes the RID's descriptor and its Entry Spot, if it has one.
local function drop_node(node, nodes, change, entries, rid)
  claim_entry(entries, rid, '')
  if redis.call('DEL', node) + redis.call('ZREM', nodes, rid) > 0 then
    tell_change(change)
  end
end
