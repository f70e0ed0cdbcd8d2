#!lua flags=allow-oom
-- A daemon's heartbeat: keeps its place in the fleet, or finds it one.
--
-- KEYS  places, their holders, permits
-- ARGV  deadline, place or -1, token: random, of this process; token of the process before it, or '';
--       fleet, how long a heartbeat holds, permits a second for the whole fleet,
--       1: it used its own share of them less than a second ago
-- ->    'late'
--       'placed', place, 1 if it was held until now by the process before
--       'full'                 all places are held by others
--
-- A place is given to who holds it, to the successor of who held it, and to anybody once its
-- heartbeat has ended; but first those are given that nobody had yet, since who was cut off still
-- builds on its place's own share. What that was at last comes out of the fleet's rate when it is
-- counted among the live again. The places are a sorted set by the end of their heartbeats.

local deadline, place, token, before = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local fleet, heartbeat, rate = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local owes = ARGV[8] == '1'

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
local was_live = is_live(place)
local returns = not was_live and (owes or redis.call('ZSCORE', KEYS[1], place))
redis.call('ZADD', KEYS[1], now + heartbeat, place)
redis.call('HSET', KEYS[2], place, token)

-- The first daemon after a flush or failover, and of a new fleet, lets the bucket's first second begin.
local permits = permits_read(KEYS[3])
local begins = permits_begin_unless_known(permits, now)
if returns and not begins then
	local _, interval = permits_share(KEYS[1], now, heartbeat, fleet, rate)
	local paid_at = math.min(math.max(permits.next_at, now) + interval, now + PERMITS_BEGIN)
	permits.next_at = math.max(permits.next_at, paid_at)
end
if begins or returns then permits_write(KEYS[3], permits) end
return { 'placed', place, succeeds and 1 or 0 }
