-- An authority row is a hash. K names a script's keys: K.row is the row's, and K.spots
-- has the keys {row, members, pending} of each Spot by its id.

local CREATING, READY = '1', '2'
local ACTOR, USER_SPOT, INSTANCE_SPOT = '1', '3', '4'

local function copy(f)
  local new = {}
  for k, v in pairs(f) do
    new[k] = v
  end
  return new
end

-- The row of the object's Spot, if it shares that one's owner.
local function spot_of(K, f)
  return f.shares and K.spots[f.spot] and hash_of(K.spots[f.spot].row) or {}
end

-- Where rid, owner, lease_gen and mesh of the object stand: in its row, or its Spot's.
local function owner_of(f, spot)
  return f.shares and spot or f
end

-- Row and answer: reason, epoch, found, ms left of the owner's lease, then fields and
-- values. An Actor that shares its Spot's owner has it added, if the Spot's keys are
-- known. Of a row that save wrote, only its owner generation is read again: nothing else
-- changes behind it.
local function answer_row(reason, K, now)
  local f = K.saved or hash_of(K.row)
  if not f.state then
    return answer(reason, EPOCH, '0')
  end
  if K.saved then
    f.owner_gen = redis.call('HGET', K.row, 'owner_gen')
  end
  local spot = spot_of(K, f)
  local owner = owner_of(f, spot)
  local reply = answer(reason, EPOCH, '1', '0')
  if owner.rid then
    reply[5] = lease_left(K.leases, owner.rid, owner.owner, owner.lease_gen, now)
  end
  if f.shares and spot.state then
    f.mesh, f.rid, f.owner, f.lease_gen = spot.mesh, spot.rid, spot.owner, spot.lease_gen
    f.spot_gen, f.spot_version = spot.owner_gen, spot.version
  end
  local n = 5
  for field, value in pairs(f) do
    reply[n + 1], reply[n + 2] = field, value
    n = n + 2
  end
  return reply
end

-- An object's member of the set `objects`, from its birth to its end. The type's
-- length stands before it, so that all of one type are one range.
local function index_of(f, id)
  return f.kind .. ':' .. #f.type .. ':' .. f.type .. ':' .. id
end
