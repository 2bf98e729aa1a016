-- Results of creations are kept for a while, each under its operation. Whether one is
-- kept still is decided by the time in it: a key's own end only clears garbage away.
local function terminal_kept(terminal, now)
  local kept_until = redis.call('HGET', terminal, 'kept_until')
  return kept_until and tonumber(kept_until) > now
end

-- A creation's operation in two fields, as rows have it: together they are too long for
-- Redis' compact form of a hash. The c keeps it apart from other changes' ids.
local function parts_of(operation)
  return 'c' .. string.sub(operation, -32), string.sub(operation, 1, -34)
end
