-- The hash `capacity` counts slots in use: <process>:<reserved or active>:<what>.

-- Calls visit(what, n) for each kind of slot that the object takes; members is how
-- many Actors come with it.
local function each_slot(f, members, visit)
  if f.kind == ACTOR then
    visit('actors', 1)
    return
  end
  visit('spots', 1)
  visit('type:' .. f.kind .. ':' .. f.type, 1)
  if members > 0 then
    visit('actors', members)
  end
end

local function slots_used(capacity, of, what)
  local used = redis.call('HMGET', capacity, of .. ':reserved:' .. what, of .. ':active:' .. what)
  return tonumber(used[1] or '0') + tonumber(used[2] or '0')
end

local function add_slots(capacity, field, n)
  if redis.call('HINCRBY', capacity, field, text(n)) == 0 then
    redis.call('HDEL', capacity, field)
  end
end
