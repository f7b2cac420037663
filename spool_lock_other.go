//go:build !unix

package redrive

import "os"

// lockFile does nothing: two processes with one spool would deliver each other's lines,
// which the ledger takes once.
func lockFile(*os.File) error { return nil }

// names is how many names lead to a file, as far as can be told here.
func names(os.FileInfo) uint64 { return 1 }
