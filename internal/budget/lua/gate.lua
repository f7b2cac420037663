-- Library gate: may this dependency get one more call? What it decides, and in which
-- words, stands in package budget; its Go model is the oracle of this code, function
-- by function.
--
-- State: HASH P..'gate'. Instants and spans in ms, rates and tokens in thousandths.
--   tokens, rest, filled_at   the bucket; rest: thousandths of a milli-token
--   breaker   '<closed | open | half_open> <generation> <since> <until> <opened> <run> <probes ok> <neutral> <why or ->'
--   probes    '<until>=<id>' for each permit that is out
--   window    sums of all bins '<calls> <failed> <throttled> <firsts> <spent>', then the newest bin '<at> <calls> ...'
--   bins      '<at>:<calls>:<failed>:<throttled>:<firsts>:<spent>' for each older one, oldest first
--   park      '<until> <hints in a row>'
--   lane      '<rate> <tokens> <rest> <filled at> <grown at> <cut at>'
--   rate      '<tokens> <rest> <filled at>'
--   fresh     '<what came due before is backlog> <a worker asked last>'
--   peak      '<hour> <most under way in it> <in the one before>'
--   hold, hold_until   a pause; hold_by, hold_note, hold_since
--   rolled    since when the store is known to have lost attempts
--   override  '<until> <name>=<value> ...'; override_by, override_note, override_since
--   refused   '<credential>=<answers in a row that refused it>' for each, the dependency's own as default
--   aside     1: a credential is paused, or operations still stand aside for one
--   turn      whose turn it is for a token: retry or inquiry
--   params    the parameters last used by a worker; last_now
-- Parameters come with each call (argument gate), else those of the hash hold, else
-- argument gate_spare: see budget.Params.
-- Invariants: 0 <= tokens <= cap; a missing or garbled bucket starts with one second of
-- floor, never full; time going backwards adds nothing; integers only.
local gate = {}
local CALL, WHOLE = 1000, 1000
local FIELDS = {'tokens', 'filled_at', 'rest', 'hold', 'hold_until', 'turn', 'rolled', 'breaker', 'probes', 'window', 'park',
  'lane', 'rate', 'fresh', 'peak', 'override', 'params', 'refused', 'aside', 'bins'}
local OVERRIDE = {ratio = 'ratio', cap = 'cap', floor = 'floor', rate = 'per_second', drain = 'drain', max_in_flight = 'max_in_flight'}

-- whole reads a stored integer >= 0, nil when it is absent or garbage.
local function whole(v)
  if not v or not string.match(v, '^%d+$') or #v > 15 then return nil end
  return tonumber(v)
end

-- Patterns of n integers. One match of many captures costs a fraction of many matches.
local OF2 = '^(%-?%d+) (%-?%d+)$'
local OF3 = '^(%-?%d+) (%-?%d+) (%-?%d+)$'
local OF6 = '^(%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+)$'
local BREAKER = '^(%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (.*)$'
local WINDOW = '^(%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+)'
local PARAMS =
  '^(%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+)'

local function override(p, text, now)
  local untl, rest = string.match(text or '', '^(%d+) ?(.*)$')
  if (whole(untl) or 0) <= now then return end
  for name, value in string.gmatch(rest, '([%w_]+)=(%d+)') do
    if OVERRIDE[name] and whole(value) then p[OVERRIDE[name]] = whole(value) end
  end
end

