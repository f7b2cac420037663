package cli

import (
	"context"
	"errors"
)

// What a person should know where nobody knows whether a change was made: the reply of
// Redis, or the answer of a server, was lost. Whichever it is that is asked, the words are
// these; add, import and first-attempts have their own beside what else they tell.
const (
	openPause    = "it may be paused: the same command again is safe"
	openResume   = "it may go on: the same command again is safe"
	openRelease  = "it may go on: the same command again is safe, and ends with 5 where it does" // of a credential
	openOverride = "it may be in force: the same command again is safe, and counts --for anew"
	openClear    = "it may have ended: the same command again is safe"
	openStop     = "it may have been done: the same command again is safe, and goes on with the rest"
	openBulk     = "it may have been done, or go on in the worker: enqueue batch list tells, and the same command again goes on with the rest"
	endedEarly   = "it ended early: the same command again goes on with the rest"
	untouched    = "no operation was changed: give the same command again later"
)

// ifOpen adds a note to an error that leaves it open whether what was asked for was done.
func ifOpen(err error, note string) error {
	if err == nil || unchanged(err) || !fromStore(err) && !errors.Is(err, context.Canceled) {
		return err
	}
	return &noted{err, note}
}
