#!lua flags=allow-oom
-- Makes the store's epochs and a daemon's the same: what either has is written back, as after a flush.
--
-- KEYS  epochs
-- ARGV  deadline, the daemon's epochs: f64 moment, f64 spread, u8 length, keyspace, one after the other
-- ->    'late'
--       'epochs', all of them in the same form

local deadline, known = tonumber(ARGV[1]), ARGV[2]
local FORM = '>ddB'

local now = now_us()
if now > deadline then return { 'late' } end

local at = 1
while at <= #known do
	local moment, spread, len, after = struct.unpack(FORM, known, at)
	local keyspace = known:sub(after, after + len - 1)
	local epochs = epochs_read(KEYS[1], keyspace)
	at = after + len
	if epochs_add(epochs, moment, spread) then epochs_write(KEYS[1], keyspace, epochs) end
end

local all = {}
for _, keyspace in ipairs(redis.call('HKEYS', KEYS[1])) do
	for _, epoch in ipairs(epochs_read(KEYS[1], keyspace)) do
		all[#all + 1] = struct.pack(FORM, epoch.moment, epoch.spread, #keyspace) .. keyspace
	end
end
return { 'epochs', table.concat(all) }