local function parameters(stored, over, now)
  local said = A.gate or stored or ''
  if not A.gate and not string.find(said, PARAMS) then said = A.gate_spare or '' end
  local ratio, cap, floor, drain, per_second, burst, in_flight, slots, window, calls, rate, run, open, max_open, probes, ramp =
    string.match(said, PARAMS)
  local p
  if ratio then
    p = {ratio = tonumber(ratio), cap = tonumber(cap), floor = tonumber(floor), drain = tonumber(drain), per_second = tonumber(per_second),
      burst = tonumber(burst), max_in_flight = tonumber(in_flight), slots = tonumber(slots), window = tonumber(window), min_calls = tonumber(calls),
      failure_rate = tonumber(rate), consecutive = tonumber(run), open = tonumber(open), max_open = tonumber(max_open), probes = tonumber(probes),
      ramp = tonumber(ramp)}
  else -- nobody said anything: what is there stays
    p = {ratio = 0, cap = 1000000000, floor = 0, drain = 0, per_second = 0, burst = 0, max_in_flight = 0, slots = 0, window = 0, min_calls = 0,
      failure_rate = 0, consecutive = 0, open = 0, max_open = 1000000000, probes = 0, ramp = 0}
  end
  if over then override(p, over, now) end
  if p.window == 0 then p.window = 10000 end
  p.bin = math.max(1, math.floor((p.window + 59999) / 60000)) * 1000
  p.off = ratio ~= nil and p.min_calls == 0 and p.consecutive == 0
  return p
end

local function share(n, thousandths) return math.floor(n * thousandths / WHOLE) end

-- ramp: how much of fill, cap and in-flight is let through, in thousandths.
local function ramp(g, at)
  if g.state ~= 'closed' or g.since == 0 or g.p.ramp == 0 then return WHOLE end
  return math.max(100, math.min(WHOLE, math.floor((at - g.since) * WHOLE / g.p.ramp)))
end

local function limit(g)
  if g.m == WHOLE or g.p.cap == 0 then return g.p.cap * CALL end
  return math.max(CALL, share(g.p.cap * CALL, g.m))
end

