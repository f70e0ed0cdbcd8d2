#!lua flags=allow-oom
-- Which warm-up jobs run.
--
-- KEYS  jobs
-- ARGV  the names of jobs' keys, but for the job's own
-- ->    'jobs', names: each u32 length, bytes

local names = {}
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
	if redis.call('EXISTS', ARGV[1] .. name) == 1 then
		names[#names + 1] = struct.pack('>I4', #name) .. name
	else
		redis.call('HDEL', KEYS[1], name)
	end
end
return { 'jobs', table.concat(names) }
