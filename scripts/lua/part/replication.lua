-- Which history the server has. A promoted replica and a server that starts anew
-- have another replication id, so whatever was answered before may be undone.
-- A server without replication has the empty one. A server that does not let the script
-- ask fails it: without an answer no failover would ever be seen.
local function replication_id()
  local info = redis.pcall('INFO', 'replication')
  if type(info) == 'string' then
    local _, label = string.find(info, 'master_replid:', 1, true)
    return label and string.sub(info, label + 1, label + 40) or ''
  elseif string.find(info.err, 'is not supported', 1, true) then
    return ''
  end
  error({ err = 'NOPERM the replication id: ' .. info.err })
end
