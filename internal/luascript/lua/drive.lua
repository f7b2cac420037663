-- Library drive: last in every script; the script's own body is the function decide.
-- ARGV: n, then n items '<name>', '<value>', ... that hold for every call; then per
-- call m and m items of its own. No call at all: one, with nothing of its own, and
-- the answer is that of decide. Otherwise the answer is, per call, the number of its
-- items and the items; a call whose decide fails answers 'failed', why, and harms no
-- other.
local function parse(from, n, into)
  for i = from, from + n - 1, 2 do into[ARGV[i]] = ARGV[i + 1] end
  return into
end

local function attempt(own)
  A = own
  for _, f in ipairs(before) do f() end
  return pcall(decide)
end

local function why(e)
  if type(e) == 'table' and e.err then return e.err end
  return 'ERR ' .. (type(e) == 'string' and e or 'the script failed')
end

local shared = tonumber(ARGV[1])
local common = parse(2, shared, {})
local at = shared + 2
if not ARGV[at] then
  local ok, reply = attempt(common)
  for _, f in ipairs(after) do f() end
  if ok then return reply end
  return redis.error_reply(why(reply))
end
local inherit, out = {__index = common}, {}
while ARGV[at] do
  local n = tonumber(ARGV[at])
  local ok, reply = attempt(setmetatable(parse(at + 1, n, {}), inherit))
  at = at + 1 + n
  if not ok then reply = {'failed', why(reply)} end
  out[#out + 1] = int(#reply)
  for _, item in ipairs(reply) do out[#out + 1] = item end
end
for _, f in ipairs(after) do f() end
return out
