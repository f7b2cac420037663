package cli

import (
	"errors"
	"net/http"

	"redrive/internal/remote"
)

// fromServer reports whether err is the answer of a server, or that none came.
func fromServer(err error) bool {
	var problem *remote.Problem
	var unanswered *remote.UnansweredError
	var strange *remote.StrangeError
	return errors.As(err, &problem) || errors.As(err, &unanswered) || errors.As(err, &strange)
}

// answersRequest reports whether a problem is about what was asked, as Redis would have
// it too, and not about the server: its words come first, then.
func answersRequest(p *remote.Problem) bool {
	switch serverCode(p) {
	case exitUsage, exitNotFound, exitConflict:
		return true
	}
	return false
}

// serverCode says how the program ends for what a server answered: as it would end for
// the same on Redis itself.
func serverCode(err error) int {
	var problem *remote.Problem
	var unanswered *remote.UnansweredError
	var strange *remote.StrangeError
	switch {
	case errors.As(err, &unanswered):
		if unanswered.Certificate() {
			return exitError
		}
		return exitAgain
	case errors.As(err, &strange):
		if strange.Passing() {
			return exitAgain
		}
		return exitError
	case !errors.As(err, &problem):
		return exitError
	}
	switch problem.Name() {
	case remote.Malformed, remote.Invalid, remote.TooLarge:
		return exitUsage
	case remote.NotFound:
		return exitNotFound
	case remote.Conflict, remote.NotInState:
		return exitConflict
	case remote.TooSlow:
		return exitAgain
	}
	if problem.Status == http.StatusTooManyRequests || problem.Status == http.StatusServiceUnavailable {
		return exitAgain
	}
	return exitError // a token that is not known or not enough, another host, a fault of the server's
}
