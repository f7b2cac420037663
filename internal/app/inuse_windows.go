package app

import (
	"errors"
	"syscall"
)

// wsaeaddrinuse is Windows' own number; package syscall invents another for the name.
const wsaeaddrinuse = syscall.Errno(10048)

func addressInUse(err error) bool { return errors.Is(err, wsaeaddrinuse) }
