-- An authority row is a hash. Every row holds one slot of its owner's process in
-- the hash `capacity`, reserved while Creating and active once Ready, and stands in
-- the list of that name. Fields and members begin with rid:lifecycle: of the process.

local CREATING, READY = '1', '2'
local ROW = { 'state', 'type', 'object_gen', 'owner_gen', 'version', 'mesh', 'rid', 'owner', 'lease_gen', 'spot',
  'op', 'deadline', 'hash' }

local function of_process(rid, lifecycle, what)
  return rid .. ':' .. lifecycle .. ':' .. what
end

local function take_slot(capacity, list, kind, rid, lifecycle, id)
  redis.call('HINCRBY', capacity, of_process(rid, lifecycle, kind), 1)
  redis.call('ZADD', list, 0, of_process(rid, lifecycle, id))
end

local function free_slot(capacity, list, kind, rid, lifecycle, id)
  local slots = of_process(rid, lifecycle, kind)
  if redis.call('HINCRBY', capacity, slots, -1) == 0 then
    redis.call('HDEL', capacity, slots)
  end
  redis.call('ZREM', list, of_process(rid, lifecycle, id))
end

local function slots_used(capacity, rid, lifecycle)
  local used = redis.call('HMGET', capacity, of_process(rid, lifecycle, 'reserved'), of_process(rid, lifecycle, 'active'))
  return tonumber(used[1] or '0') + tonumber(used[2] or '0')
end

-- Why the fence does not match the row; nothing if it does. wanted is the state.
local function fence_refusal(row, fence, wanted)
  local f = redis.call('HMGET', row, 'state', 'object_gen', 'version', 'owner', 'lease_gen')
  if not f[1] then
    return 'Missing'
  elseif f[2] ~= fence.object_gen then
    return 'GenerationConflict'
  elseif f[3] ~= fence.version or f[1] ~= wanted then
    return 'VersionConflict'
  elseif f[4] ~= fence.owner or f[5] ~= fence.lease_gen then
    return 'OwnerConflict'
  end
end

-- The row as it is: found, lease left, then the fields in the order of ROW.
local function answer_row(reason, row, leases, now)
  local f = redis.call('HMGET', row, unpack(ROW))
  if not f[1] then
    return answer(reason, '0')
  end
  for i = 1, #ROW do
    f[i] = f[i] or ''
  end
  return answer(reason, '1', lease_left(leases, f[7], f[8], f[9], now), unpack(f))
end

-- Whether the operation's result is still kept.
local function terminal_kept(terminal, now)
  local kept_until = redis.call('HGET', terminal, 'kept_until')
  return kept_until and tonumber(kept_until) > now
end
