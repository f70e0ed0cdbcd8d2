#!lua flags=allow-oom
-- Lengthens a lease that is still ours, up to a hard end.
--
-- KEYS  entry, claim
-- ARGV  deadline, token, length from now, longest time since the lease was given
-- ->    'late'
--       'renewed', floor
--       'refused', floor       lapsed, another's, gone, or at its hard end

local deadline, token = tonumber(ARGV[1]), ARGV[2]
local length, longest = tonumber(ARGV[3]), tonumber(ARGV[4])

local now = now_us()
if now > deadline then return { 'late' } end
local claim = claim_read(KEYS[2], now)

length = math.min(length, claim.granted_at + longest - now)
if not claim_is_ours(claim, token) or length <= 0 then return { 'refused', claim.floor } end
claim.lease_length, claim.lease_until = length, now + length
claim_write(KEYS[2], claim, KEYS[1], now)
return { 'renewed', claim.floor }
