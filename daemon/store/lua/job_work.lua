#!lua flags=allow-oom
-- Reports on a job's chunk, which keeps the claim, and perhaps claims another.
--
-- KEYS  jobs, job
-- ARGV  deadline, name, id, token, how long a claim holds, chunk that is reported on (0: none), 1 if it
--       is done, its keys that were fresh, built and failed, how many failures follow, the failures (key
--       and text by turns, each u32 length, bytes), 1 to claim another; of failures are kept: how many,
--       their bytes
-- ->    'late'
--       'gone'                    no such job
--       'work', 1 if the claim was lost, the next chunk (0: none), its keys, and the job (job_reply)
--
-- What a claim that has lapsed had counted is taken back when the chunk is claimed anew.

local deadline, name, id, token = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local length, seq, final = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local fresh, built, failed = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local failures_count, failures, wants = tonumber(ARGV[11]), ARGV[12], ARGV[13] == '1'
local failures_max, failures_bytes = tonumber(ARGV[14]), tonumber(ARGV[15])

local now = now_us()
if now > deadline then return { 'late' } end
local job = job_read(KEYS[2])
if not job or job.id ~= id then return { 'gone' } end

local function count(claim, sign)
	job.fresh = job.fresh + sign * claim.fresh
	job.built = job.built + sign * claim.built
	job.failed = job.failed + sign * claim.failed
end

local lost, changed = 0, false
if seq > 0 and job.state == 'running' then
	local claim = claim_of(KEYS[2], seq)
	if not claim or claim.token ~= token then
		lost = 1
	else
		count(claim, -1)
		claim.fresh, claim.built, claim.failed = fresh, built, failed
		count(claim, 1)
		changed = true
		if final then
			redis.call('HDEL', KEYS[2], 'c:' .. seq, 'l:' .. seq)
			if failures_count > 0 and job.failures_count + failures_count <= failures_max and
				#job.failures + #failures <= failures_bytes then
				redis.call('HSET', KEYS[2], 'failures', job.failures .. failures,
					'failures_count', job.failures_count + failures_count)
			end
		else
			claim_put(KEYS[2], seq, claim, token, now, length)
		end
	end
end

local low = job.low
while low < job.next and redis.call('HEXISTS', KEYS[2], 'c:' .. low) == 0 do low = low + 1 end
local next_seq, bytes = 0, ''
if wants and job.state == 'running' then
	for at = low, job.next - 1 do
		local claim = claim_of(KEYS[2], at)
		if not claim or left_of(claim.until_us, claim.length, now) == 0 then
			local keys = redis.call('HGET', KEYS[2], 'c:' .. at)
			if keys then
				if claim then count(claim, -1) end
				claim_put(KEYS[2], at, { fresh = 0, built = 0, failed = 0 }, token, now, length)
				next_seq, bytes, changed = at, keys, true
				break
			end
		end
	end
end
if changed or low ~= job.low then
	job.low = low
	redis.call('HSET', KEYS[2], 'low', low, 'fresh', job.fresh, 'built', job.built, 'failed', job.failed)
	redis.call('PEXPIRE', KEYS[2], JOB_KEPT)
end
if job.state == 'running' and job.all == 1 and job.low == job.next then
	job_end(KEYS[1], KEYS[2], name, job, 'done', '', now)
end
return job_reply(job, now, { 'work', lost, next_seq, bytes })
