#!lua flags=allow-oom
-- Opens a warm-up's job, or joins the one of that name that runs.
--
-- KEYS  jobs, job
-- ARGV  deadline, name, id, interval, spec, how many may run
-- ->    'late'
--       'job', 1 if it ran already, its id
--       'full'
--
-- The jobs: a hash of those that run, name to id. The job: a hash of
--   id, state, interval, spec, began, ended, why
--   keys, total, all       fed up to now, that there are (-1: not known), 1 if that is all
--   fed, spool             up to where in which spool
--   low, next              chunks from low to next - 1 are there, or were
--   spooler, spool_until, spool_length   who feeds it
--   fresh, built, failed   keys; failures, failures_count: some of them
--   c:N                    a chunk's keys
--   l:N                    its claim: u64 token, f64 end, f64 length, f64 fresh, built, failed
-- It is kept for a week after it was last fed or worked on, and for a day after its end.

local deadline, name, id, jobs_max = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[6])

local now = now_us()
if now > deadline then return { 'late' } end
local job = job_read(KEYS[2])
if job and job.state == 'running' then
	redis.call('HSET', KEYS[1], name, job.id)
	return { 'job', job.id == id and 0 or 1, job.id }
end
if redis.call('HLEN', KEYS[1]) >= jobs_max then return { 'full' } end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'id', id, 'state', 'running', 'interval', ARGV[4], 'spec', ARGV[5],
	'began', string.format('%.0f', now), 'total', '-1', 'low', '1', 'next', '1')
redis.call('PEXPIRE', KEYS[2], JOB_KEPT)
redis.call('HSET', KEYS[1], name, id)
return { 'job', 0, id }
