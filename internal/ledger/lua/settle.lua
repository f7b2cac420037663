-- Library settle: what an unknown outcome forbids.
--
-- Fields: unk (numbers of the attempts whose unknown outcome is not settled, such
-- as '1,3'; present, the operation bears the unknown mark), target (digest that all
-- of them share, or 'mixed'; see digest), acted (the other side took it), first (first send
-- that counts for the key's window), safe (until when a keyed resend is safe), intent,
-- uend (when the last unknown attempt was over, its claim's lease included).
local settle = {}

local RANK = {none = 0, conditional = 1, keyed = 2, natural = 3}

-- class in force: the weaker of the one at submission and the configured one.
function settle.class(op, configured)
  local a, b = op.f.idem or 'none', configured
  if (RANK[a] or 0) <= (RANK[b] or 0) then return a end
  return b
end

-- place names where a call goes, and under whose credential.
function settle.place(base, credential)
  return string.sub(redis.sha1hex(base .. '\n' .. credential), 1, 6)
end

-- digest names everything that must be equal before a resend is safe: where it
-- goes, under whose credential, with which key, in which class. A natural
-- operation needs no key. Its last six digits are the place alone.
function settle.digest(class, base, credential, header, key)
  local under = class == 'natural' and '' or (header .. ':' .. key)
  return string.sub(redis.sha1hex(table.concat({class, base, credential, under}, '\n')), 1, 10) .. settle.place(base, credential)
end

-- apart is the target of a send that no resend can equal (nokey: without its key,
-- other: another request, old: perhaps older than its own expired record, answered: its
-- answer allows none).
function settle.apart(why, base, credential) return why .. '-' .. settle.place(base, credential) end

-- elsewhere: did an unknown attempt go to another place than an inquiry does? Then it
-- proves nothing that the inquiry knows nothing.
function settle.elsewhere(op, place)
  for n in string.gmatch(op.f.unk or '', '%d+') do
    local target = string.match(op.f['a' .. n] or '', '^%d+,[^,]*,([^,]*)')
    if target and string.sub(target, -6) ~= place then return true end
  end
  return false
end

-- window_end: until when a resend under the key is safe, counted from the first
-- send: min(0.8 x window, window - 2 x claim lease).
function settle.window_end(op, first)
  local window = num(op.f.window)
  if A.window and arg('window') < window then window = arg('window') end
  return first + math.min(math.floor(window * 4 / 5), window - 2 * arg('lease'))
end

function settle.marked(op) return op.f.unk ~= nil end

-- mark: the outcome of attempt n is unknown; it went to target, and was over at upto.
function settle.mark(op, n, target, upto)
  record.set(op, 'uend', int(math.max(num(op.f.uend), upto)))
  record.set(op, 'target', (not op.f.unk or op.f.target == target) and target or 'mixed')
  record.set(op, 'unk', op.f.unk and op.f.unk .. ',' .. int(n) or int(n))
end

-- bound keeps the marks of reported sends few, after one of that target was marked: of very
-- many the newest says all that an older one of its target does, and is settled after it.
-- The marks of a worker's own attempts stay, since their results may still come.
local MARKS = 100
function settle.bound(op, target)
  local older = string.match(op.f.unk, '^(.*),') or ''
  local _, commas = string.gsub(older, ',', '')
  if commas + 1 < MARKS then return end
  for n in string.gmatch(older, '%d+') do
    local by, went = string.match(op.f['a' .. n] or '', '^%d+,([^,]*),([^,]*)')
    if by == 'p' and went == target then
      local marks = string.gsub(',' .. op.f.unk, ',' .. n .. ',', ',', 1)
      return record.set(op, 'unk', string.sub(marks, 2))
    end
  end
end

-- cleared: nothing is unknown any more, and nothing took effect. The key's window goes
-- on: the gateway may know the key since the first send that reached it, whatever it
-- answered, and forgets it so long after that one.
function settle.cleared(op)
  for _, field in ipairs({'unk', 'target', 'acted', 'intent', 'uend'}) do record.set(op, field, nil) end
end

-- unsent: no byte of attempt n arrived. Where the key's window began with it, it has not begun.
function settle.unsent(op, n)
  if op.f.first and op.f.first == string.match(op.f['a' .. int(n)] or '', '^%d+') then
    record.set(op, 'first', nil)
    record.set(op, 'safe', nil)
  end
end

-- unmark: the attempts from..upto are settled as not applied. Only their marks go: an
-- answer about one attempt says nothing about another that is unknown as well.
function settle.unmark(op, from, upto)
  local left = {}
  for n in string.gmatch(op.f.unk or '', '%d+') do
    if num(n) < from or num(n) > upto then left[#left + 1] = n end
  end
  if #left == 0 then return settle.cleared(op) end
  record.set(op, 'unk', table.concat(left, ','))
end

-- applied: it took effect. first stays: it tells when it was sent.
function settle.applied(op)
  for _, field in ipairs({'unk', 'target', 'acted', 'intent', 'uend', 'safe', 'known_ok'}) do record.set(op, field, nil) end
end

-- unwanted: nobody waits for a success any more. It is past its deadline, or it was
-- given up or cancelled, or is to be once its outcome is known.
function settle.unwanted(op, now)
  local state = op.f.state
  return now > num(op.f.deadline) or state == 'dead' or state == 'cancelled' or op.f.over ~= nil or op.f.intent == 'cancelled' or
    op.f.cancel ~= nil
end

-- late: its success was learnt after it had left attempting. Called before its state
-- changes. Where nobody waits for it any more and the kind says so, the success is
-- undone; the entry is worked off by the workers.
function settle.late(op, now)
  record.flag(op, 'late')
  if not op.f.bare and settle.unwanted(op, now) and ask.of(op.kind).void then record.place('outbox', op.id, int(now)) end
end

-- differ: do two results (JSON of named values) say different things of one name?
function settle.differ(a, b)
  if not a or not b or a == b then return false end
  local known = cjson.decode(a)
  for name, value in pairs(cjson.decode(b)) do
    if known[name] ~= nil and known[name] ~= value then return true end
  end
  return false
end

-- succeed: one attempt's success is known. A second one with another result is the
-- sign of a double effect.
function settle.succeed(op, now, result)
  settle.applied(op)
  if settle.differ(op.f.result, result) then record.flag(op, 'conflict') end
  if result and not op.f.result then record.set(op, 'result', result) end
  if op.f.state ~= 'succeeded' then record.move(op, 'succeeded', now) end
end

-- safe: would one more send be safe at this instant?
function settle.safe(op, class, digest, at)
  if not settle.marked(op) then return true end
  if op.f.target ~= digest then return false end
  if class == 'natural' then return true end
  return class == 'keyed' and at < num(op.f.safe)
end

-- stuck: marked, and by what is stored no process could resend it safely any more.
function settle.stuck(op, now)
  if not settle.marked(op) then return false end
  if op.f.target == 'mixed' or string.find(op.f.target, '-', 1, true) then return true end -- see apart
  if op.f.idem == 'natural' then return false end
  return op.f.idem ~= 'keyed' or num(op.f.safe) <= now
end

-- leave: settle(intent). Nothing unknown: the intent happens. Otherwise the gateway is
-- asked; where nobody can be asked a person must look. The intent is kept for when
-- all is settled as not applied.
function settle.leave(op, intent, reason, now, at)
  if not settle.marked(op) then
    record.set(op, 'intent', nil)
    if intent == 'waiting' then
      record.move(op, 'waiting', now, at or now)
    else
      record.move(op, intent, now, nil, reason)
    end
    return
  end
  record.set(op, 'intent', reason and (intent .. ' ' .. reason) or intent)
  if op.f.state == 'unresolved' then return end -- the asking goes on
  if ask.known(op) then
    ask.enter(op, now)
  else
    record.move(op, 'dead', now, nil, 'unsafe')
  end
end

-- close ends it as an answer has it: a conflict by that word, all else once what is
-- unknown is settled.
function settle.close(op, reason, now)
  if reason == 'conflict' then
    record.move(op, 'dead', now, nil, reason)
  else
    settle.leave(op, 'dead', reason, now)
  end
end

-- intend: what was to be sent again ends with reason instead, once all is settled.
function settle.intend(op, reason)
  if reason and settle.marked(op) and (op.f.intent or 'waiting') == 'waiting' then record.set(op, 'intent', 'dead ' .. reason) end
end

-- intent of a dead letter that is asked about again: for one that died of its unknown
-- outcome, what it was about to do; for another, the end that it had.
function settle.end_of(op)
  if (op.f.reason == 'unsafe' or op.f.reason == 'unresolved') and op.f.intent then
    return string.match(op.f.intent, '^(%S+) ?(.*)$')
  end
  return op.f.state, op.f.reason
end

-- resume: all is settled as not applied, so that the stored intent happens. Whether
-- attempts and deadline still allow a waiting one to be sent, release and begin look.
-- One without a request was only asked about: its key is free again.
function settle.resume(op, now, at, stay_dead)
  local intent, reason = string.match(op.f.intent or 'waiting', '^(%S+) ?(.*)$')
  settle.cleared(op)
  if op.f.bare then
    record.set(op, 'free', '1')
    record.move(op, 'cancelled', now)
  elseif intent == 'waiting' and stay_dead then
    record.move(op, 'dead', now, nil, 'unresolved')
  elseif intent == 'waiting' then
    record.move(op, 'waiting', now, at)
  else
    record.move(op, intent, now, nil, reason ~= '' and reason or nil)
  end
end

-- give_up: for long enough nobody could say. The mark stays, and a person must look.
-- Where only a person doubted (mark 0), it is as it was before.
function settle.give_up(op, now)
  if op.f.unk == '0' and not op.f.bare then
    settle.resume(op, now, now)
  else
    record.move(op, 'dead', now, nil, 'unresolved')
  end
end

-- attempts left counts sends that proved something or may have acted.
function settle.attempts_left(op, max) return max + num(op.f.extra) - num(op.f.used) end

-- doomed: why no further attempt of this operation can be made, nil when one can.
function settle.doomed(op, max, at)
  if settle.attempts_left(op, max) <= 0 then return 'attempts' end
  if at + arg('min_response') > num(op.f.deadline) then return 'deadline' end
  return nil
end

-- close_attempt completes the line of attempt n, kept short so that the record
-- stays compact: start,by,target,duration,<outcome,class,status,verdict>,delay,error.
-- codes is the middle part, as package ledger encodes it; text what keep_error returned.
function settle.close_attempt(op, n, duration, codes, delay, text)
  local field = 'a' .. int(n)
  local start, by, target = string.match(op.f[field] or '', '^(%d+),([^,]*),([^,]*)')
  record.set(op, field, table.concat({start or '0', by or 'w', target or '', int(duration), codes, int(delay), text}, ','))
end

-- keep_error stores an error text once and returns its number, nil for none. A short
-- one stands in the record (e1, e2, ...), a long one in the hash of answers: one long
-- field would make the record big. The last twenty different texts are kept.
function settle.keep_error(op, text)
  if text == '' then return nil end
  local key, short, newest = P .. 'answers:' .. op.id, #text <= 60, 0
  for field, v in pairs(op.f) do
    local m = num(string.match(field, '^e(%d+)$'))
    if m > 0 and short and v == text then return int(m) end
    newest = math.max(newest, m)
  end
  if not short and op.f.err and redis.call('HGET', key, 'e' .. op.f.err) == text then return op.f.err end
  local m = int(newest + 1)
  record.set(op, 'e' .. m, short and text or '>')
  if not short then redis.call('HSET', key, 'e' .. m, text) end
  local old = 'e' .. int(newest - 19)
  if op.f[old] == '>' then redis.call('HDEL', key, old) end
  record.set(op, old, nil)
  return m
end

-- forget_runs drops the run ids of attempts that ended: nothing they say changes
-- anything any more. A lost one's may still bring its result.
function settle.forget_runs(op)
  local over = {}
  for field in pairs(op.f) do
    local m = string.match(field, '^r(%d+)$')
    if m and not settle.lost(op, num(m)) then over[#over + 1] = field end
  end
  for _, field in ipairs(over) do record.set(op, field, nil) end
end

-- lost: was attempt n closed as unknown for want of its worker's own result?
function settle.lost(op, n)
  return string.find(op.f['a' .. int(n)] or '', ',u,lost,', 1, true) ~= nil
end

-- outcome_of reads the outcome code of attempt n: s, r, n, u, or '' while open.
function settle.outcome_of(op, n)
  return string.match(op.f['a' .. int(n)] or '', '^%d+,[^,]*,[^,]*,%d+,(%a)') or ''
end

-- trim keeps the history bounded: the first five and the last 45 attempts stay, and
-- those whose outcome is unknown. A report may stand for many sends, so that numbers
-- have gaps.
function settle.trim(op, n)
  if n - 45 <= 5 then return end
  local marked, old = {}, {}
  for m in string.gmatch(op.f.unk or '', '%d+') do marked[m] = true end
  for field in pairs(op.f) do
    local m = num(string.match(field, '^a(%d+)$'))
    if m > 5 and m <= n - 45 and not marked[int(m)] then old[#old + 1] = int(m) end
  end
  for _, m in ipairs(old) do
    record.set(op, 'a' .. m, nil)
    record.set(op, 'r' .. m, nil)
  end
end