-- turn changes the breaker's state. Results of what was sent before count no more.
local function turn(g, state)
  g.news[#g.news + 1] = state
  g.state, g.since, g.generation, g.changed = state, g.now, g.generation + 1, true
  g.run, g.probes = 0, {}
  g.sum.calls, g.sum.failed, g.sum.throttled = 0, 0, 0
  g.bin.calls, g.bin.failed, g.bin.throttled = 0, 0, 0
  g.bins = string.gsub(g.bins, '(%d+):%d+:%d+:%d+:', '%1:0:0:0:')
end

-- add is what a rate of milli-units a second adds in a span, by thousandths.
local function add(milli, micro, per_second, span)
  micro = micro + per_second * span
  return milli + math.floor(micro / 1000), micro % 1000
end

local function fill(g, closed, was)
  local most = limit(g)
  if not g.known then
    g.tokens, g.rest, g.filled = math.min(most, g.p.floor), 0, g.now
    return
  end
  local floor, elapsed = share(g.p.floor, was), closed and math.max(g.now - g.filled, 0) or 0
  if floor > 0 then elapsed = math.min(elapsed, math.floor(most * 1000 / floor) + 1) end
  g.tokens, g.rest = add(g.tokens, g.rest, floor, elapsed)
  g.filled = g.now
  if g.tokens >= most then g.tokens, g.rest = most, 0 end
end

local function held(g) return g.hold ~= nil and (g.hold_until == 0 or g.hold_until > g.now) end

-- gap: for a while nobody worked, so that what is due came due behind everybody's back.
local function gap(g)
  if g.released == 0 then return g.begun end
  return g.now - g.released > 30000
end

-- plain: nothing holds the dependency back.
local function plain(g)
  return g.state == 'closed' and g.m == WHOLE and not held(g) and g.parked <= g.now and not g.rolled
end

local function lane(g)
  local most = g.p.drain
  if most == 0 or not plain(g) or gap(g) then
    g.lane, g.lane_tokens, g.lane_rest, g.lane_filled, g.lane_grown = 0, 0, 0, g.now, g.now
    return
  end
  if g.lane == 0 then g.lane, g.lane_filled, g.lane_grown = math.min(1000, most), g.now, g.now end
  g.lane_tokens, g.lane_rest = add(g.lane_tokens, g.lane_rest, g.lane, math.min(g.now - g.lane_filled, 10000))
  g.lane_filled = g.now
  local steps = math.floor((g.now - g.lane_grown) / 1000)
  g.lane = math.min(most, g.lane + math.min(steps, 20000) * math.max(1, math.floor(most / 20)))
  g.lane_grown = g.lane_grown + steps * 1000
  local burst = math.max(CALL, math.floor(g.lane / 4))
  if g.lane_tokens >= burst then g.lane_tokens, g.lane_rest = burst, 0 end
end

local function rate(g)
  local per_second = g.p.per_second
  if per_second == 0 then
    g.rate_tokens, g.rate_rest, g.rate_filled = 0, 0, 0
    return
  end
  if g.rate_filled == 0 then
    g.rate_tokens, g.rate_rest = CALL, 0
  else
    g.rate_tokens, g.rate_rest = add(g.rate_tokens, g.rate_rest, per_second, math.min(g.now - g.rate_filled, 1000000))
  end
  g.rate_filled = g.now
  local burst = g.p.burst > 0 and g.p.burst * CALL or math.max(CALL, math.floor(per_second / 10))
  if g.rate_tokens >= burst then g.rate_tokens, g.rate_rest = burst, 0 end
end

-- The window. The sums are kept, so that only what leaves it is read; all of it only
-- when the clock stepped back.
local BIN = '^(%d+):(%d+):(%d+):(%d+):(%d+):(%d+) ?'

local function new_bin(at) return {at = at, calls = 0, failed = 0, throttled = 0, firsts = 0, spent = 0} end

local function add_bin(to, calls, failed, throttled, firsts, spent, by)
  to.calls, to.failed, to.throttled = to.calls + by * calls, to.failed + by * failed, to.throttled + by * throttled
  to.firsts, to.spent = to.firsts + by * firsts, to.spent + by * spent
end

local function text_of(b) return string.format('%d:%d:%d:%d:%d:%d', b.at, b.calls, b.failed, b.throttled, b.firsts, b.spent) end

local function window(g, text)
  local oldest = g.now - g.p.window - g.p.bin
  local calls, failed, throttled, firsts, spent, at, c, f, t, fi, sp = string.match(text or '', WINDOW)
  g.sum, g.bin = new_bin(0), new_bin(0)
  if calls then
    add_bin(g.sum, tonumber(calls), tonumber(failed), tonumber(throttled), tonumber(firsts), tonumber(spent), 1)
    g.bin.at = tonumber(at)
    add_bin(g.bin, tonumber(c), tonumber(f), tonumber(t), tonumber(fi), tonumber(sp), 1)
  else
    g.bins = ''
  end
  if g.bin.at <= oldest then g.sum, g.bin, g.bins = new_bin(0), new_bin(0), '' end
  while g.bins ~= '' do
    local from, upto, first, n, failures, n429, n1, tokens = string.find(g.bins, BIN)
    if not from then
      g.bins = ''
    elseif tonumber(first) > oldest then
      break
    else
      add_bin(g.sum, tonumber(n), tonumber(failures), tonumber(n429), tonumber(n1), tonumber(tokens), -1)
      g.bins = string.sub(g.bins, upto + 1)
    end
  end
  if g.bin.at <= g.now then return end
  local left = {}
  g.sum, g.bin = new_bin(0), new_bin(0)
  for b in string.gmatch(g.bins, '%S+') do
    local first, n, failures, n429, n1, tokens = string.match(b, BIN)
    if first and tonumber(first) <= g.now then
      left[#left + 1] = b
      g.bin = new_bin(tonumber(first))
      add_bin(g.bin, tonumber(n), tonumber(failures), tonumber(n429), tonumber(n1), tonumber(tokens), 1)
      add_bin(g.sum, tonumber(n), tonumber(failures), tonumber(n429), tonumber(n1), tonumber(tokens), 1)
    end
  end
  g.bins = table.concat(left, ' ', 1, math.max(#left - 1, 0))
end

-- parse reads what is stored. What is garbled counts as missing, and is told.
local function parse(v, now)
  local g = {v = v, now = now, news = {}, hold = v[4], hold_until = whole(v[5]) or 0, turn = v[6] == 'retry' and 'retry' or 'inquiry', rolled = whole(v[7])}
  if g.hold ~= 'paused' then
    if g.hold and g.hold ~= '' then g.garbled, g.unhold = true, true end
    g.hold = nil
  end
  g.p = parameters(v[17], v[16], now)
  local function num0(text, field)
    if text then return tonumber(text) end
    if v[field] then g.garbled = true end
    return 0
  end
  local tokens, filled = whole(v[1]), whole(v[2])
  g.known = tokens ~= nil and filled ~= nil
  g.garbled = g.garbled or not g.known and (v[1] or v[2]) and true or false
  g.tokens, g.filled, g.rest = tokens, filled, math.min(whole(v[3]) or 0, 999)

  local state, rest = string.match(v[8] or '', '^(%l[%l_]*) (.*)$')
  local generation, since, untl, opened, run, ok, neutral, why = string.match(rest or '', BREAKER)
  if not generation or (state ~= 'closed' and state ~= 'open' and state ~= 'half_open') then
    if v[8] then g.garbled = true end
    g.state, g.generation, g.since, g.untl, g.opened, g.run, g.probes_ok, g.neutral, g.why = 'closed', 0, 0, 0, 0, 0, 0, 0, '-'
  else
    g.state, g.generation, g.since, g.untl = state, tonumber(generation), tonumber(since), tonumber(untl)
    g.opened, g.run, g.probes_ok, g.neutral, g.why = tonumber(opened), tonumber(run), tonumber(ok), tonumber(neutral), why
  end

  local a, b = string.match(v[11] or '', OF2)
  g.parked, g.hints = num0(a, 11), num0(b, 11)
  local l1, l2, l3, l4, l5, l6 = string.match(v[12] or '', OF6)
  g.lane, g.lane_tokens, g.lane_rest = num0(l1, 12), num0(l2, 12), num0(l3, 12)
  g.lane_filled, g.lane_grown, g.lane_cut = num0(l4, 12), num0(l5, 12), num0(l6, 12)
  local r1, r2, r3 = string.match(v[13] or '', OF3)
  g.rate_tokens, g.rate_rest, g.rate_filled = num0(r1, 13), num0(r2, 13), num0(r3, 13)
  local f1, f2 = string.match(v[14] or '', OF2)
  g.fresh, g.released = num0(f1, 14), num0(f2, 14)
  g.peaks = v[15]
  g.refused, g.aside = v[18] or '', (v[19] or '') ~= ''

  g.bins = v[20] or ''
  window(g, v[10])
  g.probes = {}
  if v[9] and v[9] ~= '' then
    for ends, id in string.gmatch(v[9], '(%d+)=(%S+)') do
      ends = tonumber(ends)
      if ends > now and ends <= now + 3600000 then g.probes[#g.probes + 1] = {id = id, untl = ends} end
    end
  end
  return g
end

-- The gate is read once per run, whatever number of calls it decides, and written once
-- at its end.
local loaded, dirty
function gate.load(now)
  if loaded then return loaded end
  local v = redis.call('HMGET', P .. 'gate', unpack(FIELDS))
  local g = parse(v, now)
  loaded = g
  g.stored = v[17] or nil
  g.begun = g.released == 0 and redis.call('EXISTS', P .. 'seq') == 1
  -- Its past is lost: whether operations stand aside for a credential, the sweep finds out.
  if g.garbled or (not g.known and g.begun) then g.news[1], g.aside, g.repaired = 'repaired', true, true end
  -- Instants in the future: the clock stepped back, or a hand wrote them.
  if math.max(g.since, g.lane_filled, g.lane_grown, g.lane_cut, g.rate_filled, g.fresh, g.released) > now then
    for _, field in ipairs({'since', 'lane_filled', 'lane_grown', 'lane_cut', 'rate_filled', 'fresh', 'released'}) do
      if g[field] > now then g[field] = now end
    end
    g.changed = true
  end
  if g.untl > now + g.p.max_open then g.untl, g.changed = now + g.p.max_open, true end
  g.parked = math.min(g.parked, now + 86430000)

  -- The ramp of the last instant and not of this one: it only grows, so that this errs
  -- on the strict side.
  local before, was = g.state, ramp(g, g.filled or now)
  if g.state == 'open' and now >= g.untl then
    turn(g, 'half_open')
    g.untl, g.probes_ok, g.neutral = 0, 0, 0
  end
  if g.state ~= 'closed' and g.p.off then
    turn(g, 'closed')
    g.since, g.untl, g.why, g.fresh = 0, 0, '-', now
  end
  if g.state ~= before or not v[8] or g.garbled then g.changed = true end
  g.m = ramp(g, now)
  fill(g, before == 'closed', was)
  if g.parked <= now then g.fresh = math.max(g.fresh, g.parked) end
  if g.state == 'closed' and g.since > 0 and g.since + g.p.ramp <= now then g.fresh = math.max(g.fresh, g.since + g.p.ramp) end
  if g.hold and g.hold_until <= now then g.fresh = math.max(g.fresh, g.hold_until) end
  if gap(g) then g.fresh = now end
  lane(g)
  rate(g)
  return g
end

-- newest_bin is that of now.
local function newest_bin(g)
  local at = g.now - g.now % g.p.bin
  if g.bin.at < at then
    if g.bin.at > 0 then g.bins = g.bins == '' and text_of(g.bin) or g.bins .. ' ' .. text_of(g.bin) end
    g.bin = new_bin(at)
  end
  return g.bin
end

-- note counts in the window.
local function note(g, calls, failed, throttled, firsts, spent)
  add_bin(newest_bin(g), calls, failed, throttled, firsts, spent, 1)
  add_bin(g.sum, calls, failed, throttled, firsts, spent, 1)
end

function gate.ramping(g) return g.m < WHOLE end

-- deferred: is a first attempt that came due at that instant backlog?
function gate.deferred(g, due) return not plain(g) or due < g.fresh end

-- closed: why nothing leaves at all, and for how many ms (what has no end is looked at
-- again after a second). Probes of a half-open breaker are the caller's affair.
function gate.closed(g)
  if held(g) then return g.hold, g.hold_until == 0 and 1000 or g.hold_until - g.now end
  if g.parked > g.now then return 'rate_hint', g.parked - g.now end
  if g.state == 'open' then return 'breaker', g.untl - g.now end
  return nil
end

-- tokens_in: ms until the bucket holds n tokens by its floor alone; a second when it
-- never will. At least 20, so that nobody asks in a tight loop.
function gate.tokens_in(g, n)
  local floor = share(g.p.floor, g.m)
  if floor == 0 or n * CALL > g.p.cap * CALL then return 1000 end
  return math.max(math.ceil(((n * CALL - g.tokens) * 1000 - g.rest) / floor), 20)
end

-- lane_in: ms until the drain lane lets n more leave, a second when it is shut.
function gate.lane_in(g, n)
  if g.lane == 0 then return 1000 end
  return math.max(math.ceil(((n * CALL - g.lane_tokens) * 1000 - g.lane_rest) / g.lane), 20)
end

-- rate_in: ms until the rate allows one more.
function gate.rate_in(g)
  return math.max(math.ceil(((CALL - g.rate_tokens) * 1000 - g.rate_rest) / g.p.per_second), 20)
end

-- healthy: nothing in the window speaks against the dependency.
function gate.healthy(g) return g.sum.failed == 0 end

-- short_of: what a backlog waits for that nothing else holds.
function gate.short_of(g)
  if g.m < WHOLE then return 'ramp' end
  if g.lane > 0 and gate.healthy(g) then return 'lane' end
  return 'budget'
end

-- retries: how many calls the bucket can pay for now.
function gate.retries(g)
  if g.state ~= 'closed' then return 0 end
  return math.floor(g.tokens / CALL)
end

-- lane: how many calls the drain lane lets leave now.
function gate.lane(g) return math.floor(g.lane_tokens / CALL) end

function gate.take_lane(g, n) g.lane_tokens = g.lane_tokens - n * CALL end

-- allowed: how many calls the rate allows now, nil: any number.
function gate.allowed(g)
  if g.p.per_second == 0 then return nil end
  return math.floor(math.max(g.rate_tokens, 0) / CALL)
end

-- take_rate counts n calls against the rate; the request path's may bring it below 0.
function gate.take_rate(g, n)
  if g.p.per_second > 0 then g.rate_tokens = math.max(g.rate_tokens - n * CALL, -math.max(g.p.per_second, CALL)) end
end

-- peaks reads the most calls under way: few need it.
local function peaks(g)
  if g.hour then return end
  local hour, peak, before = string.match(g.peaks or '', OF3)
  if g.peaks and not hour then g.news[#g.news + 1], g.repaired = 'repaired', true end
  g.hour, g.peak, g.peak_before = tonumber(hour or '0'), tonumber(peak or '0'), tonumber(before or '0')
end

-- in_flight: how many calls may be under way, nil: any number.
function gate.in_flight(g)
  local most = g.p.max_in_flight
  if g.m == WHOLE then
    if most == 0 then return nil end
    return most
  end
  if most == 0 then
    peaks(g)
    most = math.max(g.p.slots, g.peak, g.peak_before)
  end
  return math.max(1, share(most, g.m))
end

-- released records that a worker asked, while so many calls were under way.
function gate.released(g, in_flight)
  g.released = g.now
  peaks(g)
  local hour = math.floor(g.now / 3600000)
  if hour ~= g.hour then
    g.peak_before = hour == g.hour + 1 and g.peak or 0
    g.hour, g.peak = hour, 0
  end
  g.peak = math.max(g.peak, in_flight)
end

-- share: how many of n calls may be of one sort, when the other sort (retry or inquiry)
-- waits as well: half of them, the odd one whose turn it is.
function gate.share(g, n, sort, both)
  if not both or n <= 0 then return n end
  return math.floor((n + (g.turn == sort and 1 or 0)) / 2)
end

-- took ends a sort's turn.
function gate.took(g, sort, both)
  if both then g.turn = sort == 'retry' and 'inquiry' or 'retry' end
end

-- spend takes the token of one retry or inquiry; false when there is none.
function gate.spend(g)
  if g.state ~= 'closed' or g.tokens < CALL then return false end
  g.tokens = g.tokens - CALL
  note(g, 0, 0, 0, 0, 1)
  return true
end

-- first puts in what n first attempts are worth; not while the breaker lets nothing but
-- probes through.
function gate.first(g, n)
  note(g, 0, 0, 0, n, 0)
  if g.state == 'closed' then g.tokens = math.min(limit(g), g.tokens + n * share(g.p.ratio, g.m)) end
end

local function without(g, id)
  local left = {}
  for _, l in ipairs(g.probes) do
    if l.id ~= id then left[#left + 1] = l end
  end
  return left
end

-- permits: how many probes may still leave in this half-open period.
function gate.permits(g)
  if g.state ~= 'half_open' then return 0 end
  return math.max(g.p.probes - g.probes_ok - #g.probes, 0)
end

-- probe gives a permit to id, or lets the one that it has last longer; false when there
-- is none left.
function gate.probe(g, id, untl)
  local left = without(g, id)
  if g.state ~= 'half_open' or (#left == #g.probes and gate.permits(g) == 0) then return false end
  left[#left + 1] = {id = id, untl = untl}
  g.probes = left
  return true
end

-- probing: has id a permit?
function gate.probing(g, id) return #without(g, id) < #g.probes end

-- unprobe takes the permit of id back: nothing was sent, or nobody knows what came of it.
function gate.unprobe(g, id) g.probes = without(g, id) end

-- open opens the breaker for a time that doubles with each opening before a ramp was
-- over, drawn between its half and its whole.
local function open(g, why, jitter)
  if g.state == 'closed' and g.m == WHOLE then g.opened = 0 end
  g.opened = g.opened + 1
  local span, n = g.p.open, 1
  while n < g.opened and span < g.p.max_open do span, n = span * 2, n + 1 end
  span = math.min(span, g.p.max_open)
  turn(g, 'open')
  g.m = WHOLE
  g.why, g.untl = why, g.now + span - share(span - math.floor(span / 2), WHOLE - jitter)
  g.lane, g.lane_tokens, g.lane_rest, g.lane_filled, g.lane_grown = 0, 0, 0, g.now, g.now
end

-- count takes results into the window of a closed breaker, and opens it when there are
-- too many failures. Of a mixture nobody knows the order: it is no run of failures.
local function count(g, ok, failed, throttled, jitter)
  note(g, ok + failed, failed, throttled, 0, 0)
  local run = ok > 0 and 0 or g.run + failed
  if run ~= g.run then g.run, g.changed = run, true end
  if failed == 0 then return end
  local w, p = g.sum, g.p
  if p.consecutive > 0 and g.run >= p.consecutive and (w.calls < p.min_calls or g.run >= p.min_calls) then return open(g, 'consecutive', jitter) end
  if p.min_calls > 0 and w.calls >= p.min_calls and w.failed * WHOLE >= p.failure_rate * w.calls then return open(g, 'failure_rate', jitter) end
  if g.lane > 0 then
    g.lane_grown = g.now
    if (throttled > 0 or w.failed * 20 > w.calls) and g.now - g.lane_cut >= 1000 then
      g.lane, g.lane_tokens, g.lane_cut = math.max(math.min(1000, p.drain), math.floor(g.lane / 2)), 0, g.now
    end
  end
end

-- probed takes the results of probes in.
local function probed(g, ok, failed, neutral, jitter)
  if failed > 0 then return open(g, 'probe', jitter) end
  g.probes_ok, g.neutral, g.changed = g.probes_ok + ok, g.neutral + neutral, true
  if g.probes_ok >= g.p.probes or g.neutral >= g.p.probes then
    turn(g, 'closed')
    g.why, g.m = '-', ramp(g, g.now)
    g.tokens, g.rest, g.filled = math.min(g.tokens, g.p.floor, limit(g)), 0, g.now
  end
end

-- report takes a call's end in: what it says (ok, declined, failed, slow, throttled,
-- nothing), the generation of the breaker when it began, whose permit it used where it
-- was a probe, the Retry-After of a 429 or 503 (ms, 0: none) and 0..1000 of jitter.
function gate.report(g, sign, generation, id, hint, jitter)
  local probe = gate.probing(g, id)
  gate.unprobe(g, id)
  if sign == 'nothing' or generation ~= g.generation then return end
  if hint == 0 then
    g.hints = 0
  else
    g.hints = g.hints + 1
    if g.hints >= 3 then
      g.parked = math.max(g.parked, g.now + math.min(hint + share(math.min(math.floor(hint / 2), 30000), jitter), 86430000))
      g.news[#g.news + 1] = 'parked'
      g.hints = 0
    end
  end
  local failed = (sign == 'failed' or sign == 'slow' or sign == 'throttled') and 1 or 0
  if g.state == 'closed' then
    count(g, 1 - failed, failed, sign == 'throttled' and 1 or 0, jitter)
  elseif g.state == 'half_open' and probe then
    probed(g, sign == 'ok' and 1 or 0, failed, sign == 'declined' and 1 or 0, jitter)
  end
end

-- flush takes first attempts of the request path in: failed ones include those (unsent)
-- of which no byte arrived, which fill nothing. While the breaker is open they say
-- nothing; half-open they count as probes once all that was sent before must be over:
-- the window is at least a timeout.
function gate.flush(g, ok, failed, unsent, jitter)
  if ok + failed == 0 then return end
  gate.first(g, ok + failed - unsent)
  gate.take_rate(g, ok + failed - unsent)
  if g.state == 'closed' then
    count(g, ok, failed, 0, jitter)
  elseif g.state == 'half_open' and g.now - g.since >= g.p.window then
    probed(g, failed > 0 and 0 or ok, failed, 0, jitter)
  end
end

-- refused counts an answer that refused a credential, and says how many that is in a row.
function gate.refused(g, credential)
  local left, n = {}, 1
  for name, v in string.gmatch(g.refused, '(%S+)=(%d+)') do
    if name == credential then n = tonumber(v) + 1 elseif #left < 99 then left[#left + 1] = name .. '=' .. v end
  end
  table.insert(left, 1, credential .. '=' .. int(n))
  g.refused = table.concat(left, ' ')
  return n
end

-- accepted ends a credential's row of refusals.
function gate.accepted(g, credential)
  if g.refused == '' then return end
  local left = {}
  for name, v in string.gmatch(g.refused, '(%S+)=(%d+)') do
    if name ~= credential then left[#left + 1] = name .. '=' .. v end
  end
  g.refused = table.concat(left, ' ')
end

-- news is what changed since it was last asked, for whoever logs it: the breaker's new
-- states, parked, repaired. '' when nothing did.
function gate.news(g)
  if #g.news == 0 then return '' end
  local text = table.concat(g.news, ',') .. ' ' .. g.why .. ' ' .. int(math.max(g.untl, g.parked))
  g.news = {}
  return text
end

-- compare tells when another worker said other parameters last.
function gate.compare(g)
  if A.gate and g.stored and g.stored ~= '' and g.stored ~= A.gate then g.news[#g.news + 1] = 'differs' end
end

function gate.save() dirty = true end

after[#after + 1] = function()
  if not dirty then return end
  local g, b, w, probes = loaded, loaded.bin, loaded.sum, ''
  if g.unhold then redis.call('HDEL', P .. 'gate', 'hold', 'hold_until', 'hold_by', 'hold_note', 'hold_since') end
  if g.repaired then -- whoever came first may have nobody to tell
    redis.call('XADD', P .. 'audit', '*', 'op', '-', 'action', 'repair', 'by', 'redrive', 'note',
      'the gate was missing or garbled in the store: it starts low, and its breaker closed unless that is still known', 'from', '', 'to', '', 'batch', '', 'at', int(g.now))
  end
  if #g.probes > 0 then
    local list = {}
    for i, l in ipairs(g.probes) do list[i] = int(l.untl) .. '=' .. l.id end
    probes = table.concat(list, ' ')
  end
  local fields = {'tokens', int(g.tokens), 'rest', int(g.rest), 'filled_at', int(g.filled), 'last_now', int(g.now),
    'window', string.format('%d %d %d %d %d %d %d %d %d %d %d', w.calls, w.failed, w.throttled, w.firsts, w.spent, b.at, b.calls, b.failed, b.throttled, b.firsts, b.spent),
    'lane', string.format('%d %d %d %d %d %d', g.lane, g.lane_tokens, g.lane_rest, g.lane_filled, g.lane_grown, g.lane_cut)}
  -- What seldom changes is seldom written.
  local function unless_stored(i, value)
    if loaded.v[i] ~= value then
      fields[#fields + 1] = FIELDS[i]
      fields[#fields + 1] = value
    end
  end
  unless_stored(6, g.turn)
  if g.changed then unless_stored(8, string.format('%s %d %d %d %d %d %d %d %s', g.state, g.generation, g.since, g.untl, g.opened, g.run, g.probes_ok, g.neutral, g.why)) end
  unless_stored(9, probes)
  unless_stored(11, string.format('%d %d', g.parked, g.hints))
  unless_stored(13, string.format('%d %d %d', g.rate_tokens, g.rate_rest, g.rate_filled))
  unless_stored(14, string.format('%d %d', g.fresh, g.released))
  if g.hour then unless_stored(15, string.format('%d %d %d', g.hour, g.peak, g.peak_before)) end
  unless_stored(17, A.gate or g.stored or '')
  unless_stored(18, g.refused)
  unless_stored(19, g.aside and '1' or '')
  unless_stored(20, g.bins)
  redis.call('HSET', P .. 'gate', unpack(fields))
end
