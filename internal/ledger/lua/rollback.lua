-- Library rollback: did the store lose writes that it had acknowledged?
--
-- STRING P..'seq' counts the attempts written ahead, ever. Every process passes the
-- highest count that it saw (seen): a smaller one here means that the store went back
-- in time, and that attempts are missing from it. Field rolled of the gate is when that
-- was noticed. Until a person resumes, only what is surely safe is sent.
local rollback = {}

local seq, begins = nil, 0

-- seq: how many attempts were written ahead, those of this run included.
function rollback.seq()
  seq = seq or num(redis.call('GET', P .. 'seq'))
  return seq + begins
end

-- began counts one attempt written ahead.
function rollback.began()
  rollback.seq()
  begins = begins + 1
end
after[#after + 1] = function()
  if begins > 0 then redis.call('INCRBY', P .. 'seq', begins) end
end

-- check notices a rollback. Counting goes on from what was seen, so that one is noticed once.
function rollback.check(g, now)
  if arg('seen') <= rollback.seq() then return end
  redis.call('SET', P .. 'seq', int(arg('seen') - begins))
  seq = arg('seen') - begins
  g.rolled = now
  redis.call('HSET', P .. 'gate', 'rolled', int(now))
end

-- harmless: may one more send be made although attempts may be missing from the record?
-- Of a keyed operation, while a send since it was accepted is surely inside its window.
function rollback.harmless(op, class, now)
  if class == 'natural' then return true end
  return class == 'keyed' and num(op.f.window) > 0 and now < settle.window_end(op, num(op.f.created))
end
