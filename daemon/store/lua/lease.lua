#!lua
-- Takes the right to build a key, unless there is enough already.
--
-- KEYS  entry, claim
-- ARGV  deadline, token, length, known fence: the new fence is greater;
--       what is wanted of an entry: a fence above this or '', this version covered or '', 1: fresh
--       (nothing of it: no entry is enough); 1: single_row; era; our place, and one (0: none)
-- ->    'late'
--       'leased', floor, fence, streak               it is ours; a repeat gets the same answer
--       'enough', floor, header, value               the value only up to 16 KiB, else nil
--       'failed', floor, status, left, text, streak  a failure of the key is remembered
--       'held', floor, left                          by another, and it is noted that we wait

local deadline, token, length, known = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local fence_above, version, fresh = ARGV[5], ARGV[6], ARGV[7] == '1'
local single_row, era = ARGV[8] == '1', ARGV[9]
local VALUE_MAX, AGAIN = 16384, 1000000

local now = now_us()
if now > deadline then return { 'late' } end
local entry, claim = entry_read(KEYS[1]), claim_read(KEYS[2], now)

-- As core/entry.h has it (entry_covers): where versions order, the row's own counts.
local function covers(want)
	local by_version = single_row and bit.band(entry.flags, HAS_VERSION) ~= 0
	return not signed_below(by_version and entry.version or entry.covers, want)
end

local function is_enough()
	if not entry or not (fresh or fence_above ~= '' or version ~= '') then return false end
	if fresh and (entry.fresh_until <= now or entry.era ~= era) then return false end
	if fence_above ~= '' and not below(fence_above, entry.fence) then return false end
	return version == '' or covers(version)
end

if claim_is_ours(claim, token) then
	return { 'leased', claim.floor, claim.lease_fence, claim.streak }
end
if is_enough() then
	local small = redis.call('STRLEN', KEYS[1]) - HEADER_LEN <= VALUE_MAX
	return { 'enough', claim.floor, entry.header,
		small and redis.call('GETRANGE', KEYS[1], HEADER_LEN, -1) }
end
if claim.failed_left > 0 then
	return { 'failed', claim.floor, claim.status, claim.failed_left, claim.text, claim.streak }
end
if claim.lease_left > 0 then
	if bit.band(claim.flags, WAITED) == 0 then
		claim.flags = bit.bor(claim.flags, WAITED)
		claim_write(KEYS[2], claim, KEYS[1], now)
	end
	return { 'held', claim.floor, claim.lease_left }
end
-- What changes while it is built, again and again, is built once a second, unless somebody asks for
-- more than what there is.
if entry and bit.band(entry.flags, OVERTAKEN) ~= 0 and version == '' and
	not (fence_above ~= '' and below(entry.fence, fence_above)) then
	local left = left_of(entry.generated_at + AGAIN, AGAIN, now)
	if left > 0 then return { 'held', claim.floor, left } end
end

-- Who waited for a lease that lapsed waits for this one: WAITED stays.
claim.fence = fence_after(now, claim.fence, entry and entry.fence or ZERO, known)
claim.token, claim.lease_fence, claim.granted_at = token, claim.fence, now
claim.lease_length, claim.lease_until, claim.holder = length, now + length, tonumber(ARGV[10])
claim_write(KEYS[2], claim, KEYS[1], now)
return { 'leased', claim.floor, claim.fence, claim.streak }
