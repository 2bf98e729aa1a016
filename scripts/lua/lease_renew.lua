-- Extends the lease of a process, also after its end. One that is not there is written
-- again if the process knows an earlier epoch: the Store may have lost it since.
-- KEYS: epoch, leases, ends, node, freed
-- ARGV: nonce, rid, owner, generation, ttl ms, keep ms, epoch that the process knows
-- Returns: reason, epoch, then generation, owner and ms left of the RID's lease, if any,
--   and how many of the process's rows were freed by hand.
-- Invariant: only the latest holder extends; its descriptor's key lives as long as
--   the lease and `keep` more.
-- Idempotency key: none needed; a repeat extends again.

local _, leases, ends, node, freed = unpack(KEYS)
local rid, owner, gen = ARGV[2], ARGV[3], ARGV[4]
local ttl, keep, known = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local now = now_ms()

local held_gen, expires, holder = lease_of(leases, rid)
if not held_gen and known == EPOCH then
  return answer('Missing', EPOCH) -- it was released, or is long over
end
if held_gen and (held_gen ~= gen or holder ~= owner) then
  return answer('LeaseSuperseded', EPOCH, held_gen, holder, text(math.max(tonumber(expires) - now, 0)), '0')
end

put_lease(leases, ends, rid, gen, owner, now + ttl)
redis.call('PEXPIREAT', node, text(now + ttl + keep))
return answer('Applied', EPOCH, gen, owner, text(ttl), redis.call('HGET', freed, process(rid, gen)) or '0')
