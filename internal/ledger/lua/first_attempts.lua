--[[ first_attempts: what a request path sent by itself, and how it ended.
KEYS[1]  <namespace>:{<dependency>}
ARGV     process      who tells: unique while it lives
         seq          of this call; a smaller or equal one of the process was taken before
         ok, failed, timed_out  first attempts since the last call, by how they ended
         jitter       0..1000, see gate.report
         gate or gate_spare
RETURNS  taken (1, or '' for what was taken before), the breaker's state, its generation, tokens (thousandths), closed
         ('' or why nothing leaves), ms until that may end, news of the gate (see gate.news)
LIMIT    one gate; forgets 20 processes that were silent for ten minutes
INVARIANT the same call twice counts once
]]
local now = clock()
local g = gate.load(now)
local seqs, heard = P .. 'reporters', P .. 'reporters_heard'
local taken = num(redis.call('HGET', seqs, A.process)) < arg('seq')
if taken then
  redis.call('HSET', seqs, A.process, int(arg('seq')))
  redis.call('ZADD', heard, int(now), A.process)
  local silent = redis.call('ZRANGEBYSCORE', heard, '-inf', int(now - 600000), 'LIMIT', 0, 20)
  if #silent > 0 then
    redis.call('ZREM', heard, unpack(silent))
    redis.call('HDEL', seqs, unpack(silent))
  end
  gate.flush(g, arg('ok'), arg('failed') + arg('timed_out'), 0, arg('jitter'))
  gate.save()
end
local why, ms = gate.closed(g)
return {taken and '1' or '', g.state, int(g.generation), int(g.tokens), why or '', int(ms or 0), gate.news(g)}
