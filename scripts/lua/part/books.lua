-- What the Store keeps beside a row follows from the row alone: slots in the hash
-- `capacity`, its place in the list `owned` or `reserved` of a process, and among the
-- `members` and the `pending` of a Spot. save keeps both together.

local function list(key, sign, member)
  if sign > 0 then
    redis.call('ZADD', key, 0, member)
  else
    redis.call('ZREM', key, member)
  end
end

-- Adds (sign 1) or takes away (-1) what follows from a row. owner is its owner_of.
local function account(K, id, f, owner, sign)
  local function book(of, state, members)
    each_slot(f, members, function(what, n)
      add_slots(K.capacity, of .. ':' .. state .. ':' .. what, sign * n)
    end)
  end
  local holder = process(owner.rid, owner.lease_gen)
  if f.state == CREATING then
    book(holder, 'reserved', 0)
    list(K.reserved, sign, holder .. ':' .. id)
    return
  end
  book(holder, 'active', 0)
  if not f.shares then
    list(K.owned, sign, holder .. ':' .. id)
  end
  if f.member then
    list(K.spots[f.spot].members, sign, id)
  end
  if f.move then
    local target = process(f.to_rid, f.to_lease)
    book(target, 'reserved', tonumber(f.to_members or '0'))
    list(K.reserved, sign, target .. ':' .. id)
    if f.member then
      list(K.spots[f.spot].pending, sign, 'out:' .. id)
    end
    if f.to_member then
      list(K.spots[f.to_spot].pending, sign, 'in:' .. id)
    end
  end
end

-- Writes the row, from what it was to what it shall be; an empty table is no row. The
-- members of a SpotWide Spot come with it to another owner.
local function save(K, id, old, old_owner, new, new_owner)
  if old.state then
    account(K, id, old, old_owner, -1)
  end
  local set, gone = {}, {}
  for field, value in pairs(new) do
    if old[field] ~= value then
      set[#set + 1] = field
      set[#set + 1] = value
    end
  end
  for field in pairs(old) do
    if new[field] == nil then
      gone[#gone + 1] = field
    end
  end
  if #gone > 0 then
    redis.call('HDEL', K.row, unpack(gone))
  end
  if #set > 0 then
    redis.call('HSET', K.row, unpack(set))
  end
  if new.state then
    account(K, id, new, new_owner, 1)
  end
  if old.wide and new.wide and (old.rid ~= new.rid or old.lease_gen ~= new.lease_gen) then
    local members = redis.call('ZCARD', K.spots[id].members)
    if members > 0 then
      add_slots(K.capacity, process(old.rid, old.lease_gen) .. ':active:actors', -members)
      add_slots(K.capacity, process(new.rid, new.lease_gen) .. ':active:actors', members)
    end
  end
end

-- An object's member of the set `objects`, from its birth to its end. The type's
-- length stands before it, so that all of one type are one range.
local function index_of(f, id)
  return f.kind .. ':' .. #f.type .. ':' .. f.type .. ':' .. id
end
