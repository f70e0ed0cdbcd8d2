#!lua flags=allow-oom
-- The right to read the origin's log of changes for the fleet: takes it, lengthens it, or gives it back.
--
-- KEYS  feed
-- ARGV  deadline, token, how long the right holds; 0: it is given back
-- ->    'late'
--       'following', position   it is ours; up to where the log has been applied, or ''
--       'held', left            another's
--       'left'
--
-- The feed: 'f', u8 format, u64 token, f64 end of the right, f64 its length, then the position.

local deadline, token, length = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local now = now_us()
if now > deadline then return { 'late' } end
local feed = feed_read(KEYS[1], now)
if feed.left > 0 and feed.token ~= token then return { 'held', feed.left } end
if length == 0 then
	if feed.exists then feed_write(KEYS[1], ZERO, 0, 0, feed.position) end
	return { 'left' }
end
feed_write(KEYS[1], token, now + length, length, feed.position)
return { 'following', feed.position }
