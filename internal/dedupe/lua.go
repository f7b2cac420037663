package dedupe

import (
	_ "embed"

	"redrive/internal/luascript"
)

//go:embed lua/identity.lua
var identitySource string

//go:embed lua/claim.lua
var claimSource string

// Identity compares fingerprints and recognises reports of the request path.
var Identity = luascript.Library{Name: "identity", Source: identitySource}

// Claim takes, tests and drops the right to make the attempt in flight. It needs
// the ledger's record library.
var Claim = luascript.Library{Name: "claim", Source: claimSource}
