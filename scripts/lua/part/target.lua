-- Who may take an object. The hash `node` has beside the descriptor what is asked
-- here: `max:<what>` for each limit, `offer:<kind>:<type>` for each stable type.

-- Why the process cannot take the object f, with so many members; else nothing, and
-- its descriptor. A new object needs a weight above 0 and, if it is an Actor, an
-- Entry Spot.
local function target_refusal(K, rid, lifecycle, f, members, now)
  local node = hash_of(K.node)
  if node.lifecycle ~= lifecycle or node.state ~= '1' or (f.kind == ACTOR and node.spot == '') or
    lease_refusal(K.leases, rid, node.owner, lifecycle, now) then
    return 'TargetUnavailable'
  elseif node.role ~= '2' or not node['offer:' .. f.kind .. ':' .. f.type] or (not f.state and node.weight == '0') then
    return 'TargetIncompatible'
  end
  local full = false
  each_slot(f, members, function(what, n)
    local limit = tonumber(node['max:' .. what] or '0')
    full = full or (limit > 0 and slots_used(K.capacity, process(rid, lifecycle), what) + n > limit)
  end)
  if full then
    return 'CapacityExceeded'
  end
  return nil, node
end
