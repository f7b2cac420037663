-- Library base: arguments, integers, keys and the clock. First in every script.
-- KEYS[1] is '<namespace>:{<dependency>}': it names the slot, P begins every key.
local P = KEYS[1] .. ':'
-- A holds the named arguments of the call that is being decided. One run of a
-- script may decide many calls, one after the other (library drive): before and
-- after hold what a library does before each of them, and once after all.
local A = {}
local before, after = {}, {}

-- num reads an integer; what is missing or garbage counts as 0.
local function num(v)
  local n = tonumber(v or '0') or 0
  if n ~= n then return 0 end
  return math.floor(n)
end

-- int prints an integer exactly, on Redis and miniredis alike.
local function int(n) return string.format('%d', n) end

local function arg(name) return num(A[name]) end

-- clock is Redis' own time in ms since the epoch, read once per run. After a step
-- back of less than a minute it stands still at the last instant seen, so that a
-- short step neither repeats an instant nor lets a lease live longer than its holder
-- believes.
local instant, shown
local function clock()
  if instant then return instant end
  local t = redis.call('TIME')
  shown = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
  instant = shown
  local last = redis.pcall('HGET', P .. 'gate', 'last_now')
  if type(last) == 'table' then -- a hand put something there that is no hash: as good as nothing
    redis.call('DEL', P .. 'gate')
    last = nil
  end
  last = num(last)
  if last > instant and last - instant < 60000 then instant = last end
  return instant
end

-- stepped: is Redis' clock more than 2 s from where the caller expects it (argument
-- expect, ms; none: no expectation)? Then nothing may be decided by it.
local function stepped()
  clock()
  return arg('expect') > 0 and math.abs(shown - arg('expect')) > 2000
end
