-- Library chain: one payment that is tried under several names, one after the other.
--
-- Fields: of (the operation that it was said to be a new attempt of), prev (the member
-- before it, where that is another), root (the first member, where that is another than
-- of), tried (the member after it), again (never: its decline forbids another attempt).
--
-- ZSET P..'chain:'<root>  members by when they were submitted (ms): what is counted
--                         against a limit also when a record is gone. It expires once the
--                         last of them has left the window.
--
-- Invariant: a member is added only behind members that are settled without effect, so
-- that at most one of a chain is on its way or has taken effect. A member with another
-- behind it is never sent again (requeue).
local chain = {}

local MAX = 100 -- members, jobs.MaxChain

-- members returns the known members of op's chain, oldest first, and the name of one
-- whose record is gone though another names it as what followed it.
function chain.members(op)
  -- seen: a name that retention had freed may have been taken again further on.
  local list, at, seen = {op}, op, {[op.id] = true}
  local function follow(name)
    if not name or seen[name] or #list >= MAX then return nil end
    seen[name] = true
    return record.load(name)
  end
  repeat
    at = follow(at.f.prev or at.f.of) -- nil too where retention let it go, which it does only to what is settled
    if at then table.insert(list, 1, at) end
  until not at
  at = op
  while at.f.tried do
    local name = at.f.tried
    local gone = not seen[name] and #list < MAX
    at = follow(name)
    if not at then return list, gone and name or nil end
    list[#list + 1] = at
  end
  return list
end

-- effect says why another send beside this member could be a second effect; nil: it
-- is settled without effect.
function chain.effect(op)
  local state = op.f.state
  if state == 'succeeded' then return op.id .. ' succeeded' end
  if state == 'unresolved' or op.f.unk then
    return op.id .. ' is ' .. state .. ' and may have taken effect: ' .. (state == 'cancelled' and 'reconcile' or 'resolve') .. ' it first'
  end
  if state ~= 'dead' and state ~= 'cancelled' then return op.id .. ' is ' .. state .. ': still on its way' end
  if op.f.bare then return op.id .. ' was never sent from here: its key is free, so submit it under that' end
  if op.f.reason == 'conflict' then return op.id .. ' is dead (conflict): another request is known under its key, look at both first' end
end

-- barred says why no further operation may follow in op's chain, then the members.
function chain.barred(op, after_never)
  local list, gone = chain.members(op)
  for _, m in ipairs(list) do
    local why = chain.effect(m)
    if why then return why, list end
  end
  if gone then return op.id .. ' was tried again as ' .. gone .. ', of which nothing is kept any more', list end
  for _, m in ipairs(list) do
    if m.f.again == 'never' and after_never ~= 'allow' then
      return m.id .. ' was declined with never again: no other attempt may follow', list
    end
  end
  if #list >= MAX then return op.id .. ' is one of ' .. int(MAX) .. ' attempts at one payment: more are never taken', list end
  return nil, list
end

-- final says why op, a dead letter, must not be sent again; nil: its chain allows it.
function chain.final(op)
  if op.f.again == 'never' then return 'it was declined with never again: no other attempt may follow' end
  if op.f.tried then return 'it was tried again as ' .. op.f.tried .. ': that goes on in its place' end
  if not op.f.of then return nil end
  for _, m in ipairs(chain.members(op)) do
    local why = m.id ~= op.id and chain.effect(m)
    if why then return 'it is a new attempt of ' .. op.f.of .. ', and ' .. why end
  end
end

local function key(op) return P .. 'chain:' .. (op.f.root or op.f.of or op.id) end

-- submitted: when a root was submitted. A tombstone knows only when it ended.
local function submitted(op) return num(op.f.created or op.f.ended) end

-- full says of a chain's members why the window has no room for one more: how many,
-- since when, and when there will be room; nil: there is.
function chain.full(list, limit, within, now)
  local name, times, seen = key(list[1]), {}, {}
  local flat = redis.call('ZRANGEBYSCORE', name, '(' .. int(now - within), '+inf', 'WITHSCORES')
  for i = 1, #flat, 2 do
    times[#times + 1], seen[flat[i]] = num(flat[i + 1]), true
  end
  for _, m in ipairs(list) do -- a root stands nowhere yet, and what left a shorter window may be in this one
    if not seen[m.id] and submitted(m) > now - within then times[#times + 1] = submitted(m) end
  end
  if #times < limit then return nil end
  table.sort(times)
  return int(#times) .. ' attempts since instant ' .. int(times[1]) .. ' ms, at most ' .. int(limit) .. ' in ' .. int(within) ..
    ' ms are allowed: the next one from instant ' .. int(times[#times - limit + 1] + within) .. ' ms'
end

-- join puts op behind the newest of list, the chain of the operation that it names. What
-- was sent against the rules joins too, but not where the chain has its last member.
function chain.join(op, list, within, now)
  if #list == 0 or #list >= MAX then return end
  local last = list[#list]
  if last.id ~= op.f.of then record.set(op, 'prev', last.id) end
  local root = last.f.root or last.f.of or last.id
  if root ~= op.f.of then record.set(op, 'root', root) end
  record.set(last, 'tried', op.id)
  record.save(last)
  local name = key(op)
  local left = redis.call('PTTL', name)
  if #list == 1 then redis.call('ZADD', name, int(submitted(last)), last.id) end
  redis.call('ZADD', name, int(now), op.id)
  redis.call('PEXPIRE', name, int(math.max(left, within)))
end
