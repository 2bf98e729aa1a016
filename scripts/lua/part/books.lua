-- What the Store keeps beside a row follows from the row alone: slots in the hash
-- `capacity`, its place in the list `owned` or `reserved` of a process, and among the
-- `members` and the `pending` of a Spot. save keeps both together.

-- Counts what follows from a row, for it (sign 1) or against it (-1). owner is its
-- owner_of.
local function account(sums, K, id, f, owner, sign)
  local function book(begin, members)
    local slots = slots_of(f, members)
    for i = 1, #slots, 2 do
      count(sums, K.capacity, begin .. slots[i], sign * slots[i + 1])
    end
  end
  local holder = process(owner.rid, owner.lease_gen) .. ':'
  if f.state == CREATING then
    book(holder .. 'reserved:', 0)
    count(sums, K.reserved, holder .. id, sign)
    return
  end
  book(holder .. 'active:', 0)
  if not f.shares then
    count(sums, K.owned, holder .. id, sign)
  end
  if f.member then
    count(sums, K.spots[f.spot].members, id, sign)
    if not f.shares then
      count(sums, K.capacity, holder .. 'active:in:' .. f.spot, sign)
    end
  end
  if f.move then
    local target = process(f.to_rid, f.to_lease) .. ':'
    book(target .. 'reserved:', tonumber(f.to_members or '0'))
    count(sums, K.reserved, target .. id, sign)
    if f.member then
      count(sums, K.spots[f.spot].pending, 'out:' .. id, sign)
    end
    if f.to_member then
      count(sums, K.spots[f.to_spot].pending, 'in:' .. id, sign)
    end
  end
end

-- Writes the row, from what it was to what it shall be; an empty table is no row. The
-- members of a SpotWide Spot come with it to another owner.
local function save(K, id, old, old_owner, new, new_owner)
  local set, gone, sums = {}, {}, {}
  if new.kind == USER_SPOT and K.spots[id] then
    new.left = left_of(K, id, new)
  end
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
  if old.state then
    account(sums, K, id, old, old_owner, -1)
  end
  if new.state then
    account(sums, K, id, new, new_owner, 1)
  end
  if old.wide and new.wide and (old.rid ~= new.rid or old.lease_gen ~= new.lease_gen) then
    local members = redis.call('ZCARD', K.spots[id].members)
    count(sums, K.capacity, process(old.rid, old.lease_gen) .. ':active:actors', -members)
    count(sums, K.capacity, process(new.rid, new.lease_gen) .. ':active:actors', members)
  end
  settle(K, sums)
  if old.member and not old.shares then
    recount(K, old.spot)
  end
  if new.member and not new.shares and new.spot ~= old.spot then
    recount(K, new.spot)
  end
  K.saved = new
end
