package outage

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
)

// timeAxis counts seconds, or minutes where there are many.
func timeAxis(took time.Duration) (string, plot.Ticker) {
	unit, label := 1.0, "seconds since the start"
	if took > 3*time.Minute {
		unit, label = 60, "minutes since the start"
	}
	var ticks plot.ConstantTicks
	step := niceStep(took.Seconds() / unit / 10)
	for v := 0.0; v*unit <= took.Seconds(); v += step {
		ticks = append(ticks, plot.Tick{Value: v * unit, Label: number(v)})
	}
	return label, ticks
}

// niceStep is the least of 1, 2 and 5 times a power of ten that is no less than about.
func niceStep(about float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(about)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= about*0.999 {
			return m * power
		}
	}
	return 10 * power
}

// niceBelow is the greatest of 1, 2 and 5 times a power of ten that is below v.
func niceBelow(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v))-1)
	for _, m := range []float64{50, 20, 10, 5} {
		if m*power < v*0.999 {
			return m * power
		}
	}
	return power
}

// number writes a number for a person: as many digits as it takes, thousands apart.
func number(v float64) string {
	whole, rest, broken := strings.Cut(strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64), ".")
	text := grouped(whole)
	if broken {
		text += "." + rest
	}
	return text
}

// grouped puts a comma between thousands.
func grouped(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	var parts []string
	for len(digits) > 3 {
		parts = append(parts, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	parts = append(parts, digits)
	slices.Reverse(parts)
	return sign + strings.Join(parts, ",")
}
