-- The keys {row, members, pending} of a Spot, from KEYS[i] on.
local function spot_keys(i)
  return { row = KEYS[i], members = KEYS[i + 1], pending = KEYS[i + 2] }
end
