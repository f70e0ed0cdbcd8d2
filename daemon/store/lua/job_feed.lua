#!lua flags=allow-oom
-- The right to feed a job: takes or lengthens it, and feeds a chunk of keys.
--
-- KEYS  jobs, job
-- ARGV  deadline, name, id, token, how long the right holds, from and to where in the spool, keys,
--       their bytes ('': none now), 1 if that is all, total, how many chunks may be ahead, the spool
-- ->    'late'
--       'lost'                    there is no job of that name
--       'gone'                    it runs no more, or is another
--       'held', left              another feeds it
--       'full', fed, ahead, of, all     it is ours; nothing was fed, for enough is ahead; of: which spool;
--                                       all: 1 if all has been fed
--       'feeding', fed, ahead, of, all  it is ours
--
-- A chunk is fed where the last one ended. One that begins at 0 again starts the job anew: it is from
-- another spool. What begins elsewhere is not fed: the answer says where.

local deadline, name, id, token = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local length, from, to, keys = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local bytes, last, total, ahead_max = ARGV[9], ARGV[10] == '1', tonumber(ARGV[11]), tonumber(ARGV[12])
local spool = ARGV[13]

local now = now_us()
if now > deadline then return { 'late' } end
local job = job_read(KEYS[2])
if not job then return { 'lost' } end
if job.id ~= id or job.state ~= 'running' then return { 'gone' } end
local left = left_of(job.spool_until, job.spool_length, now)
if left > 0 and job.spooler ~= token then return { 'held', left } end
redis.call('HSET', KEYS[2], 'spooler', token, 'spool_until', string.format('%.0f', now + length),
	'spool_length', string.format('%.0f', length))
redis.call('PEXPIRE', KEYS[2], JOB_KEPT)
if from == 0 and job.fed > 0 and (bytes ~= '' or last) then
	job_drop_chunks(KEYS[2], job)
	job.fed, job.keys, job.all = 0, 0, 0
	redis.call('HSET', KEYS[2], 'low', job.next, 'fresh', 0, 'built', 0, 'failed', 0, 'failures', '',
		'failures_count', 0)
	job.low = job.next
end
if job.fed == 0 and (bytes ~= '' or last) then
	job.spool = spool
	redis.call('HSET', KEYS[2], 'spool', spool)
end
if job.all == 1 or from ~= job.fed or job.spool ~= spool or (bytes == '' and not last) then
	return { 'feeding', job.fed, job.next - job.low, job.spool, job.all }
end
if bytes ~= '' then
	if job.next - job.low >= ahead_max then return { 'full', job.fed, job.next - job.low, job.spool, 0 } end
	redis.call('HSET', KEYS[2], 'c:' .. job.next, bytes)
	job.next, job.keys, job.fed = job.next + 1, job.keys + keys, to
end
if last then job.all, total = 1, job.keys end
redis.call('HSET', KEYS[2], 'next', job.next, 'keys', string.format('%.0f', job.keys), 'fed',
	string.format('%.0f', job.fed), 'all', job.all, 'total', string.format('%.0f', total))
if last and job.next == job.low then job_end(KEYS[1], KEYS[2], name, job, 'done', '', now) end
return { 'feeding', job.fed, job.next - job.low, job.spool, job.all }
