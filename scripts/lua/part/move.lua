-- A move stands in the row of its source, whose epoch is the one in which the move was
-- reserved: it is over with that one. A reference to it takes ARGV[2] to ARGV[9]: id,
-- object generation, version, move, attempt, epoch, Spot, Spot of the move.

local MOVE = {
  object_gen = ARGV[3], version = ARGV[4], move = ARGV[5], attempt = ARGV[6], epoch = ARGV[7], spot = ARGV[8],
  to_spot = ARGV[9],
}

-- Why the row's move is not the one that is meant; nothing if it is.
local function move_refusal(f)
  if not f.state then
    return 'Missing'
  elseif f.object_gen ~= MOVE.object_gen then
    return 'GenerationConflict'
  elseif f.move ~= MOVE.move or f.attempt ~= MOVE.attempt then
    return 'MoveConflict'
  elseif f.version ~= MOVE.version or (f.spot or '') ~= MOVE.spot or (f.to_spot or '') ~= MOVE.to_spot then
    return 'VersionConflict'
  elseif MOVE.epoch ~= EPOCH or f.epoch ~= EPOCH then
    return 'EpochChanged'
  end
end

-- Takes the move out of the row.
local function without_move(new)
  for _, field in ipairs({ 'move', 'attempt', 'to_rid', 'to_owner', 'to_lease', 'to_mesh', 'to_until', 'to_spot',
    'to_member', 'to_members', 'to_root', 'to_count' }) do
    new[field] = nil
  end
  return new
end
