#!lua flags=allow-oom
-- Gives a lease back without a result, perhaps with a failure that holds for all.
--
-- KEYS  entry, claim
-- ARGV  deadline, token, status of the failure (0: none), its length, text and streak, channel, key
-- ->    'late'
--       'released'             also where the lease was not ours any more: then nothing is done
--
-- Those are told who wait for the lease's end.

local deadline, token, status = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local length, text, streak = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local channel, key = ARGV[7], ARGV[8]

local now = now_us()
if now > deadline then return { 'late' } end
local claim = claim_read(KEYS[2], now)

if not claim_is_ours(claim, token) then return { 'released' } end
local waited = claim_end_lease(claim)
if status ~= 0 and length > 0 then
	claim.status, claim.text, claim.streak = status, text, streak
	claim.failed_length, claim.failed_until = length, now + length
end
claim_write(KEYS[2], claim, KEYS[1], now)
if waited then
	local entry = entry_read(KEYS[1])
	publish(channel, 's', entry and entry.fence or ZERO, 0, key)
end
return { 'released' }
