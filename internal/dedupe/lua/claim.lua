-- Library claim: the right to make the one attempt in flight, held by a run id.
-- Fields of the record: run (holder), lease (its end, ms), attempt (its number: a
-- send that the request path reports meanwhile gets a higher one).
-- Invariant: at most one run holds a claim; an attempt keeps the first half of the
-- run id that made it (r<n>, 64 bits: it only tells results apart), so that a late or
-- repeated result finds its attempt.
local claim = {}

local function half(run) return string.sub(run, 1, 16) end

function claim.held_by(op, run) return op.f.state == 'attempting' and op.f.run == run end

function claim.take(op, run, attempt, lease)
  record.set(op, 'run', run)
  record.set(op, 'lease', int(lease))
  record.set(op, 'attempt', int(attempt))
  record.set(op, 'r' .. int(attempt), half(run))
end

-- made: did this run make the attempt?
function claim.made(op, run, attempt) return op.f['r' .. int(attempt)] == half(run) end

function claim.drop(op)
  for _, field in ipairs({'run', 'lease', 'attempt'}) do record.set(op, field, nil) end
end
