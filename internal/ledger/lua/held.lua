-- Library held: a credential that is refused again and again pauses itself.
--
-- HASH P..'credentials'  paused credential -> since (ms). The one that operations have
-- which chose none is the dependency's own: it pauses the dependency, as a person would.
local held = {}
local ROW = 3 -- answers in a row

-- paused: does nothing leave under the credential?
function held.paused(g, credential)
  if credential == 'default' then return gate.closed(g) == 'paused' end
  return redis.call('HEXISTS', P .. 'credentials', credential) == 1
end

-- note takes in what a call met: denied when the credential was refused, else sign (see
-- gate.report). True when that paused it.
function held.note(g, credential, denied, sign)
  if not denied then
    if sign == 'ok' or sign == 'declined' then gate.accepted(g, credential) end
    return false
  end
  if gate.refused(g, credential) < ROW or held.paused(g, credential) then return false end
  gate.accepted(g, credential)
  local note = 'the credential ' .. credential .. ' was refused ' .. int(ROW) .. ' times in a row: mend it, then resume'
  if credential == 'default' then
    g.hold, g.hold_until = 'paused', 0
    redis.call('HSET', P .. 'gate', 'hold', 'paused', 'hold_until', '0', 'hold_by', 'redrive', 'hold_note', note, 'hold_since', int(g.now))
  else
    redis.call('HSET', P .. 'credentials', credential, int(g.now))
    g.aside = true
  end
  redis.call('XADD', P .. 'audit', '*', 'op', '-', 'action', 'pause', 'by', 'redrive', 'note', note, 'from', '', 'to', '', 'batch', '', 'at', int(g.now))
  return true
end

-- resume lets a credential go on, all of them when it is nil. Operations that stand
-- aside come back with the sweeps.
function held.resume(g, credential)
  if credential then
    redis.call('HDEL', P .. 'credentials', credential)
    gate.accepted(g, credential)
  else
    redis.call('DEL', P .. 'credentials')
    g.refused = ''
  end
end
