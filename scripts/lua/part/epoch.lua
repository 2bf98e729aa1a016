-- In front of every script that changes or judges: KEYS[1] is the hash `epoch`. The
-- script runs only in a history that epoch_note has noted; else the caller has it
-- noted first and tries again. EPOCH is the Store's epoch.

local EPOCH, EPOCH_SINCE
do
  local noted = redis.call('HMGET', KEYS[1], 'number', 'replication', 'since')
  if not noted[1] or noted[2] ~= replication_id() then
    return answer('EpochUnnoted')
  end
  EPOCH, EPOCH_SINCE = noted[1], noted[3]
end
