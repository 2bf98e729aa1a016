-- Reads the kept result of an operation.
-- KEYS: terminal
-- ARGV: nonce
-- Returns: Exists with result, id, object generation, fail kind, SHA-256 of the reply
--   and the reply; or Missing.
-- Invariant: changes nothing.
-- Idempotency key: none needed.

local terminal = KEYS[1]

if not terminal_kept(terminal, now_ms()) then
  return answer('Missing')
end
return answer('Exists', unpack(redis.call('HMGET', terminal, 'result', 'id', 'object_gen', 'fail_kind', 'hash', 'reply')))
