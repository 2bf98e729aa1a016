-- Who may take an object. The hash `node` has beside the descriptor what is asked
-- here: `max:<what>` for each limit, `offer:<kind>:<type>` for each stable type.

-- Why the process cannot take the object f, with so many members; else nothing, and
-- its descriptor. A new object needs a weight above 0 and, if it is an Actor, an
-- Entry Spot.
local function target_refusal(K, rid, lifecycle, f, members, now)
  local slots = slots_of(f, members)
  local asked = { 'lifecycle', 'state', 'spot', 'owner', 'role', 'weight', 'mesh', 'offer:' .. f.kind .. ':' .. f.type }
  for i = 1, #slots, 2 do
    asked[#asked + 1] = 'max:' .. slots[i]
  end
  local told = redis.call('HMGET', K.node, unpack(asked))
  local node = { spot = told[3], owner = told[4], mesh = told[7] }
  if told[1] ~= lifecycle or told[2] ~= '1' or (f.kind == ACTOR and node.spot == '') or
    lease_refusal(K.leases, rid, node.owner, lifecycle, now) then
    return 'TargetUnavailable'
  elseif told[5] ~= '2' or not told[8] or (not f.state and told[6] == '0') then
    return 'TargetIncompatible'
  end
  for i = 1, #slots, 2 do
    local limit = tonumber(told[8 + (i + 1) / 2] or '0')
    if limit > 0 and slots_used(K.capacity, process(rid, lifecycle), slots[i]) + slots[i + 1] > limit then
      return 'CapacityExceeded'
    end
  end
  return nil, node
end
