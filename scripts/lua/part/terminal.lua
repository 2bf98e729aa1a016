-- Results of creations are kept for a while, each under its operation. Whether one is
-- kept still is decided by the time in it: a key's own end only clears garbage away.
local function terminal_kept(terminal, now)
  local kept_until = redis.call('HGET', terminal, 'kept_until')
  return kept_until and tonumber(kept_until) > now
end
