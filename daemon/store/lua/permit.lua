#!lua flags=allow-oom
-- Takes a token of the fleet's rate and a slot of its concurrency.
--
-- KEYS  permits, places, pace
-- ARGV  deadline, when this was sent, token, place, instance, length: the slot ends by itself so long
--       after the start; reach: how far ahead the start may be; 1: background;
--       concurrency, permits a second for the whole fleet, fleet, how long a heartbeat holds,
--       interval of the pace; 0: there is none
-- ->    'late'
--       'granted', live, slot, start: so long after it was sent; a repeat gets the same answer
--       'retry', live, left, spread: ask again after `left` and a random part of `spread`
--
-- The rate is GCRA without burst (ITU-T I.371). Rate and slots are given out in the part that the
-- live places have of the fleet: the others may be building on their own share. Background work
-- takes what is free now, and at most half of the slots. Where the bucket is missing, absurdly far
-- ahead, or from before a restart or failover of the server, nobody knows what was given out: it
-- starts in a second. Nor are the slots of before such a restart known: all are free, and one that is
-- in use still is held by its lock at the origin. Which of the free is given is left to chance, by the
-- token: so a few that are held there without our knowing do not stop all.
--
-- A pace is a rate of its own that a warm-up keeps to, whatever the budget leaves: f64, when its next
-- start may be. A few that came late are made up for.
--
-- The permits: u8 'p', u8 format, 6 bytes of the server's history (prelude.lua), f64 when the next
-- start may be; then a record for each slot: f64 start, f64 end, u64 token, u32 instance, u16 place,
-- u8 background, u8 0.

local deadline, sent_at, token = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local place, instance = tonumber(ARGV[4]), tonumber(ARGV[5])
local length, reach, background = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
local concurrency, rate, fleet = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local heartbeat, pace = tonumber(ARGV[12]), tonumber(ARGV[13])
local REACH_MAX, SPREAD_MAX = 200000, 100000
local PACE_BURST, PACE_SPREAD, PACE_KEPT = 200000, 2000000, 120000

local now = now_us()
if now > deadline then return { 'late' } end
local permits = permits_read(KEYS[1])
local live, interval = permits_share(KEYS[2], now, heartbeat, fleet, rate)
local slots_max = math.max(1, math.floor(concurrency * live / fleet))
local spread = math.min(interval * live, SPREAD_MAX)

local first = struct.unpack('>I4', token, 5) % concurrency
local free, nearest, in_use, in_background = nil, concurrency, 0, 0
for slot = 0, math.max(permits.slots, concurrency) - 1 do
	local start, until_us, holder, _, _, behind = slot_at(permits, slot)
	if until_us <= now or start > now + PERMITS_BEGIN then
		local distance = (slot - first) % concurrency
		if slot < concurrency and distance < nearest then free, nearest = slot, distance end
	elseif holder == token then
		return { 'granted', live, slot, start - sent_at }
	else
		in_use, in_background = in_use + 1, in_background + behind
	end
end

local begins = permits_begin_unless_known(permits, now)
if not begins and permits.next_at > now + PERMITS_BEGIN + REACH_MAX + interval then
	permits.next_at, begins = now + PERMITS_BEGIN, true
end
if begins then permits_write(KEYS[1], permits) end
local start = math.max(permits.next_at, now)
local paced = 0
if pace > 0 then
	local stored = redis.call('GET', KEYS[3])
	paced = stored and #stored == 8 and struct.unpack('>d', stored) or 0
	if paced > now + pace then paced = now end
	paced = math.max(paced, now - math.min(2 * pace, PACE_BURST))
end
if start - now > reach then return { 'retry', live, start - now - reach, spread } end
if not free or in_use >= slots_max or
	(background and in_background >= math.max(1, math.floor(slots_max / 2))) then
	return { 'retry', live, math.ceil(spread / 2), spread }
end

if paced > now then
	return { 'retry', live, paced - now, math.min(pace * live, PACE_SPREAD) }
end
if pace > 0 then
	redis.call('SET', KEYS[3], struct.pack('>d', paced + pace), 'PX', PACE_KEPT)
end

permits.next_at = start + interval
slot_put(permits, free, start, start + length, token, instance, place, background and 1 or 0)
permits_write(KEYS[1], permits)
return { 'granted', live, free, start - sent_at }
