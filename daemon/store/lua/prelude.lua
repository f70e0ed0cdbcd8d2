-- What the scripts share; it is put before each of them.
--
-- A key has two strings in one Cluster slot: its entry (the header of record.h, then the value) and
-- its claim (below). A script answers a list whose first item is a word; all times in answers are
-- lengths in µs. A script that takes something is given a deadline, a moment of this server's clock,
-- and does nothing after it ('late'): a paused server runs on resume what clients have long given up.
--
-- Numbers of 64 bits (versions, fences, tokens) stay strings of 8 bytes, high byte first, and are
-- compared by halves: a Lua number has 53 bits, and `<` on strings follows the server's locale.
-- Moments are Lua numbers, in µs: they stay under 2^53 until the year 2255.
--
-- The claim, high bytes first:
--    0 u8   'c'
--    1 u8   format, 4
--    2 u16  flags: 1 somebody waits for the lease's end, 2 the floor is hard, 4 it is a row's change,
--           8 an entry was stored
--    4 u16  place of the daemon that was given the lease, and one; 0: it had none
--    6 u16  status of the remembered failure, 0: none
--    8 u64  fence: the greatest given out for the key
--   16 u64  floor: the fence of the last change, 0: none
--   24 u64  token of the lease
--   32 u64  fence of the lease
--   40 f64  when the lease was given
--   48 f64  length of the lease since it was given or renewed
--   56 f64  when the lease ends, 0: there is none
--   64 f64  length of the failure
--   72 f64  when the failure is forgotten
--   80 u32  streak: failed builds in a row; known for as long again as the failure was
--   84 i64  its version: an entry that has it contains the change; 0: none tells
--   92 u64  its transaction, where builds read a standby: one has seen it only if that is below the
--           xmin of its snapshot; 0: fences tell
--  100 u64  the origin's history in which that counts
--  108 f64  for how long, since the change; 116 f64 until when
--  124 ...  text of the failure

local CLAIM = '>c1BI2I2I2c8c8c8c8dddddI4c8c8c8dd'
local CLAIM_LEN, HEADER_LEN, MARGIN = 124, 80, 10000000
local WAITED, HARD, BY_ROW, STORED = 1, 2, 4, 8
local HAS_VERSION, ABSENT, CHANGED, OVERTAKEN = 1, 2, 4, 32
local ZERO = string.rep('\0', 8)

local function now_us()
	local time = redis.call('TIME')
	return time[1] * 1000000 + time[2]
end

-- a < b, unsigned.
local function below(a, b)
	local ah, al = struct.unpack('>I4I4', a)
	local bh, bl = struct.unpack('>I4I4', b)
	return ah < bh or (ah == bh and al < bl)
end

-- a < b, signed: with the sign bits flipped, as if unsigned.
local function signed_below(a, b)
	local ah, al = struct.unpack('>I4I4', a)
	local bh, bl = struct.unpack('>I4I4', b)
	ah, bh = (ah + 2147483648) % 4294967296, (bh + 2147483648) % 4294967296
	return ah < bh or (ah == bh and al < bl)
end

-- A moment as 8 bytes, and back.
local function moment_pack(us)
	return struct.pack('>i4I4', math.floor(us / 4294967296), us % 4294967296)
end

local function moment_at(bytes, at)
	local high, low = struct.unpack('>i4I4', bytes, at)
	return high * 4294967296 + low
end

-- One more than all of them, and than the clock had a µs ago: neither a flush nor a slow clock
-- starts a key's fences anew.
local function fence_after(now, ...)
	local fence = moment_pack(now - 1)
	for _, other in ipairs({ ... }) do
		if below(fence, other) then fence = other end
	end
	local high, low = struct.unpack('>I4I4', fence)
	low = low + 1
	if low == 4294967296 then high, low = high + 1, 0 end
	return struct.pack('>I4I4', high, low)
end

-- What is left of something that ends at `until_us` and is at most `length` long. Where more than
-- that is left, the clock has jumped back since: it counts as over.
local function left_of(until_us, length, now)
	local left = until_us - now
	if left <= 0 or left > length then return 0 end
	return left
end

-- What a header says, or nil where it is none.
local function entry_parse(header)
	if #header < HEADER_LEN or header:sub(1, 2) ~= 'e\2' then return nil end
	return {
		header = header, flags = struct.unpack('>I2', header, 3), version = header:sub(9, 16),
		fence = header:sub(17, 24), covers = header:sub(25, 32),
		generated_at = moment_at(header, 33), fresh_until = moment_at(header, 41),
		stale_until = moment_at(header, 49), history = header:sub(57, 64), era = header:sub(65, 68),
		definition = header:sub(69, 76),
	}
