//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package redrive

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Two clients got into one spool where there is no lock.
func TestASpoolWithoutALockIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool.jsonl")
	_, err := New(t.Context(), Options{RedisURL: "redis://127.0.0.1:1", Spool: path, Dependencies: []Dependency{{Name: "payrail", BaseURL: "http://127.0.0.1:1"}},
		Kinds: []Kind{{Name: "charge", Dependency: "payrail", Path: "/v1/charges"}}})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("New: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it left a file behind: %v", err)
	}
}
