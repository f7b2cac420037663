-- Library ask: an operation whose outcome is unknown, and the asking about it.
--
-- HASH P..'kinds'  kind -> '<settle ms> <give_up_after ms> <1: a late success is voided> <seen ms>', written by the
--                  workers whose configuration has an inquiry for the kind, or a void; '-' for what it has not.
-- ZSET P..'unresolved'  next inquiry at; while one is under way, the end of its lease
-- ZSET P..'asking'      inquiries under way, by the end of their lease: a count only
-- ZSET P..'giveup'      when a person must look
--
-- Fields, while unresolved: giveup, irun (run id of the inquiry under way), iasked (its
-- start), nf (start of the inquiry that first said not found), tries (inquiries since
-- the last news). uend: when the last unknown attempt was over, its claim's lease included.
local ask = {}

local terms = {}

-- of returns what is known of a kind: settle and give_up are nil without an inquiry.
function ask.of(kind)
  if terms[kind] == nil then
    local settle_ms, give_up, void = string.match(redis.call('HGET', P .. 'kinds', kind) or '', '^(%S+) (%S+) (%S+)')
    terms[kind] = {settle = tonumber(settle_ms), give_up = tonumber(give_up), void = void == '1'}
  end
  return terms[kind]
end

function ask.known(op) return ask.of(op.kind).settle ~= nil end

-- settled_at: from then on "not found" proves something.
function ask.settled_at(op)
  return math.max(num(op.f.uend), op.f.uend and 0 or num(op.f.since)) + (ask.of(op.kind).settle or 0)
end

-- void ends an inquiry that is under way: what it answers is about another list of attempts.
function ask.void(op)
  record.set(op, 'irun', nil)
  record.set(op, 'iasked', nil)
  record.set(op, 'nf', nil)
  if op.f.state == 'unresolved' then op.places.asking = false end
end

-- renew: there is news of the operation while it is asked about. Everything starts anew.
function ask.renew(op, now)
  ask.void(op)
  record.set(op, 'tries', nil)
  op.places.unresolved = int(math.max(now, ask.settled_at(op)))
end

-- enter: from now on it is asked about.
function ask.enter(op, now)
  ask.void(op)
  record.set(op, 'tries', nil)
  record.set(op, 'giveup', int(now + ask.of(op.kind).give_up))
  record.move(op, 'unresolved', now, math.max(now, ask.settled_at(op)))
end

-- handed: the inquiry of run is under way until its lease ends.
function ask.handed(op, run, now, lease)
  record.add(op, 'inquiries', 1)
  record.add(op, 'tries', 1)
  record.set(op, 'irun', run)
  record.set(op, 'iasked', int(now))
  op.places.unresolved, op.places.asking = int(now + lease), int(now + lease)
end

-- next: the inquiry under way is over; another one follows.
function ask.next(op, at)
  record.set(op, 'irun', nil)
  record.set(op, 'iasked', nil)
  op.places.unresolved, op.places.asking = int(at), false
end

-- keep writes the line of inquiry n: start,duration,answer,status,error. The last ten stay.
function ask.keep(op, n, line)
  record.set(op, 'q' .. int(n), line)
  record.set(op, 'q' .. int(n - 10), nil)
end