end

-- The entry at `key` but for its value, or nil.
local function entry_read(key)
	return entry_parse(redis.call('GETRANGE', key, 0, HEADER_LEN - 1))
end

-- The header with its flags and moments as they are in `entry` now.
local function entry_header(entry)
	local h = entry.header
	return h:sub(1, 2) .. struct.pack('>I2', entry.flags) .. h:sub(5, 40) ..
		moment_pack(entry.fresh_until) .. moment_pack(entry.stale_until) .. h:sub(57)
end

-- Ends the freshness of `entry` at `at`; stale replies end no later than `stale_until`, which may be
-- earlier: then freshness has ended there.
local function entry_soft_expire(entry, at, stale_until)
	entry.flags = bit.bor(entry.flags, CHANGED)
	entry.stale_until = math.min(entry.stale_until, stale_until)
	entry.fresh_until = math.min(entry.fresh_until, at, entry.stale_until)
end

-- Whether the entry surely contains a row's change: it has seen that version of the row, or, where
-- versions order, a later one.
local function contains(entry, version, single_row)
	if bit.band(entry.flags, HAS_VERSION + ABSENT) ~= HAS_VERSION then return false end
	return entry.version == version or (single_row and signed_below(version, entry.version))
end

-- The claim at `key`; an empty one where there is none. `lease_left`, `failed_left`: 0 if over.
local function claim_read(key, now)
	local bytes = redis.call('GET', key)
	local c = { exists = false, flags = 0, holder = 0, status = 0, fence = ZERO, floor = ZERO, token = ZERO,
		lease_fence = ZERO, granted_at = 0, lease_length = 0, lease_until = 0,
		failed_length = 0, failed_until = 0, streak = 0, floor_version = ZERO, text = '',
		xid = ZERO, xid_history = ZERO, xid_length = 0, xid_until = 0,
		lease_left = 0, failed_left = 0 }
	if not bytes or #bytes < CLAIM_LEN or bytes:sub(1, 2) ~= 'c\4' then return c end
	local _
	_, _, c.flags, c.holder, c.status, c.fence, c.floor, c.token, c.lease_fence, c.granted_at,
		c.lease_length, c.lease_until, c.failed_length, c.failed_until, c.streak,
		c.floor_version, c.xid, c.xid_history, c.xid_length, c.xid_until = struct.unpack(CLAIM, bytes)
	c.exists = true
	c.text = bytes:sub(CLAIM_LEN + 1)
	c.lease_left = left_of(c.lease_until, c.lease_length, now)
	c.failed_left = left_of(c.failed_until, c.failed_length, now)
	if left_of(c.failed_until + c.failed_length, 2 * c.failed_length, now) == 0 then c.streak = 0 end
	return c
end

-- Stores the claim for as long as any of it, or the entry, matters.
local function claim_write(key, c, entry_key, now)
	local left = math.max(left_of(c.lease_until, c.lease_length, now),
		left_of(c.failed_until + c.failed_length, 2 * c.failed_length, now),
		left_of(c.xid_until, c.xid_length, now), redis.call('PTTL', entry_key) * 1000)
	redis.call('SET', key, struct.pack(CLAIM, 'c', 4, c.flags, c.holder, c.status, c.fence, c.floor, c.token,
		c.lease_fence, c.granted_at, c.lease_length, c.lease_until, c.failed_length,
		c.failed_until, c.streak, c.floor_version, c.xid, c.xid_history, c.xid_length,
		c.xid_until) .. c.text, 'PX', math.ceil((left + MARGIN) / 1000))
end

-- A change that builds of a standby are held to, of a key (in its claim) or of a whole keyspace: this
-- one, or an earlier one of a later transaction.
local function xid_note(c, xid, history, length, now)
	local counts = c.xid_history == history and left_of(c.xid_until, c.xid_length, now) > 0
	if not counts or below(c.xid, xid) then c.xid = xid end
	c.xid_history, c.xid_length, c.xid_until = history, length, now + length
end

-- Whether a build of that history, whose snapshot has this xmin, may not have seen it.
local function xid_hides(c, history, xmin, now)
	return c.xid ~= ZERO and c.xid_history == history and
		left_of(c.xid_until, c.xid_length, now) > 0 and not below(c.xid, xmin)
end

local FLOOR = '>c8c8dd'

local function whole_floor_read(key, keyspace)
	local c = { xid = ZERO, xid_history = ZERO, xid_length = 0, xid_until = 0 }
	local bytes = redis.call('HGET', key, keyspace)
	if bytes and #bytes == struct.size(FLOOR) then
		c.xid, c.xid_history, c.xid_length, c.xid_until = struct.unpack(FLOOR, bytes)
	end
	return c
