package remote

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxTokenBytes bounds a token: what is longer is another file.
const maxTokenBytes = 4096

// ReadToken reads the token that path holds; white space around it is not part of it.
// shared reports that others on this machine may read the file. No error repeats what
// stands in it.
func ReadToken(path string) (token string, shared bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close() // only read from
	info, err := f.Stat()
	if err != nil {
		return "", false, err
	}
	if info.IsDir() {
		return "", false, fmt.Errorf("%s is a directory", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	if err != nil {
		return "", false, err
	}
	token = strings.TrimSpace(string(text))
	switch {
	case token == "":
		return "", false, fmt.Errorf("%s is empty", path)
	case len(text) > maxTokenBytes:
		return "", false, fmt.Errorf("%s holds more than %d bytes, which no token has", path, maxTokenBytes)
	case strings.ContainsFunc(token, notOfToken):
		return "", false, errors.New(path + " holds more than one token, or characters that no token has")
	}
	return token, info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0, nil
}

// notOfToken leaves printable ASCII without space: what a header can carry.
func notOfToken(r rune) bool { return r <= ' ' || r > '~' }
