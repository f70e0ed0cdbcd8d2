#!lua flags=allow-oom
-- Gives slots back: one by its token, or all that a predecessor of this daemon held.
--
-- KEYS  permits
-- ARGV  'token', token, slot or -1 where it is not known
--       'place', place, instance: frees those of this place that another instance took
-- ->    'freed', how many

local now = now_us()
local permits = permits_read(KEYS[1])
local freed = 0

for slot = 0, permits.slots - 1 do
	local _, until_us, token, instance, place = slot_at(permits, slot)
	local ours
	if ARGV[1] == 'token' then
		ours = token == ARGV[2] and (ARGV[3] == '-1' or tonumber(ARGV[3]) == slot)
	else
		ours = place == tonumber(ARGV[2]) and instance ~= tonumber(ARGV[3])
	end
	if ours and until_us > 0 then
		slot_put(permits, slot, 0, 0, ZERO, 0, 0, 0)
		freed = freed + 1
	end
end
if freed > 0 then permits_write(KEYS[1], permits) end
return { 'freed', freed }
