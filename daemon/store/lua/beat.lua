#!lua flags=allow-oom
-- The heartbeat of trust: one daemon of the fleet publishes it, numbered, on the channel on which
-- changes are told. Who hears an unbroken row of numbers has missed no change.
--
-- KEYS  beat
-- ARGV  deadline, token, how long the right to publish holds, channel; the number that this daemon
--       published last, or 0, and the server's history then, or ''
-- ->    'late'
--       'beat', number, the server's history (server_history): published
--       'held', left           another publishes
--
-- Where the record is lost, the row goes on if this server has published the last number that the
-- caller knows of: then it was emptied, and whoever hears the next number has missed nothing, but
-- must look what there still is. That is told with it.
--
-- The beat: u64 token, f64 end of the right, f64 number.

local deadline, token, length, channel = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local known, known_history = tonumber(ARGV[5]), ARGV[6]
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
local history, emptied = server_history(), 0
if stored then
	number = number + 1
elseif known > 0 and known_history == history then
	number, emptied = known + 1, 1
else
	-- Without a row to go on with, the numbers start at the clock: nobody may take them for the old row.
	number = now
end
redis.call('SET', KEYS[1], struct.pack(LAYOUT, token, now + length, number))
redis.call('PUBLISH', channel, struct.pack('>c1BI2', 'b', 1, emptied) .. moment_pack(number) .. moment_pack(now))
return { 'beat', number, history }
