-- Library record: one operation, its state and the index of that state.
--
-- HASH   P..'op:'<id>       the record: small fields only, so that Redis keeps it compact
-- STRING P..'request:'<id>  the request, fixed at submission
-- HASH   P..'answers:'<id>  answers and errors, present once there is one
--
-- Invariant (P2): an operation is in exactly one state and in exactly the index
-- of that state; counts change in the same step. Only record.move changes a state.
local record = {}
local ended = {} -- what left for an end in this call, told to the caller: 'id state reason class sends inquiries corr'
before[#before + 1] = function() ended = {} end

function record.load(id)
  local flat = redis.call('HGETALL', P .. 'op:' .. id)
  if #flat == 0 then return nil end
  local op = record.new(id)
  for i = 1, #flat, 2 do op.f[flat[i]] = flat[i + 1] end
  return op
end

function record.new(id)
  return {id = id, kind = string.match(id, '^[^/]*'), f = {}, changed = {}, removed = {}, places = {}, counts = {}}
end

-- set changes a field; nil removes it.
function record.set(op, field, value)
  if value == nil then
    if op.f[field] ~= nil then
      op.removed[#op.removed + 1] = field
      op.f[field], op.changed[field] = nil, nil
    end
  elseif op.f[field] ~= value then
    op.f[field], op.changed[field] = value, value
  end
end

function record.add(op, field, n)
  record.set(op, field, int(num(op.f[field]) + n))
end

function record.flag(op, name)
  local flags = op.f.flags or ''
  if not string.find(',' .. flags .. ',', ',' .. name .. ',', 1, true) then
    record.set(op, 'flags', flags == '' and name or flags .. ',' .. name)
  end
end

-- event tells that an operation entered a state. One entry of the stream holds what
-- one run changed, an operation a line: '<id> <state> <why>'.
local events = {}
local function event(id, state, why) events[#events + 1] = id .. ' ' .. state .. ' ' .. (why or '') end

local changes, places = {}, {} -- of counts and indexes, written at the end of the run

-- keep takes over what op's moves mean for counts and indexes.
local function keep(op)
  for field, by in pairs(op.counts) do changes[field] = (changes[field] or 0) + by end
  for index, score in pairs(op.places) do record.place(index, op.id, score) end
  if op.event then event(op.id, op.event[1], op.event[2]) end
  op.counts, op.places, op.event = {}, {}, nil
end

-- save writes the record. Only with it do its moves count: a call that fails before
-- (a full Redis refuses the first write) changes nothing.
function record.save(op)
  if #op.removed > 0 then redis.call('HDEL', P .. 'op:' .. op.id, unpack(op.removed)) end
  local flat = {}
  for k, v in pairs(op.changed) do
    flat[#flat + 1] = k
    flat[#flat + 1] = v
  end
  if #flat > 0 then redis.call('HSET', P .. 'op:' .. op.id, unpack(flat)) end
  op.removed, op.changed = {}, {}
  keep(op)
end

-- backlog: operations on their way, held against max_backlog.
function record.backlog()
  local n = 0
  for _, index in ipairs({'waiting', 'due:first', 'due:retry', 'aside', 'released:first', 'released:retry', 'claims', 'unresolved'}) do
    n = n + redis.call('ZCARD', P .. index)
  end
  return n
end

-- applied: does the ledger know that the operation took effect?
function record.applied(op)
  if op.f.state == 'succeeded' then return 'yes' end
  if op.f.state == 'attempting' or op.f.unk then return 'unknown' end
  return 'no'
end

-- count notes a change of the counts; one write per field ends the run.
local function count(op, by)
  local field = op.kind .. ' ' .. op.f.state
  if op.f.state == 'dead' then field = field .. ' ' .. (op.f.reason or '') end
  op.counts[field] = (op.counts[field] or 0) + by
end
after[#after + 1] = function()
  for field, by in pairs(changes) do
    if by ~= 0 and redis.call('HINCRBY', P .. 'counts', field, by) == 0 then
      redis.call('HDEL', P .. 'counts', field)
    end
  end
end

-- place notes that an operation stands in an index with a score, or (nil) no longer.
-- Written once, at the end of the run: a move costs its share of a few commands rather
-- than five of its own. Whoever reads an index after a move in the same run calls
-- record.flush first.
function record.place(index, id, score)
  places[index] = places[index] or {}
  places[index][id] = score or false
end

function record.flush()
  for index, ids in pairs(places) do
    local gone, come = {}, {}
    for id, score in pairs(ids) do
      if score then
        come[#come + 1] = score
        come[#come + 1] = id
      else
        gone[#gone + 1] = id
      end
    end
    if #gone > 0 then redis.call('ZREM', P .. index, unpack(gone)) end
    if #come > 0 then redis.call('ZADD', P .. index, unpack(come)) end
  end
  places = {}
end
after[#after + 1] = record.flush

local INDEXES = {
  waiting = {'waiting', 'due:first', 'due:retry'}, -- or aside, where the field says so
  released = {'released:first', 'released:retry'},
  attempting = {'claims'},
  unresolved = {'unresolved', 'asking', 'giveup'},
  dead = {'dead'},
  succeeded = {'done', 'ended'},
  cancelled = {'done', 'ended'},
}

-- latest is the last instant at which an attempt could still be made: the deadline,
-- or the end of the key's window where only a resend under the key is left.
local function latest(f)
  local at = num(f.deadline)
  if f.unk and f.safe and f.idem ~= 'natural' then at = math.min(at, num(f.safe)) end
  return at
end

local function unindex(op)
  for _, index in ipairs(INDEXES[op.f.state] or {}) do op.places[index] = false end
  if op.f.aside then
    op.places.aside = false
    record.set(op, 'aside', nil)
  end
end

-- put_aside takes a waiting operation out of its lane while its credential is paused.
function record.put_aside(op)
  unindex(op)
  record.set(op, 'aside', '1')
  op.places.aside = int(latest(op.f))
end

-- forget removes an index entry whose record is gone; it is counted once.
function record.forget(index, id)
  if redis.call('ZREM', P .. index, id) == 1 then event(id, 'gone', index) end
end

-- retain: when the next retention step of an ended operation is due. 0 ms means
-- never, and a record with an unknown outcome never expires, whatever is configured.
local function retain(op)
  local span = arg('keep_' .. op.f.state)
  if span == 0 or op.f.unk then return '+inf' end
  return int(num(op.f.since) + span)
end

-- unmarked: the last unknown outcome of the operation was settled while its state stays.
function record.unmarked(op)
  if op.f.state == 'cancelled' then op.places.done = retain(op) end
  if op.f.state ~= 'waiting' then return end
  if op.f.aside then
    op.places.aside = int(latest(op.f))
  elseif redis.call('ZSCORE', P .. 'waiting', op.id) then
    op.places.waiting = int(math.min(num(op.f.next), latest(op.f)))
  else
    op.places['due:retry'] = int(latest(op.f)) -- it was sent once
  end
end

-- enlane puts a waiting operation that is due into its lane, where what must leave
-- first stands first. deferred: a first attempt that came due now is backlog, like a
-- retry. Returns sends, class and correlation id of a retry.
function record.enlane(id, deferred)
  local v = redis.call('HMGET', P .. 'op:' .. id, 'deadline', 'sends', 'unk', 'safe', 'idem', 'class', 'corr')
  if not v[1] then return record.forget('waiting', id) end
  local sends = num(v[2])
  record.place('waiting', id)
  record.place(sends == 0 and not deferred and 'due:first' or 'due:retry', id, int(latest({deadline = v[1], unk = v[3], safe = v[4], idem = v[5]})))
  if sends > 0 then return sends, v[6] or '-', v[7] or '-' end
end

-- move puts the operation into a state and that state's index. score:
--   waiting      next_at in ms (the index holds what comes first of it and latest)
--   released     end of the release lease, and which lane it left
--   attempting   end of the claim's lease
--   unresolved   next inquiry at
-- reason goes with dead. Arguments keep_succeeded and keep_cancelled (ms) say
-- when an ended operation's bodies go.
function record.move(op, state, now, score, extra)
  local id, from = op.id, op.f.state
  if from then
    unindex(op)
    count(op, -1)
  end
  record.set(op, 'state', state)
  record.set(op, 'since', int(now))
  record.set(op, 'reason', state == 'dead' and extra or nil)
  if state == 'waiting' then
    record.set(op, 'next', int(score))
    -- However long it was asked to wait, it is looked at when no attempt can be made any more.
    op.places.waiting = int(math.min(score, latest(op.f)))
  elseif state == 'released' then
    op.places['released:' .. extra] = int(score)
  elseif state == 'attempting' then
    op.places.claims = int(score)
  elseif state == 'unresolved' then
    op.places.unresolved, op.places.giveup = int(score), op.f.giveup
  elseif state == 'dead' then
    op.places.dead = int(now)
  else
    op.places.done, op.places.ended = retain(op), int(now)
  end
  if state ~= 'waiting' then record.set(op, 'next', nil) end
  if from == 'attempting' then record.set(op, 'ends', nil) end
  if from == 'unresolved' and state ~= from then
    for _, field in ipairs({'giveup', 'irun', 'iasked', 'nf', 'tries'}) do record.set(op, field, nil) end
  end
  record.set(op, 'grant', state == 'released' and extra or nil)
  if state == 'succeeded' and op.f.tried then record.flag(op, 'conflict') end -- its payment went on under another name
  count(op, 1)
  if state == 'dead' or state == 'succeeded' or state == 'cancelled' then
    record.set(op, 'ended', int(now))
    record.set(op, 'cancel', nil)
    record.set(op, 'orphan', nil)
    ended[#ended + 1] = table.concat({id, state, op.f.reason or '-', op.f.class or '-', op.f.sends or '0', op.f.inquiries or '0', op.f.corr or '-'}, ' ')
  elseif from == 'dead' or from == 'cancelled' then
    record.set(op, 'ended', nil)
  end
  -- over: it had been given up or cancelled when it came to be asked about.
  if state == 'unresolved' and (from == 'dead' or from == 'cancelled') then
    record.set(op, 'over', '1')
  elseif state ~= 'unresolved' then
    record.set(op, 'over', nil)
  end
  if state ~= 'released' and state ~= 'attempting' then op.event = {state, op.f.reason} end
end

-- note keeps who did what to an operation, by time, beside the dependency.
function record.audit(id, action, from, to, now)
  redis.call('XADD', P .. 'audit', '*', 'op', id, 'action', action, 'by', A.by or '', 'note', A.note or '',
    'from', from or '', 'to', to or '', 'batch', A.batch or '', 'at', int(now))
end

-- answer ends a script: its own items, then what it ended.
local function answer(items)
  for _, e in ipairs(ended) do
    items[#items + 1] = 'ended'
    items[#items + 1] = e
  end
  return items
end

-- drop removes an operation whole; only retention does.
function record.drop(op)
  unindex(op)
  count(op, -1)
  keep(op)
  redis.call('DEL', P .. 'op:' .. op.id, P .. 'request:' .. op.id, P .. 'answers:' .. op.id)
end

-- Last of all: no promise rests on the events, so that nothing fails for want of them.
after[#after + 1] = function()
  if #events == 0 then return end
  redis.pcall('XADD', P .. 'events', 'MAXLEN', '~', '10000', '*', 'at', int(clock()), 'ops', table.concat(events, '\n'))
end
