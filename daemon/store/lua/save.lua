#!lua flags=allow-cross-slot-keys
-- Stores an entry that was built under a lease, and gives the lease back.
--
-- KEYS  entry, claim
-- ARGV  deadline, token, header, value, 1: single_row, the keyspace's stale time, channel, key,
--       names of the fleet's records of the origin's history and of the beat, or '' where there are no
--       beats (of another slot, so no keys);
--       of an entry that is given back: when the last beat was published that its daemon has heard; else
--       '';
--       where builds read a standby: xmin of this one's snapshot, name of the floors, keyspace
-- ->    'late'
--       'saved', floor             0 where it contains that change; a repeat gets the same answer
--       'early'                    given back: what was told before the lease may not have been heard;
--                                  the lease stays
--       'refused', floor, header   the lease is not ours (any more), or the entry there is newer;
--                                  the header of that entry, or nil
--       'foreign', floor, header   the same: it was built in a history that is not the fleet's
--
-- The entry there is replaced as core/entry.h has it (entry_supersedes): by one of a later history of
-- the same system, never of an earlier one; in one history by a greater version where both are rows of
-- a single_row keyspace, by the same query; where these are equal, and everywhere else, by a greater
-- fence.
-- A build that began before the last change and does not contain it may be stored, already expired, so
-- that a row that changes all the time stays served; not so "no such row", or after a hard change. A
-- build of a standby that may not have seen a change, whenever it began, counts as begun before it.
-- An entry that is given back was built under an earlier lease, and its daemon has heard of no change
-- since. What was changed before this lease it has heard by a beat that is later; what was changed after,
-- the claim knows. It says nothing of the origin's history.
-- Those are told who wait for the lease's end, and all if a near cache may have an older entry of the
-- key: one was replaced here, or was stored under this claim, or this server has evicted anything since
-- it started, or it was flushed and has not told so yet, by a beat. (When that was before, whoever listens
-- has lost its connection since, and with it trust; or looks whatever it has up.)
-- So the first save of a key stays untold, as long as Redis has room: a warm-up makes no messages.

local deadline, token, value = tonumber(ARGV[1]), ARGV[2], ARGV[4]
local single_row, stale, channel, key = ARGV[5] == '1', tonumber(ARGV[6]), ARGV[7], ARGV[8]
local history_key, beat_key, heard = ARGV[9], ARGV[10], tonumber(ARGV[11])
local snapshot, floors_key, keyspace = ARGV[12], ARGV[13], ARGV[14]

local now = now_us()
if now > deadline then return { 'late' } end
local old, claim = entry_read(KEYS[1]), claim_read(KEYS[2], now)
local new = entry_parse(ARGV[3])

local function is_row(entry)
	return bit.band(entry.flags, HAS_VERSION + ABSENT) == HAS_VERSION
end

-- A history (core/entry.h): 5 bytes for the origin's system, 3 for its timeline; all 0: unknown.
local function is_one_system(a, b) return a:sub(1, 5) == b:sub(1, 5) end
local function is_later(a, b) return is_one_system(a, b) and below(b, a) end

-- The fleet's history of the origin: 'h', format, 6 bytes 0, history, f64 when it was last built in.
-- It moves to a later timeline at once; to another system once nobody has built in it for a while,
-- so that of two hosts that name different origins one stays out, but a new database comes in.
local function is_foreign()
	local LAYOUT, SILENCE, STEP = '>c1Bc6c8d', 10000000, 1000000
	if new.history == ZERO then return false end
	local stored = redis.call('GET', history_key)
	local current, built_at = ZERO, 0
	if stored and #stored == struct.size(LAYOUT) then
		local _
		_, _, _, current, built_at = struct.unpack(LAYOUT, stored)
	end
	local moves = current ~= new.history
	if moves and current ~= ZERO and not is_later(new.history, current) and
		(is_one_system(new.history, current) or left_of(built_at + SILENCE, SILENCE, now) > 0) then
		return true
	end
	if heard then return moves and current ~= ZERO end
	if moves or left_of(built_at + STEP, STEP, now) == 0 then
		redis.call('SET', history_key,
			struct.pack(LAYOUT, 'h', 1, string.rep('\0', 6), new.history, now))
	end
	return false
end

local function supersedes()
	if not old or is_later(new.history, old.history) then return true end
	if is_later(old.history, new.history) then return false end
	local by_version = single_row and old.history == new.history and
		old.definition == new.definition and is_row(old) and is_row(new)
	if by_version and old.version ~= new.version then
		return signed_below(old.version, new.version)
	end
	return below(old.fence, new.fence)
end

local by_row = bit.band(claim.flags, BY_ROW) ~= 0
local has_change = by_row and claim.floor_version ~= ZERO and contains(new, claim.floor_version, single_row)
local behind = snapshot and (xid_hides(claim, new.history, snapshot, now) and not has_change or
	xid_hides(whole_floor_read(floors_key, keyspace), new.history, snapshot, now))
local floor = behind and new.fence or has_change and ZERO or claim.floor

local function refuse(word)
	return { word or 'refused', behind and new.fence or claim.floor, old and old.header or false }
end

local function may_be_elsewhere()
	return old or bit.band(claim.flags, STORED) ~= 0 or
		beat_key ~= '' and redis.call('EXISTS', beat_key) == 0 or
		redis.call('INFO', 'stats'):match('evicted_keys:(%d+)') ~= '0'
end

if not claim_is_ours(claim, token) then
	if old and old.fence == new.fence then return { 'saved', floor } end
	return refuse()
end
if heard and heard <= claim.granted_at then return { 'early' } end
local waited = claim_end_lease(claim)
local before_change = not below(floor, new.fence)
local foreign = is_foreign()
local keep = not foreign and supersedes()
if before_change then
	local forbidden = bit.band(new.flags, ABSENT) ~= 0 or bit.band(claim.flags, HARD) ~= 0
	keep = keep and not forbidden
	entry_soft_expire(new, now, new.generated_at + stale)
	if by_row or behind then new.flags = bit.bor(new.flags, OVERTAKEN) end
end

local tell = waited or (keep and may_be_elsewhere())
if keep then
	claim.flags = bit.bor(claim.flags, STORED)
	local left = math.max(0, new.stale_until - now)
	redis.call('SET', KEYS[1], entry_header(new) .. value, 'PX', math.ceil((left + MARGIN) / 1000))
	claim_forget_failure(claim)
end
claim_write(KEYS[2], claim, KEYS[1], now)
if tell then
	publish(channel, 's', keep and new.fence or old and old.fence or ZERO, 0, key)
end
if not keep then return refuse(foreign and 'foreign') end
return { 'saved', floor }
