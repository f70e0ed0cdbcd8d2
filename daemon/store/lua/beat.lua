#!lua flags=allow-oom
-- The heartbeat of trust: one daemon of the fleet publishes it, numbered, on the channel on which
-- changes are told. Who hears an unbroken row of numbers has missed no change.
--
-- KEYS  beat
-- ARGV  deadline, token, how long the right to publish holds, channel
-- ->    'late'
--       'beat', number         published
--       'held', left           another publishes
--
-- The beat: u64 token, f64 end of the right, f64 number.

local deadline, token, length, channel = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local LAYOUT = '>c8dd'

local now = now_us()
if now > deadline then return { 'late' } end
local stored = redis.call('GET', KEYS[1])
local holder, until_us, number = ZERO, 0, 0
if stored and #stored == struct.size(LAYOUT) then
	holder, until_us, number = struct.unpack(LAYOUT, stored)
end

local left = left_of(until_us, length, now)
if left > 0 and holder ~= token then return { 'held', left } end
-- Without a row to go on with, the numbers start at the clock: nobody may take them for the old row.
number = stored and number + 1 or now
redis.call('SET', KEYS[1], struct.pack(LAYOUT, token, now + length, number))
redis.call('PUBLISH', channel, struct.pack('>c1BI2', 'b', 1, 0) .. moment_pack(number) .. moment_pack(now))
return { 'beat', number }
