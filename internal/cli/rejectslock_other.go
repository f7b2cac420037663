//go:build !unix

package cli

import (
	"errors"
	"os"
)

// lockFile cannot tell whether another process writes the file: none is taken over.
func lockFile(*os.File) error { return errors.ErrUnsupported }
