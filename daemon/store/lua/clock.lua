#!lua flags=allow-oom
-- The server's time, and the era: a number that changes when that clock jumps.
--
-- KEYS  era, places
-- ARGV  era that the caller lives in, 0: none yet; what the clock jumped by, '': it didn't;
--       token of the caller, how long a heartbeat holds
-- ->    seconds, microseconds, era, when it began, what the clock jumped by then
--
-- Of several live daemons two must have seen the jump: what one alone sees is its own clock's.
-- The era: u32 number, f64 when it began, f64 jump, u64 token of who saw a jump, f64 when.

local known, jump, token, heartbeat = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local LAYOUT, WITNESS_US = '>I4ddc8d', 10000000

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local stored = redis.call('GET', KEYS[1])
local era, since, jumped, witness, seen_at = 0, 0, 0, ZERO, 0
if stored and #stored == struct.size(LAYOUT) then
	era, since, jumped, witness, seen_at = struct.unpack(LAYOUT, stored)
end

local function write()
	redis.call('SET', KEYS[1], struct.pack(LAYOUT, era, since, jumped, witness, seen_at))
end

if era == 0 or known > era then
	-- Flushed, failed over to one who had not heard of it yet, or the first time of all: who is here
	-- says what era it is.
	era, since, jumped = math.max(known, 1), now, 0
	write()
end
if jump ~= '' and known == era then
	-- Heartbeats may still be by the clock before the jump.
	local live = math.max(places_live(KEYS[2], now, heartbeat),
		places_live(KEYS[2], now - tonumber(jump), heartbeat))
	local seen = witness ~= ZERO and witness ~= token and
		left_of(seen_at + WITNESS_US, WITNESS_US, now) > 0
	if seen or live <= 1 then
		era, since, jumped, witness, seen_at = era + 1, now, tonumber(jump), ZERO, 0
	else
		witness, seen_at = token, now
	end
	write()
end
return { time[1], time[2], era, since, jumped }
