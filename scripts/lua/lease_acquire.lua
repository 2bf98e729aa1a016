-- Takes the lease of an RID for a new process.
-- KEYS: epoch, leases, ends, lease counter, node, nodes, change, entries, freed
-- ARGV: nonce, rid, owner, ttl ms, keep ms, prune count
-- Returns: reason, epoch, then generation, owner and ms left of the RID's lease, and how
--   many of the asker's rows were freed by hand.
-- Invariant: an RID has one lease; its generation is new in the namespace; the
--   descriptor of the process before it is gone. As garbage, leases that ended more
--   than `keep` ago go too, at most `prune count` of them.
-- Idempotency key: owner, which is random per process start.

local _, leases, ends, counter, node, nodes, change, entries, freed = unpack(KEYS)
local rid, owner = ARGV[2], ARGV[3]
local ttl, keep, prune_count = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local now = now_ms()

local gen, expires, holder = lease_of(leases, rid)
if gen and tonumber(expires) > now then
  local reason, count = 'LeaseHeld', nil
  if holder == owner then
    reason, count = 'AlreadyApplied', redis.call('HGET', freed, process(rid, gen))
  end
  return answer(reason, EPOCH, gen, holder, text(tonumber(expires) - now), count or '0')
end
if exhausted(counter) then
  return answer('Exhausted', EPOCH)
end

if gen then
  redis.call('HDEL', freed, process(rid, gen))
end
gen = issue(counter)
put_lease(leases, ends, rid, gen, owner, now + ttl)
drop_node(node, nodes, change, entries, rid)

local pruned = 0
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', text(now - keep), 'LIMIT', 0, prune_count)) do
  redis.call('HDEL', freed, process(dead, (lease_of(leases, dead))))
  redis.call('HDEL', leases, dead)
  claim_entry(entries, dead, '')
  redis.call('ZREM', ends, dead)
  pruned = pruned + redis.call('ZREM', nodes, dead)
end
if pruned > 0 then
  tell_change(change)
end
return answer('Applied', EPOCH, gen, owner, text(ttl), '0')
