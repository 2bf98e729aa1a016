-- What was removed last under an id is kept for a while: the incarnation, its last version,
-- and the operation that did it. A repeat of that operation finds it there, and so does a
-- re-assertion that comes late.

local function removal_of(key)
  local f = {}
  f.object_gen, f.version, f.op = string.match(redis.call('GET', key) or '', '^(%d+):(%d+):(%x*)$')
  return f
end

local function removed_by(key, object_gen, op)
  local f = removal_of(key)
  return f.object_gen == object_gen and f.op == op
end

local function keep_removal(key, f, op, keep)
  redis.call('SET', key, f.object_gen .. ':' .. f.version .. ':' .. op, 'PX', keep)
end
