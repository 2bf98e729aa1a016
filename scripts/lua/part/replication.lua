-- Which history the server has. A promoted replica and a server that starts anew
-- have another replication id, so whatever was answered before may be undone.
-- A server without replication has the empty one. A server that does not let the script
-- ask fails it: without an answer no failover would ever be seen.
local function replication_id()
  local info = redis.pcall('INFO', 'replication')
  if type(info) == 'table' and not string.find(info.err, 'is not supported', 1, true) then
    error({ err = 'NOPERM the replication id: ' .. info.err })
  end
  local label = 'master_replid:'
  local at = type(info) == 'string' and string.find(info, label, 1, true) -- a plain one: in front of every script
  return at and string.match(info, '^%x+', at + #label) or ''
end
