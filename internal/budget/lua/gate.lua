-- Library gate: may this dependency get one more call?
-- State: HASH P..'gate' (tokens, rest and filled_at of the bucket, hold and
-- hold_until of a pause, turn, rolled: since when the store is known to have lost
-- attempts, last_now). Parameters come with each call, never from the hash:
--   ratio  milli-tokens put in per first attempt sent
--   cap    tokens at most
--   floor  milli-tokens put in per second
-- Integers only: milli-tokens, ms; rest is what is left of a milli-token, in its
-- thousandths (a milli-token a second is one of them a ms), so that nothing is gained
-- or lost however often the bucket is looked at. One call costs 1000 milli-tokens.
-- Invariants: 0 <= tokens <= cap; a missing or garbled bucket starts with one
-- second of floor, never full; time going backwards adds nothing.
local gate = {}
local CALL = 1000

-- whole reads a stored integer >= 0, nil when it is absent or garbage.
local function whole(v)
  if not v or not string.match(v, '^%d+$') or #v > 15 then return nil end
  return tonumber(v)
end

-- The bucket is read once per run, whatever number of calls it decides, and written
-- once at its end.
local bucket, dirty
function gate.load(now)
  if bucket then return bucket end
  local v = redis.call('HMGET', P .. 'gate', 'tokens', 'filled_at', 'rest', 'hold', 'hold_until', 'turn', 'rolled')
  local cap, floor = arg('cap') * CALL, arg('floor')
  local tokens, filled = whole(v[1]), whole(v[2])
  local rest = math.min(whole(v[3]) or 0, 999)
  if not tokens or not filled then
    tokens, rest, filled = math.min(cap, floor), 0, now
  end
  rest = rest + math.max(now - filled, 0) * floor
  tokens, rest = tokens + math.floor(rest / 1000), rest % 1000
  if tokens >= cap then tokens, rest = cap, 0 end
  local g = {now = now, cap = cap, floor = floor, ratio = arg('ratio'), tokens = tokens, rest = rest, turn = v[6] or 'inquiry', rolled = whole(v[7])}
  if v[4] and v[4] ~= '' then
    local untl = whole(v[5]) or 0
    if untl == 0 or untl > now then
      g.hold, g.hold_until = v[4], untl
    end
  end
  bucket = g
  return g
end

-- closed: why nothing leaves at all, and for how many ms (a pause without an end
-- is looked at again after a second).
function gate.closed(g)
  if not g.hold then return nil end
  if g.hold_until == 0 then return g.hold, 1000 end
  return g.hold, g.hold_until - g.now
end

-- tokens_in: ms until the bucket holds n tokens by its floor alone; a second when it
-- never will. At least 20, so that nobody asks in a tight loop.
function gate.tokens_in(g, n)
  if g.floor == 0 or n * CALL > g.cap then return 1000 end
  return math.max(math.ceil(((n * CALL - g.tokens) * 1000 - g.rest) / g.floor), 20)
end

-- retries: how many retries the bucket can pay for now.
function gate.retries(g) return math.floor(g.tokens / CALL) end

-- share: how many of n calls that the tokens pay for may be of one sort, when the other
-- sort (retry or inquiry) waits as well: half of them, the odd one whose turn it is.
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
  if g.tokens < CALL then return false end
  g.tokens = g.tokens - CALL
  return true
end

-- first puts in what one first attempt is worth.
function gate.first(g)
  g.tokens = math.min(g.cap, g.tokens + g.ratio)
end

function gate.save() dirty = true end

after[#after + 1] = function()
  if not dirty then return end
  redis.call('HSET', P .. 'gate', 'tokens', int(bucket.tokens), 'rest', int(bucket.rest),
    'filled_at', int(bucket.now), 'last_now', int(bucket.now), 'turn', bucket.turn)
end
