package rehearsal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Folders of the embedded store: whoever made one holds a lock on the file in it
// for as long as it lives, so that what a killed process left can be told from what
// another one uses.
const (
	folderPrefix = "redrive-demo-"
	folderLock   = "lock"
)

// newFolder makes a folder of this process under parent, after it has removed those
// that processes left behind which were killed. The lock is given up with held.
func newFolder(parent string) (dir string, held *os.File, err error) {
	removeAbandoned(parent)
	if dir, err = os.MkdirTemp(parent, folderPrefix); err != nil {
		return "", nil, fmt.Errorf("make a folder for redis-server: %w", err)
	}
	held, err = lockFolder(dir)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock the folder for redis-server: %w", err), os.RemoveAll(dir))
	}
	return dir, held, nil
}

// lockFolder gives the lock its name only when it is held: one that bears it and is
// free was abandoned.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, folderLock+".new"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, folderLock)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeAbandoned removes folders whose lock nobody holds. What cannot be removed
// stays: it is in nobody's way.
func removeAbandoned(parent string) {
	if parent == "" {
		parent = os.TempDir()
	}
	dirs, _ := filepath.Glob(filepath.Join(parent, folderPrefix+"*"))
	for _, dir := range dirs {
		f, err := os.OpenFile(filepath.Join(dir, folderLock), os.O_RDWR, 0)
		if err != nil {
			continue // somebody else's, or just being made
		}
		if lockFile(f) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = f.Close()
	}
}
