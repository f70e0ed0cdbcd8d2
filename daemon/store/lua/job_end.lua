#!lua flags=allow-oom
-- Ends a job before its time.
--
-- KEYS  jobs, job
-- ARGV  deadline, name, id ('': whatever it is), state, why
-- ->    'late'
--       'gone'      no such job runs
--       'ended'

local deadline, name, id = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local now = now_us()
if now > deadline then return { 'late' } end
local job = job_read(KEYS[2])
if not job or job.state ~= 'running' or (id ~= '' and job.id ~= id) then return { 'gone' } end
job_end(KEYS[1], KEYS[2], name, job, ARGV[4], ARGV[5], now)
return { 'ended' }