end

local function whole_floor_write(key, keyspace, c)
	redis.call('HSET', key, keyspace,
		struct.pack(FLOOR, c.xid, c.xid_history, c.xid_length, c.xid_until))
end

local function claim_is_ours(c, token)
	return c.lease_left > 0 and c.token == token
end

-- The lease is over; true if somebody waits for that.
local function claim_end_lease(c)
	local waited = bit.band(c.flags, WAITED) ~= 0
	c.flags = bit.band(c.flags, bit.bnot(WAITED))
	c.token, c.lease_until, c.lease_left = ZERO, 0, 0
	return waited
end

local function claim_forget_failure(c)
	c.status, c.failed_length, c.failed_until, c.failed_left, c.streak, c.text = 0, 0, 0, 0, 0, ''
end

-- Tells the fleet about one key (messages.h).
local function publish(channel, kind, fence, hard, key)
	redis.call('PUBLISH', channel,
		struct.pack('>c1BI2c8BI4', kind, 1, 1, fence, hard, #key) .. key)
end

-- How many heartbeats hold at that moment, of those that are no longer than they can be.
local function places_live(key, at, heartbeat)
	return redis.call('ZCOUNT', key, string.format('(%.0f', at), string.format('%.0f', at + heartbeat))
end

-- The fleet's permits (permit.lua has the layout); `next_at` 0 where there is no record.
local PERMITS, PERMITS_LEN, SLOT, SLOT_LEN = '>c1Bc6d', 16, '>ddc8I4I2BB', 32
local PERMITS_BEGIN = 1000000

local function permits_read(key)
	local bytes = redis.call('GET', key)
	if not bytes or #bytes < PERMITS_LEN or bytes:sub(1, 2) ~= 'p\1' then
		return { bytes = '', slots = 0, next_at = 0, history = '', changed = {} }
	end
	local _, _, history, next_at = struct.unpack(PERMITS, bytes)
	return { bytes = bytes, slots = math.floor((#bytes - PERMITS_LEN) / SLOT_LEN), next_at = next_at,
		history = history, changed = {} }
end

-- Six bytes that stand for what this server has taken since it became the one that is written to:
-- others after a restart, and on a replica that has become the primary. Where a record has others,
-- it comes from a snapshot or over replication, and what came after that is forgotten.
local function server_history()
	local id = redis.call('INFO', 'replication'):match('master_replid:(%x+)')
	return (id:sub(1, 12):gsub('%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end

-- Where nobody knows what was given out in the last second, the rate starts in a second, with all
-- slots free: those of such a record may have been given back since, and would stay taken until a build
-- surely had ended. True if so.
local function permits_begin_unless_known(permits, now)
	local history = server_history()
	if permits.history == history then return false end
	permits.history, permits.next_at = history, now + PERMITS_BEGIN
	permits.bytes, permits.slots, permits.changed = '', 0, {}
	return true
end

-- How many live daemons the rate and the slots are for, and what is between two permits.
local function permits_share(places, now, heartbeat, fleet, rate)
	local live = math.max(1, math.min(places_live(places, now, heartbeat), fleet))
	return live, math.ceil(1e6 * fleet / (rate * live))
end

-- start, end, token, instance, place, background.
local function slot_at(permits, slot)
	if slot >= permits.slots then return 0, 0, ZERO, 0, 0, 0 end
	return struct.unpack(SLOT, permits.bytes, PERMITS_LEN + slot * SLOT_LEN + 1)
end

local function slot_put(permits, slot, start, until_us, token, instance, place, background)
	permits.changed[slot] = struct.pack(SLOT, start, until_us, token, instance, place, background, 0)
end

local function permits_write(key, permits)
	if permits.bytes == '' then redis.call('DEL', key) end
	redis.call('SETRANGE', key, 0, struct.pack(PERMITS, 'p', 1, permits.history, permits.next_at))
	for slot, record in pairs(permits.changed) do
		redis.call('SETRANGE', key, PERMITS_LEN + slot * SLOT_LEN, record)
	end
end

-- The epochs of a keyspace, by moment: each ends the freshness of what was generated before it, spread
-- over a time. They lie in a hash: for each keyspace, f64 moment and f64 spread one after the other.
local EPOCHS_MAX, EPOCH, EPOCH_LEN = 8, '>dd', 16

local function epochs_read(key, keyspace)
	local bytes, epochs = redis.call('HGET', key, keyspace) or '', {}
	for at = 1, #bytes - EPOCH_LEN + 1, EPOCH_LEN do
		local moment, spread = struct.unpack(EPOCH, bytes, at)
		epochs[#epochs + 1] = { moment = moment, spread = spread }
	end
	return epochs
end

-- False if it is there. Of too many the oldest goes: the next, without a spread, does its work.
local function epochs_add(epochs, moment, spread)
	local at = #epochs + 1
	while at > 1 and epochs[at - 1].moment >= moment do
		at = at - 1
		if epochs[at].moment == moment then return false end
	end
	table.insert(epochs, at, { moment = moment, spread = spread })
	if #epochs > EPOCHS_MAX then
		table.remove(epochs, 1)
		epochs[1].spread = 0
	end
	return true
end

local function epochs_write(key, keyspace, epochs)
	local bytes = {}
	for i, epoch in ipairs(epochs) do bytes[i] = struct.pack(EPOCH, epoch.moment, epoch.spread) end
	redis.call('HSET', key, keyspace, table.concat(bytes))
end

-- Who reads the origin's log of changes for the fleet, and how far it has been applied (follow.lua).
local FEED, FEED_LEN = '>c1Bc8dd', 26

local function feed_read(key, now)
	local bytes = redis.call('GET', key)
	if not bytes or #bytes < FEED_LEN or bytes:sub(1, 2) ~= 'f\1' then
		return { exists = false, token = ZERO, left = 0, position = '' }
	end
	local _, _, token, until_us, length = struct.unpack(FEED, bytes)
	return { exists = true, token = token, left = left_of(until_us, length, now),
		position = bytes:sub(FEED_LEN + 1) }
end

local function feed_write(key, token, until_us, length, position)
	redis.call('SET', key, struct.pack(FEED, 'f', 1, token, until_us, length) .. position)
end

-- A warm-up's job (job_open.lua has the layout), or nil.
local JOB_KEPT, JOB_ENDED_KEPT = 7 * 86400000, 86400000

local function job_read(key)
	local fields = redis.call('HMGET', key, 'id', 'state', 'interval', 'spec', 'began', 'ended', 'why', 'keys',
		'total', 'all', 'fed', 'low', 'next', 'spooler', 'spool_until', 'spool_length', 'fresh', 'built',
		'failed', 'failures', 'failures_count', 'spool')
	if not fields[1] or not fields[2] then return nil end
	local function number(i) return tonumber(fields[i] or nil) or 0 end
	return { id = fields[1], state = fields[2], interval = number(3), spec = fields[4] or '', began = number(5),
		ended = number(6), why = fields[7] or '', keys = number(8), total = number(9), all = number(10),
		fed = number(11), low = number(12), next = number(13), spooler = fields[14] or ZERO,
		spool_until = number(15), spool_length = number(16), fresh = number(17), built = number(18),
		failed = number(19), failures = fields[20] or '', failures_count = number(21),
		spool = fields[22] or ZERO }
end

local function job_drop_chunks(key, job)
	for at = job.low, job.next - 1 do redis.call('HDEL', key, 'c:' .. at, 'l:' .. at) end
end

local function job_end(jobs_key, key, name, job, state, why, now)
	job_drop_chunks(key, job)
	job.state, job.why, job.ended, job.low = state, why, now, job.next
	redis.call('HSET', key, 'state', state, 'why', why, 'ended', string.format('%.0f', now), 'low', job.low)
	redis.call('PEXPIRE', key, JOB_ENDED_KEPT)
	if redis.call('HGET', jobs_key, name) == job.id then redis.call('HDEL', jobs_key, name) end
end

-- What is told of a job, behind the reply's own words: id, state, interval, spec, keys, total, all, fresh,
-- built, failed, how long it has run, why it failed.
local function job_reply(job, now, reply)
	local ended = job.ended > 0 and job.ended or now
	for _, item in ipairs({ job.id, job.state, job.interval, job.spec, job.keys, job.total, job.all, job.fresh,
		job.built, job.failed, math.max(0, ended - job.began), job.why }) do
		reply[#reply + 1] = item
	end
	return reply
end

-- The claim of a job's chunk, or nil.
local JOB_CLAIM = '>c8ddddd'

local function claim_of(key, seq)
	local bytes = redis.call('HGET', key, 'l:' .. seq)
	if not bytes or #bytes ~= struct.size(JOB_CLAIM) then return nil end
	local claim = {}
	claim.token, claim.until_us, claim.length, claim.fresh, claim.built, claim.failed =
		struct.unpack(JOB_CLAIM, bytes)
	return claim
end

local function claim_put(key, seq, claim, token, now, length)
	redis.call('HSET', key, 'l:' .. seq, struct.pack(JOB_CLAIM, token, now + length, length, claim.fresh,
		claim.built, claim.failed))
end
