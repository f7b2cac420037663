package rehearsal

import (
	"os"
	"path/filepath"
	"testing"
)

// A demo that was killed leaves its folder; the next one removes it, and no other.
func TestAFolderThatAKilledDemoLeftIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	killed, lock, err := newFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed, "redis.log"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(parent, folderPrefix+"foreign") // without a lock: nobody knows whose
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	living, held, err := newFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := os.Stat(killed); err != nil {
		t.Errorf("a folder in use was removed: %v", err)
	}
	lock.Close() // as the kernel does when the process is killed
	next, nextHeld, err := newFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer nextHeld.Close()
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("the abandoned folder is still there: %v", err)
	}
	for _, dir := range []string{living, next, foreign} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}
