#!lua flags=allow-oom
-- Says which definition of each keyspace (which query) is the fleet's.
--
-- KEYS  definitions
-- ARGV  deadline, how long one rules that no daemon has any more, the daemon's own definitions:
--       c8 definition, f64 spread, u8 flags (1 insists, 2 was told that another rules), u8 length,
--       keyspace, one after the other
-- ->    'late'
--       'defined', for each of these: c8 definition, f64 since when it rules, f64 spread, u8 length,
--       keyspace
--
-- One that nobody had before rules from now on: its daemon was deployed just now. One that has ruled
-- before does not come back while a daemon has the one that rules now, or each restart of an old
-- daemon would have all values built anew; only a daemon that insists, because its configuration
-- was just changed while it ran, brings it back at once.
--
-- A hash: for each keyspace, c8 definition, f64 since, f64 spread, f64 when a daemon last had it; then
-- c8 each of those that ruled before, the last one first.

local deadline, quiet, asked = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local ASKED, TOLD, STORED, STORED_LEN, BEFORE_MAX = '>c8dBB', '>c8ddB', '>c8ddd', 32, 7

local now = now_us()
if now > deadline then return { 'late' } end

local function read(keyspace)
	local bytes = redis.call('HGET', KEYS[1], keyspace)
	if not bytes or #bytes < STORED_LEN then return nil end
	local d = { before = bytes:sub(STORED_LEN + 1) }
	d.ruling, d.since, d.spread, d.seen = struct.unpack(STORED, bytes)
	if d.seen > now then d.seen = now end -- by a clock that has jumped back since
	return d
end

local function write(keyspace, d)
	redis.call('HSET', KEYS[1], keyspace,
		struct.pack(STORED, d.ruling, d.since, d.spread, d.seen) .. d.before)
end

local function has_ruled(d, own)
	for at = 1, #d.before - 7, 8 do
		if d.before:sub(at, at + 7) == own then return true end
	end
	return false
end

local function may_rule(d, own, insists, knows)
	if not d or insists then return true end
	return not (knows or has_ruled(d, own)) or now - d.seen > quiet
end

local at, told = 1, {}
while at <= #asked do
	local own, spread, flags, len, after = struct.unpack(ASKED, asked, at)
	local keyspace = asked:sub(after, after + len - 1)
	local insists, knows = bit.band(flags, 1) ~= 0, bit.band(flags, 2) ~= 0
	local d = read(keyspace)
	at = after + len
	if d and d.ruling == own then
		-- Of many daemons one writes, now and then.
		if now - d.seen > quiet / 4 then
			d.seen = now
			write(keyspace, d)
		end
	elseif may_rule(d, own, insists, knows) then
		local before = d and (d.ruling .. d.before):sub(1, 8 * BEFORE_MAX) or ''
		d = { ruling = own, since = now, spread = spread, seen = now, before = before }
		write(keyspace, d)
	elseif knows and not has_ruled(d, own) then
		-- A flush has forgotten it.
		d.before = (own .. d.before):sub(1, 8 * BEFORE_MAX)
		write(keyspace, d)
	end
	told[#told + 1] = struct.pack(TOLD, d.ruling, d.since, d.spread, #keyspace) .. keyspace
end
return { 'defined', table.concat(told) }
