#!lua flags=no-writes,allow-cross-slot-keys
-- Reads what is stored of a key.
--
-- KEYS  entry, claim
-- ARGV  known fence: an entry of no greater fence comes without its value; name of the fleet's beat (of
--       another slot, so no key)
-- ->    'loaded', header or nil, value or nil, 1 if there is a claim, its fence, floor, what is left
--       of the lease, status of the failure, what is left of it, its text and streak,
--       number of the last beat, 0: that is lost; for how long the lease has been held, by whom (prelude.lua)

local function beat_number(key)
	local LAYOUT = '>c8dd' -- as in beat.lua
	local stored = redis.call('GET', key)
	if not stored or #stored ~= struct.size(LAYOUT) then return 0 end
	local _, _, number = struct.unpack(LAYOUT, stored)
	return number
end

local now = now_us()
local entry, claim = entry_read(KEYS[1]), claim_read(KEYS[2], now)
local value = entry and below(ARGV[1], entry.fence) and redis.call('GETRANGE', KEYS[1], HEADER_LEN, -1)

return { 'loaded', entry and entry.header or false, value or false, claim.exists and 1 or 0,
	claim.fence, claim.floor, claim.lease_left, claim.status, claim.failed_left, claim.text,
	claim.streak, beat_number(ARGV[2]), claim.lease_left > 0 and now - claim.granted_at or 0,
	claim.holder }
