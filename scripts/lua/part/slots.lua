-- The hash `capacity` counts slots in use: <process>:<reserved or active>:<what>. Beside
-- them it counts the members of a PerActor Spot by their owners: <process>:active:in:<Spot>.

local function book_slot(capacity, slot, n)
  if redis.call('HINCRBY', capacity, slot, n) == 0 then
    redis.call('HDEL', capacity, slot)
  end
end

-- Books the slots of an object to which no members belong yet, or with n of -1 frees
-- them. begin is <process>:<reserved or active>: here.
local function book_slots(capacity, begin, f, n)
  if f.kind == ACTOR then
    book_slot(capacity, begin .. 'actors', n)
  else
    book_slot(capacity, begin .. 'spots', n)
    book_slot(capacity, begin .. 'type:' .. f.kind .. ':' .. f.type, n)
  end
end

local function slots_used(capacity, holder, what)
  local used = redis.call('HMGET', capacity, holder .. 'reserved:' .. what, holder .. 'active:' .. what)
  return (used[1] or 0) + (used[2] or 0)
end

-- Whether n more are over the limit; 0 is none.
local function no_room(capacity, holder, what, n, limit)
  return n > 0 and limit and limit ~= '0' and slots_used(capacity, holder, what) + n > tonumber(limit)
end
