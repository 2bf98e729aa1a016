-- Leases stand in one hash, RID -> generation:end in ms:owner. The sorted set
-- `ends` has the same RIDs by their end, so that long dead ones can be found.

-- Generation, end and owner of the RID's lease; nothing if there is none.
local function lease_of(leases, rid)
  local lease = redis.call('HGET', leases, rid)
  if lease then
    return string.match(lease, '^(%d+):(%d+):(.+)$')
  end
end

local function put_lease(leases, ends, rid, gen, owner, expires)
  redis.call('HSET', leases, rid, gen .. ':' .. text(expires) .. ':' .. owner)
  redis.call('ZADD', ends, text(expires), rid)
end

-- Why the process may not act for the RID now; if its lease is valid nil, and the ms left.
local function lease_refusal(leases, rid, owner, gen, now)
  local held_gen, expires, holder = lease_of(leases, rid)
  if held_gen and (held_gen ~= gen or holder ~= owner) then
    return 'LeaseSuperseded'
  end
  if not held_gen or tonumber(expires) <= now then
    return 'LeaseExpired'
  end
  return nil, expires - now
end

-- What is left of the process's lease in ms; 0 if expired, released or superseded.
local function lease_left(leases, rid, owner, gen, now)
  local held_gen, expires, holder = lease_of(leases, rid)
  if held_gen == gen and holder == owner then
    return text(math.max(tonumber(expires) - now, 0))
  end
  return '0'
end

-- A process, as the fields and members begin that belong to it.
local function process(rid, lifecycle)
  return rid .. ':' .. lifecycle
end

local function same_process(a, b)
  return a.owner == b.owner and a.lease_gen == b.lease_gen
end

-- Counts a row of the owner that others took away, if its process can still renew and
-- so hear of it.
local function tell_freed(leases, freed, owner)
  local gen, _, holder = lease_of(leases, owner.rid)
  if gen == owner.lease_gen and holder == owner.owner then
    redis.call('HINCRBY', freed, process(owner.rid, gen), 1)
  end
end
