-- In front of every script. ARGV[1] of each is the call's nonce, the first word of
-- its answer; the second is a reason of the closed set store.Reason.
--
-- Generations and versions are decimal strings up to 2^63-1. A Lua number is a
-- double, so they are never converted: counters grow by INCR and are read back by
-- GET. Milliseconds, of time and of spans, fit a double exactly.

local GEN_MAX = '9223372036854775807'

-- The Store's clock, in milliseconds since 1970. It alone decides every expiry.
local function now_ms()
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + t[2] / 1000
  return ms - ms % 1
end

-- A whole number in decimal; tostring turns large ones into an exponent.
local function text(n)
  return string.format('%d', n)
end

-- a < b for decimals without leading zeros.
local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

-- A counter at its limit issues nothing more (ID-08). Ask before the first write.
local function exhausted(counter)
  return redis.call('GET', counter) == GEN_MAX
end

local function issue(counter)
  redis.call('INCR', counter)
  return redis.call('GET', counter)
end

local function answer(reason, ...)
  return { ARGV[1], reason, ... }
end

-- Adds a field to a list of fields and values, if it has a value.
local function add(list, field, value)
  if value then
    local n = #list
    list[n + 1], list[n + 2] = field, value
  end
end

-- A hash as a table; an empty one if it is not there.
local function hash_of(key)
  local flat, fields = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    fields[flat[i]] = flat[i + 1]
  end
  return fields
end
