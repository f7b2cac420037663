package luascript

import _ "embed"

//go:embed lua/base.lua
var baseSource string

//go:embed lua/drive.lua
var driveSource string

// Base is the library that every script begins with: named arguments, exact
// integers, the key prefix and Redis' clock.
var Base = Library{Name: "base", Source: baseSource}
