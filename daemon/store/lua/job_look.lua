#!lua flags=no-writes
-- How a job stands, or how it ended.
--
-- KEYS  job
-- ->    'gone'
--       'job', failures, and the job (job_reply)

local job = job_read(KEYS[1])
if not job then return { 'gone' } end
return job_reply(job, now_us(), { 'job', job.failures })
