package analysis

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// span writes a duration as people do, to the second from a minute on.
func span(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// upward is span of d rounded up to what a person would write, so that it is never less
// than d.
func upward(d time.Duration) string {
	unit := time.Second
	switch {
	case d >= 10*time.Hour:
		unit = time.Hour
	case d >= 10*time.Minute:
		unit = time.Minute
	case d < time.Second:
		unit = time.Millisecond
	}
	return span((d + unit - 1) / unit * unit)
}

// number writes three significant digits, whole numbers whole.
func number(f float64) string {
	if math.IsInf(f, 1) {
		return "any number"
	}
	if math.Abs(f) >= 100 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// milli writes thousandths.
func milli(n int64) string { return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) }

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}
