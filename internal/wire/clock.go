package wire

import (
	"fmt"
	"time"
)

// clockSlack is how far ahead of Redis' clock an instant may lie before it is told
// that it counts as now: clocks of machines differ by some milliseconds.
const clockSlack = time.Second

// FutureWarning tells that an instant of the past has not come yet; "" if it has.
func FutureWarning(field string, t, now time.Time) string {
	if !t.After(now.Add(clockSlack)) {
		return ""
	}
	return fmt.Sprintf("%s %s lies %s in the future by Redis' clock: it counts as now", field, t.UTC().Format(time.RFC3339), t.Sub(now).Round(time.Second))
}
