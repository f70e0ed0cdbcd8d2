#!lua flags=allow-oom
-- Begins an epoch of a keyspace now: what was generated before it expires, spread over a time.
--
-- KEYS  epochs
-- ARGV  deadline, keyspace, spread, channel
-- ->    'late'
--       'epoch', moment: of this server's clock, as all that an entry carries
--
-- All are told.

local deadline, keyspace, spread, channel = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]

local now = now_us()
if now > deadline then return { 'late' } end
local epochs = epochs_read(KEYS[1], keyspace)

while not epochs_add(epochs, now, spread) do now = now + 1 end
epochs_write(KEYS[1], keyspace, epochs)
redis.call('PUBLISH', channel, struct.pack('>c1BI2', 'e', 1, 1) .. moment_pack(now) ..
	moment_pack(spread) .. struct.pack('>I4', #keyspace) .. keyspace)
return { 'epoch', now }
