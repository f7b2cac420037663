-- Library claim: the right to make the one attempt in flight, held by a run id.
-- Fields of the record: run (holder), lease (its end, ms), attempt (its number: a
-- send that the request path reports meanwhile gets a higher one).
-- Invariant: at most one run holds a claim; every attempt keeps the run id that
-- made it (r<n>), so that a late or repeated result finds its attempt.
local claim = {}

function claim.held_by(op, run) return op.f.state == 'attempting' and op.f.run == run end

function claim.take(op, run, attempt, lease)
  record.set(op, 'run', run)
  record.set(op, 'lease', int(lease))
  record.set(op, 'attempt', int(attempt))
  record.set(op, 'r' .. int(attempt), run)
end

function claim.drop(op)
  for _, field in ipairs({'run', 'lease', 'attempt'}) do record.set(op, field, nil) end
end
