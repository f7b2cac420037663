--[[ spend: one retry of somebody who sends by itself, such as a read in a request path.
KEYS[1]  <namespace>:{<dependency>}
ARGV     want         1: a token is asked for; else only the result is told
         sign, hint, generation, jitter  how the retry before ended: see gate.report; none without sign
         gate_spare
RETURNS  '' where it may go, else why not (a hold); ms until that may end; generation; news of the gate (see gate.news)
LIMIT    one gate
INVARIANT what is promised to operations that were released is not given away
]]
local now = clock()
local g = gate.load(now)
if A.sign then gate.report(g, A.sign, arg('generation'), '', arg('hint'), arg('jitter')) end
local why, wait = '', 0
if A.want then
  local closed, closed_in = gate.closed(g)
  local allowed = gate.allowed(g)
  local promised = redis.call('ZCARD', P .. 'released:retry')
  if closed then
    why, wait = closed, closed_in
  elseif g.state ~= 'closed' then
    why, wait = 'breaker', 1000
  elseif allowed and allowed < 1 then
    why, wait = 'rate', gate.rate_in(g)
  elseif gate.retries(g) <= promised then
    why, wait = 'budget', gate.tokens_in(g, promised + 1)
  else
    gate.spend(g)
    gate.take_rate(g, 1)
  end
end
gate.save()
return {why, int(wait), int(g.generation), gate.news(g)}
