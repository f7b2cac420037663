-- Library identity: is a submission new, known, or another request under a known key?
-- A fingerprint is '<whole>:<one digest per field>'; the whole decides, the
-- field digests only name what differs.
local identity = {}

-- same: do two fingerprints name the same request?
function identity.same(a, b)
  return string.match(a, '^[^:]*') == string.match(b, '^[^:]*')
end

-- differs: names of the fields whose digests differ, comma-separated.
local IDENTITY_FIELDS = {'content_type', 'params', 'headers', 'credential', 'idempotency_key', 'body'}
function identity.differs(a, b)
  local da, db = string.match(a, ':(.*)$') or '', string.match(b, ':(.*)$') or ''
  local width, out = 4, {}
  for i, name in ipairs(IDENTITY_FIELDS) do
    local from = (i - 1) * width + 1
    if string.sub(da, from, from + width - 1) ~= string.sub(db, from, from + width - 1) then
      out[#out + 1] = name
    end
  end
  return table.concat(out, ',')
end

-- report names a report of the request path: 11 hex digits. Who gave it an id says with
-- it which send it means; else all that it says tells it from others. The outcome is part
-- of it either way: an unknown send must be recorded even if an earlier report under the
-- same id said that nothing had happened. other: the fingerprint of a request that is not
-- the record's, whose send is not the record's either.
function identity.report(att, other)
  local says = att.id or table.concat({int(att.n), int(num(att.first)), att.class or '', int(num(att.status)), att.original and 'conflict' or att.step or '', att.reason or '',
    att.acted and 'acted' or '', att.refused_credential and 'credential' or '', att.keyed and 'keyed' or ''}, ' ')
  return string.sub(redis.sha1hex(att.outcome .. ' ' .. says .. (other and ' ' .. other or '')), 1, 11)
end

-- anonymous: an unknown send of which neither id nor instant is told, so that the next one
-- may look the same.
function identity.anonymous(att) return att.outcome == 'unknown' and not att.id and num(att.first) == 0 end

-- entry is what field reports of the record keeps of one: its name and a dot; of an
-- anonymous one also the number n of its attempt.
function identity.entry(att, name, n)
  return name .. (identity.anonymous(att) and '@' .. int(n) or '') .. '.'
end

-- append adds an entry. The oldest of many goes: the record stays small whoever repeats
-- himself under names that are always new, and what comes again after so many others is
-- taken for another send, never dropped.
local REPORTS = 300
function identity.append(reports, entry)
  reports = (reports or '') .. entry
  local _, n = string.gsub(reports, '%.', '')
  if n > REPORTS then reports = string.gsub(reports, '^[^.]*%.', '', 1) end
  return reports
end

-- seen: was this report merged into the record before? An anonymous one only while the
-- send that it looks like is unknown (unk: their numbers): after that it is another send.
function identity.seen(reports, name, unk)
  if string.find(reports or '', name .. '.', 1, true) then return true end
  for n in string.gmatch(reports or '', name .. '@(%d+)%.') do
    if string.find(',' .. (unk or '') .. ',', ',' .. n .. ',', 1, true) then return true end
  end
  return false
end
