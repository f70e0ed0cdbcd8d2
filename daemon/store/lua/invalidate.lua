#!lua flags=allow-oom
-- Ends the freshness of a key: a new fence becomes its floor.
--
-- KEYS  entry, claim
-- ARGV  deadline, known fence: the floor is greater; the keyspace's stale time, 1: hard, channel, key
-- ->    'late'
--       'changed', floor
--
-- What is stored, and every build that began before, is fresh no more, and stale for at most the
-- stale time; after a hard change not even that. A remembered failure is forgotten: the change may
-- have mended it. All are told.

local deadline, known, stale = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local hard, channel, key = ARGV[4] == '1', ARGV[5], ARGV[6]

local now = now_us()
if now > deadline then return { 'late' } end
local entry, claim = entry_read(KEYS[1]), claim_read(KEYS[2], now)

if entry then
	-- A hard change ends both at once: so it is known as one also by who goes by another clock.
	entry_soft_expire(entry, now, hard and math.min(now, entry.fresh_until) or now + stale)
	redis.call('SETRANGE', KEYS[1], 0, entry_header(entry))
end
-- A build that was under way at a hard change stays forbidden when a soft one follows.
local under_hard = bit.band(claim.flags, HARD) ~= 0 and claim.lease_left > 0 and
	not below(claim.floor, claim.lease_fence)
claim.fence = fence_after(now, claim.fence, entry and entry.fence or ZERO, known)
claim.floor = claim.fence
claim.flags = bit.band(claim.flags, bit.bnot(HARD + BY_ROW)) + ((hard or under_hard) and HARD or 0)
claim_forget_failure(claim)
claim_write(KEYS[2], claim, KEYS[1], now)
publish(channel, 'c', claim.floor, hard and 1 or 0, key)
return { 'changed', claim.floor }
