#!lua flags=allow-oom
-- A daemon's heartbeat: keeps its place in the fleet, or finds it one.
--
-- KEYS  places, their holders, permits
-- ARGV  deadline, place or -1, token: random, of this process; token of the process before it, or '';
--       fleet, how long a heartbeat holds
-- ->    'late'
--       'placed', place, 1 if it was held until now by the process before
--       'full'                 all places are held by others
--
-- A place is given to who holds it, to the successor of who held it, and to anybody once its
-- heartbeat has ended; but first those are given that nobody had yet, since who was cut off still
-- builds on its place's own share. The places are a sorted set by the end of their heartbeats.

local deadline, place, token, before = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local fleet, heartbeat = tonumber(ARGV[5]), tonumber(ARGV[6])

local now = now_us()
if now > deadline then return { 'late' } end

local function is_live(at)
	local until_us = redis.call('ZSCORE', KEYS[1], at)
	return until_us and left_of(tonumber(until_us), heartbeat, now) > 0
end

local function may_have(at)
	local holder = redis.call('HGET', KEYS[2], at)
	return not holder or holder == token or holder == before or not is_live(at)
end

local function find()
	if redis.call('ZCARD', KEYS[1]) < fleet then
		for at = 0, fleet - 1 do
			if not redis.call('ZSCORE', KEYS[1], at) then return at end
		end
	end
	for at = 0, fleet - 1 do
		if not is_live(at) then return at end
	end
	return -1
end

if place < 0 or place >= fleet or not may_have(place) then place = find() end
if place < 0 then return { 'full' } end
local succeeds = before ~= '' and redis.call('HGET', KEYS[2], place) == before
redis.call('ZADD', KEYS[1], now + heartbeat, place)
redis.call('HSET', KEYS[2], place, token)

-- The first daemon of a fleet, or after a flush, lets the bucket's first second begin.
local permits = permits_read(KEYS[3])
if not permits.next_at then
	permits.next_at = now + 1000000
	permits_write(KEYS[3], permits)
end
return { 'placed', place, succeeds and 1 or 0 }
