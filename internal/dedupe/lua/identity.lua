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

-- report names a report of the request path, for field reports of the record: 11 hex
-- digits and a dot. The outcome is part of it: an unknown send must be recorded even
-- if an earlier report under the same id said that nothing had happened.
function identity.report(att)
  local name = att.id or (int(att.n) .. ' ' .. int(att.first or 0))
  return string.sub(redis.sha1hex(att.outcome .. ' ' .. name), 1, 11) .. '.'
end

-- seen: was this report merged into the record before?
function identity.seen(reports, report)
  return string.find(reports or '', report, 1, true) ~= nil
end
