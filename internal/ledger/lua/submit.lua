--[[ submit: take operations in, or say what is known of them already.
KEYS[1]  <namespace>:{<dependency>}
ARGV     n              operations in this call
         e1, e2, ...    JSON of each: id, fp (fingerprint), idem (class), window (ms), base (base_url without
                        credentials), cred, keyheader, ikey (only when it is not KIND:KEY), corr, tp (traceparent), deadline_at (ms) or
                        deadline_span (ms), not_before (ms), created (ms), delay (ms until the first attempt here),
                        run (the request path sends it itself, under this run id), att {id, outcome (of a worker that remembers what the store lost: succeeded too), n, first (ms), class, codes, counted, keyed, by (w: a worker tells of its own),
                        status, and what is made of the last answer, as finish has it: step (retry when absent), reason, acted, original,
                        refused_credential}, of (the operation that it is a new
                        attempt of), limit and within (ms) of their chain, after_never (refuse, allow)
         q1, q2, ...    the stored request of each
         by             who submits, also for the audit of what a report changed; absent: a worker tells of its own
         keys           dedupe window in ms, 0 = for ever
         max_backlog    operations on their way at most; 10 % more for unknown outcomes
         lease          claim lease in ms
         expect         Redis' clock in ms, as the caller expects it to be; 0: it does not say
         gate_spare       parameters of the gate, where no worker ever said its own
         jitter           0..1000, see gate.report
         keep_succeeded, keep_cancelled (ms)
         publishes 'ms until due' on <KEYS[1]>:nudge when what it let in is due before all that waits
RETURNS  per operation 6 items: answer, state, applied, next_at (ms or ''), merged (1 or ''), detail (differing
         fields of a conflict, why it was refused, or of an attempt begun here '<lease left> <deadline left> <attempts
         written ahead> <start> <target> <generation of the breaker> <safe until, ms>'); then 'ended', '<id state reason class sends inquiries corr>' pairs
         'stepped' alone when Redis' clock is not where the caller expects it: a write-ahead that comes late is none
LIMIT    100 operations a call
INVARIANT submitting the same request again changes nothing but for a send of the request path that is not
         recorded yet: it is added and never dropped; what the request path took over (att) before its deadline (created)
         is kept, though it is handed in after it: dead, and never sent; the same report twice is added once; an attempt is begun
         here for a new operation alone; a new attempt is let in only behind what is settled without effect, and
         counted in the same step
]]
if stepped() then return {'stepped'} end
local now = clock()
local g = gate.load(now)
local filled = false
local backlog = record.backlog()
local head = redis.call('ZRANGE', P .. 'waiting', 0, 0, 'WITHSCORES')[2]
local soonest -- next_at of what this call let in
local out = {}
local answered = {} -- how often each answer was given, for the metrics

local function say(e, verdict, op, merged, detail)
  if not (e.att and e.att.by) then -- a worker that tells of its own submits nothing
    local field = string.match(e.id, '^[^/]*') .. ' ' .. verdict
    answered[field] = (answered[field] or 0) + 1
  end
  out[#out + 1] = verdict
  out[#out + 1] = op and op.f.state or ''
  out[#out + 1] = op and record.applied(op) or 'unknown'
  out[#out + 1] = op and op.f.next or ''
  out[#out + 1] = merged and '1' or ''
  out[#out + 1] = detail or ''
end

local function first_of(att)
  local first = num(att.first)
  if first == 0 or first > now then return now end
  return first
end

-- reported adds what the request path says it sent, in a report of that name.
local function reported(op, att, target, name)
  local n = num(op.f.sends) + num(att.n)
  record.set(op, 'sends', int(n))
  if att.outcome ~= 'not_sent' and att.class ~= '429' and not att.refused_credential then record.add(op, 'used', num(att.n)) end
  if att.refused_credential then record.add(op, 'refusals', 1) end
  record.set(op, 'a' .. int(n), table.concat({int(first_of(att)), att.by or 'p', target, '0', att.codes, '0'}, ','))
  record.set(op, 'class', att.class)
  record.set(op, 'status', num(att.status) > 0 and int(att.status) or nil)
  record.set(op, 'err', nil)
  record.set(op, 'reports', identity.append(op.f.reports, identity.entry(att, name, n)))
  if att.outcome == 'unknown' then
    settle.mark(op, n, target, now)
    settle.bound(op, target)
    if att.acted then record.set(op, 'acted', '1') end
  end
  settle.trim(op, n)
  -- Whatever it answered, from then on the gateway may know the key.
  if att.outcome == 'unknown' or (att.outcome ~= 'not_sent' and att.keyed) then
    local first = first_of(att)
    if not op.f.first or first < num(op.f.first) then -- the key's window began with the earliest send
      record.set(op, 'first', int(first))
      if op.f.idem == 'keyed' then record.set(op, 'safe', int(settle.window_end(op, first))) end
    end
  end
end

-- resend_target is where a send from here would go, sent_target where the reported one went.
local function resend_target(op, e)
  return settle.digest(op.f.idem, e.base or '', op.f.cred or 'default', e.keyheader or '', op.f.ikey or string.gsub(op.id, '/', ':', 1))
end

-- own: the report comes from an export of this very record, so that what it tells of
-- is known: 'ledger:<attempt>:<its start in ms>' names an attempt that stands here.
local function own(op, att)
  local n, start = string.match(att.id or '', '^ledger:(%d+):(%d+)$')
  return n ~= nil and string.match(op.f['a' .. n] or '', '^%d+') == start
end

local function sent_target(op, e)
  if not e.att.keyed and op.f.idem ~= 'natural' then return settle.apart('nokey', e.base or '', op.f.cred or 'default') end
  return resend_target(op, e)
end

-- known_success: a worker remembers that this send, which the store had lost, took effect.
local function known_success(op, att)
  if att.outcome ~= 'succeeded' then return end
  if op.f.state == 'attempting' then
    record.set(op, 'known_ok', '1')
  else
    if op.f.state == 'cancelled' or (op.f.state == 'dead' and op.f.reason == 'permanent') then record.flag(op, 'conflict') end
    if op.f.state ~= 'succeeded' and settle.unwanted(op, now) then settle.late(op, now) end
    settle.succeed(op, now)
  end
end

-- begin writes the first attempt ahead, for the request path that sends it itself. Where
-- the gate lets nothing leave now the operation waits like any other.
local function begin(op, e)
  rollback.check(g, now)
  if gate.closed(g) or g.state ~= 'closed' or (g.rolled and not rollback.harmless(op, op.f.idem, now)) then return false end
  local target = resend_target(op, e)
  record.set(op, 'sends', '1')
  record.set(op, 'used', '1')
  record.set(op, 'first', int(now))
  if op.f.idem == 'keyed' then record.set(op, 'safe', int(settle.window_end(op, now))) end
  record.set(op, 'a1', int(now) .. ',p,' .. target)
  claim.take(op, e.run, 1, now + arg('lease'))
  record.move(op, 'attempting', now, now + arg('lease'))
  rollback.began()
  gate.first(g, 1)
  gate.take_rate(g, 1)
  filled = true
  return true
end

-- begun tells the request path what begin tells a worker.
local function begun(op, e)
  return table.concat({int(num(op.f.lease) - now), int(num(op.f.deadline) - now), int(rollback.seq()), string.match(op.f.a1 or '', '^(%d+),p,(%x+)$')}, ' ') .. ' ' .. int(g.generation) .. ' ' .. (op.f.safe or '0')
end

-- onward moves the operation on where the report says more than that a resend may follow,
-- as finish does with the same words. at: when the next attempt is due.
local function onward(op, e, at)
  local att = e.att
  if not att or not att.step then return false end
  if att.step == 'conflict' or att.step == 'end' then
    settle.close(op, att.reason or 'conflict', now)
  else
    -- The original stands at the gateway under this name, and only it can tell.
    if att.original and not settle.marked(op) then settle.mark(op, num(op.f.sends), settle.apart('other', e.base or '', op.f.cred or 'default'), now) end
    settle.leave(op, 'waiting', nil, now, at)
  end
  return true
end

-- final is the end that the answer to a duplicate's send is to the whole operation, nil
-- where it is none. An end by deadline or attempts is the duplicate's own, as this one has
-- its own, and what was not sent has no answer.
local function final(att)
  if att.outcome == 'not_sent' then return nil end
  if att.step == 'conflict' then return 'conflict' end
  if att.step == 'end' and att.reason ~= 'deadline' and att.reason ~= 'attempts' then return att.reason end
end

-- speaks: does that answer say more than that a resend may follow?
local function speaks(att) return att.outcome ~= 'not_sent' and (att.step == 'ask' or final(att) ~= nil) end

-- merged_target: what no resend may follow has a target that none can equal. So a step
-- that comes later, such as the end of the attempt under way, finds it unsafe.
local function merged_target(op, e)
  if speaks(e.att) then return settle.apart('answered', e.base or '', op.f.cred or 'default') end
  return sent_target(op, e)
end

-- way is what a report may change of an operation that others wait for: where it stands,
-- and where it goes. Released it waits.
local function way(op)
  local state = op.f.state == 'released' and 'waiting' or op.f.state
  return table.concat({state, op.f.reason or '', op.f.intent or '', op.f.ends or ''}, ' ')
end

-- merge adds a send that a duplicate submission reports. Never dropped. The strictest
-- word counts: what one answer forbids no other send's answer allows.
local function merge(op, e, target, name)
  local att, from, before = e.att, op.f.state, way(op)
  reported(op, att, target, name)
  redis.call('HDEL', P .. 'answers:' .. op.id, 'error') -- it is the last attempt's, never an earlier one's
  local state, unknown = op.f.state, att.outcome == 'unknown'
  local unsafe = unknown and not settle.safe(op, op.f.idem, resend_target(op, e), now)
  local ends = final(att)
  if state == 'waiting' or state == 'released' then
    if speaks(att) and onward(op, e, now + num(e.delay)) then
      -- as the answer to that send has it
    elseif unsafe then
      settle.leave(op, 'waiting', nil, now)
    else
      -- Anew, even if it was due or released: what comes next is a retry, and needs a token.
      record.move(op, 'waiting', now, math.max(num(op.f.next), now + num(e.delay)))
    end
  elseif state == 'attempting' then
    if speaks(att) and att.original and not unknown then settle.mark(op, num(op.f.sends), target, now) end
    if ends and not op.f.ends then record.set(op, 'ends', ends) end
  elseif state == 'unresolved' and ends == 'conflict' then
    settle.close(op, ends, now)
  elseif state == 'unresolved' then
    settle.intend(op, ends)
    ask.renew(op, now)
  elseif state == 'dead' and not unknown then
    settle.intend(op, ends)
  elseif (state == 'dead' or state == 'cancelled') and unknown then
    settle.intend(op, ends)
    local intent, reason = settle.end_of(op)
    settle.leave(op, intent, reason ~= '' and reason or nil, now)
  elseif state == 'succeeded' and unknown then
    settle.applied(op)
    record.flag(op, 'conflict')
  end
  known_success(op, att)
  -- Whoever may submit can end what somebody else handed in: it is told who did.
  if A.by and way(op) ~= before then record.audit(op.id, 'report', from, op.f.ends and 'pending' or op.f.state, now) end
  record.save(op)
end

-- repeated: an anonymous report that looks like one on record, which may be of a send just
-- now all the same. Time counts from here; that is all it changes.
local function repeated(op)
  record.set(op, 'uend', int(math.max(num(op.f.uend), now)))
  if op.f.state == 'unresolved' then ask.renew(op, now) end
  record.save(op)
end

-- told: is this report on record? Of what can be done any number of times, and was, nobody
-- need know how often.
local function told(op, att, name)
  if identity.seen(op.f.reports, name, op.f.unk) then return true end
  return identity.anonymous(att) and op.f.idem == 'natural' and op.f.state == 'succeeded'
end

-- linked finds the chain that a new attempt belongs to: its members, and why it must
-- not be sent.
local function linked(e)
  local original = record.load(e.of)
  if not original then return {}, e.of .. ' is not known here' end
  local why, members = chain.barred(original, e.after_never)
  return members, why or chain.full(members, num(e.limit), num(e.within), now)
end

-- same_key: under the key of one that was declined the other side would only say so again.
local function same_key(e, members)
  local function under(id, ikey) return ikey or string.gsub(id, '/', ':', 1) end
  for _, m in ipairs(members) do
    if not m.f.tombstone and under(m.id, m.f.ikey) == under(e.id, e.ikey) then
      return 'idempotency_key: ' .. m.id .. ' was sent under the same one, whose answer is final'
    end
  end
end

local function refuse(e, why)
  say(e, 'refused', nil, false, why)
end

for i = 1, arg('n') do
  local e = cjson.decode(A['e' .. int(i)])
  local att = e.att
  local op = record.load(e.id)
  if op and op.f.free then -- it was only asked about, and the gateway knew nothing of it
    record.drop(op)
    op = nil
  end
  if op then
    local same = identity.same(op.f.fp or '', e.fp)
    local merged = false
    local name = att and identity.report(att, not same and e.fp or nil)
    if same and att and att.outcome == 'succeeded' and own(op, att) then
      known_success(op, att) -- a worker that told of it before, as unknown, knows now
      record.save(op)
    elseif att and not own(op, att) and not told(op, att, name) then
      if same then
        merge(op, e, merged_target(op, e), name)
        merged = true
      elseif att.outcome == 'unknown' then
        -- Sent under the same name with another request: no resend is safe, and what its
        -- answer means for that request is nothing to this one.
        att.step = nil
        merge(op, e, settle.apart('other', e.base or '', op.f.cred or 'default'), name)
        merged = true
      end
    elseif att and identity.anonymous(att) and settle.marked(op) then
      repeated(op)
    end
    if same and e.run and claim.held_by(op, e.run) then
      say(e, 'accepted', op, false, begun(op, e)) -- its reply was lost
    elseif same and e.of and e.of ~= op.f.of then
      say(e, 'conflict', op, merged, 'new_attempt_of')
    elseif same then
      if op.f.state == 'attempting' and num(op.f.sends) == 1 and not op.f.dup then -- it may not be withdrawn any more
        record.set(op, 'dup', '1')
        record.save(op)
      end
      say(e, 'duplicate', op, merged)
    else
      say(e, 'conflict', op, merged, identity.differs(op.f.fp or '', e.fp))
    end
  else
    local unknown = att and att.outcome == 'unknown'
    local created = num(e.created)
    local not_before = num(e.not_before)
    local deadline = num(e.deadline_at)
    if deadline == 0 then deadline = math.max(now, not_before) + num(e.deadline_span) end
    local oldest = now - arg('keys')
    local room = arg('max_backlog')
    if unknown then room = room + math.floor(room / 10) end
    local old = arg('keys') > 0 and ((created > 0 and created < oldest) or deadline < oldest or
      (att and num(att.first) > 0 and num(att.first) < oldest))
    local why
    -- Taken over in time and handed in too late (it lay in a spool): of a refusal nobody would hear.
    local lapsed = att and not unknown and created > 0 and created < deadline and deadline <= now
    local over = att and att.step == 'end' -- nothing is sent any more, so that no deadline can be missed
    if deadline <= now and not unknown and not lapsed and not over then
      why = 'deadline: ' .. int(now - deadline) .. ' ms in the past'
    elseif old and not unknown then
      why = 'older than the dedupe window of ' .. int(arg('keys')) .. ' ms: a record of it may have expired'
    elseif deadline <= not_before and not unknown and not over then
      why = 'deadline: at or before not_before'
    elseif backlog >= room then
      why = 'backlog full: ' .. int(backlog) .. ' operations are on their way, ' .. int(room) .. ' are allowed'
    end
    local members, barred
    if e.of and not why then
      members, barred = linked(e)
      if not unknown then why = barred and 'new_attempt_of: ' .. barred or same_key(e, members) end
    end
    if why then
      refuse(e, why)
    else
      op = record.new(e.id)
      record.set(op, 'fp', e.fp)
      record.set(op, 'created', int(created > 0 and math.min(created, now) or now))
      record.set(op, 'sby', A.by) -- once: a duplicate is somebody else's word on it
      record.set(op, 'idem', e.idem)
      record.set(op, 'deadline', int(deadline))
      if num(e.window) > 0 then record.set(op, 'window', int(num(e.window))) end
      if not_before > 0 then record.set(op, 'not_before', int(not_before)) end
      if e.cred then record.set(op, 'cred', e.cred) end
      if e.ikey then record.set(op, 'ikey', e.ikey) end
      if e.corr then record.set(op, 'corr', e.corr) end
      if e.tp then record.set(op, 'tp', e.tp) end
      if e.of then
        record.set(op, 'of', e.of)
        chain.join(op, members, num(e.within), now)
      end
      redis.call('SET', P .. 'request:' .. e.id, A['q' .. int(i)])
      if att then
        -- What may be older than its own expired record is never resent, not even a natural one.
        local apart = barred and 'barred' or old and 'old'
        reported(op, att, apart and settle.apart(apart, e.base or '', op.f.cred or 'default') or sent_target(op, e), identity.report(att))
        local since = now - first_of(att)
        if not att.counted and since <= g.p.window then
          -- What the other side refused by itself says that it works, a 429 that it does not.
          local works = att.outcome == 'refused' and att.class ~= '429'
          gate.flush(g, works and 1 or 0, works and 0 or 1, att.outcome == 'not_sent' and 1 or 0, arg('jitter'))
          filled = true
        end
      end
      local at = math.max(now, not_before) + num(e.delay)
      local here = e.run and begin(op, e)
      if here then
        backlog = backlog + 1
      elseif barred then
        settle.leave(op, 'dead', 'permanent', now) -- it was sent, so it is kept; but nothing more is sent for it
      elseif onward(op, e, at) then
        -- as the answer to that send has it
      elseif unknown and not settle.safe(op, e.idem, resend_target(op, e), at) then
        settle.leave(op, 'waiting', nil, now)
      elseif lapsed then
        settle.leave(op, 'dead', 'deadline', now)
      else
        record.move(op, 'waiting', now, at)
        backlog = backlog + 1
        if not soonest or at < soonest then soonest = at end
      end
      if att then known_success(op, att) end
      record.save(op)
      say(e, 'accepted', op, false, here and begun(op, e) or barred)
    end
  end
end
if filled then gate.save() end
-- What cannot be counted (a full Redis takes no write, and yet answers a duplicate) is answered all the same.
for field, n in pairs(answered) do redis.pcall('HINCRBY', P .. 'submitted', field, n) end
-- Workers sleep until what they know to be next, at most a second. Only a new head
-- can be due before that. Whoever may not publish (ACL) costs that second, no more.
if soonest and soonest <= now + 1000 and (not head or soonest < num(head)) then
  redis.pcall('PUBLISH', P .. 'nudge', int(soonest - now))
end
return answer(out)
