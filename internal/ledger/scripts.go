package ledger

import (
	"embed"

	"redrive/internal/budget"
	"redrive/internal/dedupe"
	"redrive/internal/luascript"
)

//go:embed lua/*.lua
var sources embed.FS

func source(name string) string {
	b, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic("ledger: " + err.Error()) // embedded at build time
	}
	return string(b)
}

var (
	recordLibrary   = luascript.Library{Name: "record", Source: source("record")}
	askLibrary      = luascript.Library{Name: "ask", Source: source("ask")}
	rollbackLibrary = luascript.Library{Name: "rollback", Source: source("rollback")}
	settleLibrary   = luascript.Library{Name: "settle", Source: source("settle")}
	chainLibrary    = luascript.Library{Name: "chain", Source: source("chain")}
	heldLibrary     = luascript.Library{Name: "held", Source: source("held")}
)

// Every script is composed of the libraries that it needs, in the order in which
// they build on each other.
func script(name string, more ...luascript.Library) *luascript.Script {
	libraries := append([]luascript.Library{luascript.Base, recordLibrary, askLibrary, settleLibrary}, more...)
	return luascript.Must(name, source(name), libraries...)
}

var (
	submitScript    = script("submit", budget.Library, dedupe.Identity, dedupe.Claim, rollbackLibrary, chainLibrary)
	releaseScript   = script("release", budget.Library, rollbackLibrary)
	beginScript     = script("begin", budget.Library, dedupe.Claim, rollbackLibrary)
	abandonScript   = script("abandon", budget.Library, dedupe.Claim)
	finishScript    = script("finish", budget.Library, heldLibrary, dedupe.Claim)
	recoverScript   = script("recover")
	sweepScript     = script("sweep", budget.Library)
	retentionScript = script("retention")
	cancelScript    = script("cancel")
	requeueScript   = script("requeue", chainLibrary)
	resolveScript   = script("resolve")
	stopScript      = script("stop")
	pauseScript     = script("pause", budget.Library, heldLibrary)
	inquireScript   = script("inquire", budget.Library)
	inquiredScript  = script("inquired", budget.Library, heldLibrary)
	reconcileScript = script("reconcile")
	voidedScript    = script("voided")
	firstsScript    = luascript.Must("first_attempts", source("first_attempts"), luascript.Base, budget.Library)
	spendScript     = luascript.Must("spend", source("spend"), luascript.Base, budget.Library)
	overrideScript  = script("override")
)

// Scripts lists every script, for tests and for loading them ahead.
var Scripts = []*luascript.Script{submitScript, releaseScript, beginScript, abandonScript, finishScript, recoverScript,
	sweepScript, retentionScript, cancelScript, requeueScript, resolveScript, stopScript, pauseScript,
	inquireScript, inquiredScript, reconcileScript, voidedScript, firstsScript, spendScript, overrideScript}
