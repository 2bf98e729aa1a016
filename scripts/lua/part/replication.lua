-- Which history the server has. A promoted replica and a server that starts anew
-- have another replication id, so whatever was answered before may be undone.
-- A server without replication has the empty one.
local function replication_id()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or ''
end
