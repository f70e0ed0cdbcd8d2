#!lua flags=allow-oom
-- Applies changes of the origin's log, for who has the right to read it; up to 1,000 in one step.
--
-- KEYS  feed, epochs, floors
-- ARGV  deadline, token, how long the right holds from now; the position, and what it becomes or '';
--       prefix, channel, and the changes, one after the other:
--         u8 flags: 1 hard, 2 the version tells, 4 single_row, 8 all keys of the keyspace
--         i64 version of the row, f64 the keyspace's stale time (8: the epoch's spread),
--         u64 transaction, u32 length, key
--       how long builds of a standby are held to these changes, 0: builds read none; the origin's history
-- ->    'late'
--       'refused', position    the right is another's, or the position is another
--       'applied', how many entries and leases were touched
--
-- As invalidate.lua does, but an entry that contains the change stays as it is, and where there is
-- neither an entry nor a lease nothing is written: who builds next sees the change; but not if it reads
-- a standby, so there all changes are noted. All are told of all keys: a daemon may have what the store
-- has lost.

local deadline, token, length = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local from, to, prefix, channel, changes = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local keep, history = tonumber(ARGV[9]), ARGV[10]
local CHANGE, IS_HARD, TELLS, SINGLE_ROW, WHOLE = '>Bc8dc8I4', 1, 2, 4, 8
local BRACES = { ['{'] = '%7B', ['}'] = '%7D' }

local now = now_us()
if now > deadline then return { 'late' } end
local feed = feed_read(KEYS[1], now)
if feed.left == 0 or feed.token ~= token or feed.position ~= from then
	return { 'refused', feed.position }
end

local told, told_count, touched = {}, 0, 0

-- The floor that a held lease has already, of an earlier change, and this one: what contains both.
local function note_floor(claim, floor, flags, version)
	local before = bit.band(claim.flags, BY_ROW) ~= 0 and claim.floor_version or ZERO
	if bit.band(flags, TELLS) == 0 then version = ZERO end
	if not below(claim.floor, claim.lease_fence) and claim.lease_left > 0 then
		if bit.band(flags, SINGLE_ROW) == 0 and before ~= version then
			version = ZERO
		elseif before == ZERO or signed_below(version, before) then
			version = before
		end
	end
	claim.floor, claim.floor_version = floor, version
	claim.flags = bit.bor(claim.flags, BY_ROW)
end

local function apply(key, flags, version, stale, xid)
	local tag = '{' .. key:gsub('[{}]', BRACES) .. '}'
	local entry_key, claim_key = prefix .. 'e:' .. tag, prefix .. 'c:' .. tag
	local entry, claim = entry_read(entry_key), claim_read(claim_key, now)
	local hard, tells = bit.band(flags, IS_HARD) ~= 0, bit.band(flags, TELLS) ~= 0
	local floor = fence_after(now, claim.fence, entry and entry.fence or ZERO)
	local has = entry and tells and contains(entry, version, bit.band(flags, SINGLE_ROW) ~= 0)

	if entry and not has then
		entry_soft_expire(entry, now, hard and now or now + stale)
		redis.call('SETRANGE', entry_key, 0, entry_header(entry))
	end
	if keep > 0 then xid_note(claim, xid, history, keep, now) end
	if keep > 0 or claim.lease_left > 0 or claim.failed_left > 0 or (entry and not has) then
		local under_hard = bit.band(claim.flags, HARD) ~= 0 and claim.lease_left > 0 and
			not below(claim.floor, claim.lease_fence)
		note_floor(claim, floor, flags, version)
		claim.flags = bit.band(claim.flags, bit.bnot(HARD)) + ((hard or under_hard) and HARD or 0)
		claim.fence = floor
		claim_forget_failure(claim)
		claim_write(claim_key, claim, entry_key, now)
		touched = touched + 1
	end
	told_count = told_count + 1
	told[told_count] = struct.pack('>c8Bc8I4', floor, (hard and 1 or 0) + (tells and 2 or 0), version, #key) .. key
end

local function expire(keyspace, spread, xid)
	if keep > 0 then
		local floor = whole_floor_read(KEYS[3], keyspace)
		xid_note(floor, xid, history, keep, now)
		whole_floor_write(KEYS[3], keyspace, floor)
	end
	local epochs, moment = epochs_read(KEYS[2], keyspace), now
	while not epochs_add(epochs, moment, spread) do moment = moment + 1 end
	epochs_write(KEYS[2], keyspace, epochs)
	redis.call('PUBLISH', channel, struct.pack('>c1BI2', 'e', 1, 1) .. moment_pack(moment) ..
		moment_pack(spread) .. struct.pack('>I4', #keyspace) .. keyspace)
	touched = touched + 1
end

local at = 1
while at <= #changes do
	local flags, version, stale, xid, len, after = struct.unpack(CHANGE, changes, at)
	local key = changes:sub(after, after + len - 1)
	at = after + len
	if bit.band(flags, WHOLE) ~= 0 then
		expire(key, stale, xid)
	else
		apply(key, flags, version, stale, xid)
	end
end
if told_count > 0 then
	redis.call('PUBLISH', channel, struct.pack('>c1BI2', 'v', 1, told_count) .. table.concat(told))
end
feed_write(KEYS[1], token, now + length, length, to ~= '' and to or feed.position)
return { 'applied', touched }
