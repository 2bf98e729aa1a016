-- Who may take an object. The hash `node` has beside the descriptor what is asked
-- here: `max:<what>` for each limit, `offer:<kind>:<type>` for each stable type and
-- `pass:<digest>` for each pass through its Cordon.

-- Why the process cannot take the object f, with so many members; else nothing, and its
-- descriptor. A new object needs a weight above 0 or a pass and, if it is an Actor, an Entry
-- Spot.
local function target_refusal(K, rid, lifecycle, f, members, now)
  local holder, typed = process(rid, lifecycle) .. ':', f.kind .. ':' .. f.type
  local told = redis.call('HMGET', K.node, 'lifecycle', 'state', 'spot', 'owner', 'role', 'weight', 'mesh',
    'offer:' .. typed, 'max:actors', 'pass:' .. (f.pass or ''))
  local node = { spot = told[3], owner = told[4], mesh = told[7], holder = holder }
  if told[1] ~= lifecycle or told[2] ~= '1' or (f.kind == ACTOR and node.spot == '') then
    return 'TargetUnavailable'
  end
  local refusal, left = lease_refusal(K.leases, rid, node.owner, lifecycle, now)
  if refusal then
    return 'TargetUnavailable'
  elseif told[5] ~= '2' or not told[8] or (not f.state and told[6] == '0' and not told[10]) then
    return 'TargetIncompatible'
  end
  node.left = left
  local actors, max_spots, max_type = 1, nil, nil
  if f.kind ~= ACTOR then
    actors, max_spots, max_type = members, unpack(redis.call('HMGET', K.node, 'max:spots', 'max:type:' .. typed))
  end
  if no_room(K.capacity, holder, 'actors', actors, told[9]) or no_room(K.capacity, holder, 'spots', 1, max_spots) or
    no_room(K.capacity, holder, 'type:' .. typed, 1, max_type) then
    return 'CapacityExceeded'
  end
  return nil, node
end
