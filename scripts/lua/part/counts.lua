-- The kinds of slots that the object takes, each with how many; members is how many
-- Actors come with it.
local function slots_of(f, members)
  if f.kind == ACTOR then
    return { 'actors', 1 }
  end
  local slots = { 'spots', 1, 'type:' .. f.kind .. ':' .. f.type, 1 }
  if members > 0 then
    slots[5], slots[6] = 'actors', members
  end
  return slots
end

-- Counts n for the member of the key: slots of `capacity`, and for a list 1 to be in it, -1
-- to be out. sums has three entries for each that was counted.
local function count(sums, key, member, n)
  for i = 1, #sums, 3 do
    if sums[i + 1] == member and sums[i] == key then
      sums[i + 2] = sums[i + 2] + n
      return
    end
  end
  local i = #sums
  sums[i + 1], sums[i + 2], sums[i + 3] = key, member, n
end

-- Writes what was counted and does not cancel out.
local function settle(K, sums)
  for i = 1, #sums, 3 do
    local key, member, n = sums[i], sums[i + 1], sums[i + 2]
    if key == K.capacity then
      if n ~= 0 and redis.call('HINCRBY', key, member, n) == 0 then
        redis.call('HDEL', key, member)
      end
    elseif n > 0 then
      redis.call('ZADD', key, '0', member)
    elseif n < 0 then
      redis.call('ZREM', key, member)
    end
  end
end

-- How many members of the User Spot another process owns, from which they have yet to
-- follow; nothing if there is none. Its row says it.
local function left_of(K, spot, f)
  if f.wide then
    return nil
  end
  local here = redis.call('HGET', K.capacity, process(f.rid, f.lease_gen) .. ':active:in:' .. spot)
  local left = redis.call('ZCARD', K.spots[spot].members) - tonumber(here or '0')
  return left > 0 and text(left) or nil
end

-- Writes what left_of says of a member's Spot.
local function recount(K, spot)
  local row = K.spots[spot].row
  local s = redis.call('HMGET', row, 'rid', 'lease_gen', 'left')
  local left = s[1] and left_of(K, spot, { rid = s[1], lease_gen = s[2] })
  if left then
    redis.call('HSET', row, 'left', left)
  elseif s[3] then
    redis.call('HDEL', row, 'left')
  end
end
