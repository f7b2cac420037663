package cli

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"redrive/internal/budget"
)

// knob is a parameter of the gate that an override may replace, as people write it.
type knob struct {
	name      string // of the override
	milli     bool   // it is kept in thousandths: up to three decimals
	low, high int64  // whole units
	per       string // unit, behind the number
	nought    string // what 0 means, where it is not just none
	usage     string
}

// knobs lists what may be replaced, in the order of [budget.Overridable]. The bounds
// are those of the configuration: docs/config.md.
var knobs = []knob{
	{name: budget.OverrideRatio, milli: true, high: 1, usage: "put in `n` tokens for each first attempt, 0 to 1"},
	{name: budget.OverrideCap, low: 1, high: 1_000_000, usage: "hold at most `n` tokens, 1 to 1000000"},
	{name: budget.OverrideFloor, milli: true, high: 10_000, per: "/s", usage: "put in `n` tokens per second, 0 to 10000"},
	{name: budget.OverrideRate, milli: true, high: 1_000_000, per: "/s", nought: "no limit", usage: "let all processes make `n` calls per second, up to 1000000; 0: no limit"},
	{name: budget.OverrideDrain, milli: true, high: 10_000, per: "/s", nought: "shut", usage: "let the drain lane grow to `n` calls per second, up to 10000; 0: it is shut"},
	{name: budget.OverrideInFlight, high: 1_000_000, nought: "no limit", usage: "let all processes have `n` calls under way, up to 1000000; 0: no limit"},
}

func (k knob) flag() string { return strings.ReplaceAll(k.name, "_", "-") }

var plainNumber = regexp.MustCompile(`^-?(\d+)(?:\.(\d+))?$`)

// parse reads what a person wrote into the unit that is stored. A rate may end in /s.
func (k knob) parse(text string) (int64, error) {
	number := text
	if k.per != "" {
		number = strings.TrimSuffix(text, k.per)
	}
	m := plainNumber.FindStringSubmatch(number)
	if m == nil {
		return 0, usagef("--%s %q is not a plain number", k.flag(), shorten(text, 40))
	}
	decimals := strings.TrimRight(m[2], "0")
	switch {
	case !k.milli && decimals != "":
		return 0, usagef("--%s %s is not a whole number", k.flag(), shorten(text, 40))
	case len(decimals) > 3:
		return 0, usagef("--%s %s has more than three decimals", k.flag(), shorten(text, 40))
	}
	whole, err := strconv.ParseInt(m[1]+(decimals + "000")[:3], 10, 64) // exactly: 0.1 is 100 and nothing near it
	if err != nil || strings.HasPrefix(number, "-") && whole != 0 || whole < k.low*1000 || whole > k.high*1000 {
		return 0, usagef("--%s %s is not from %d to %d", k.flag(), shorten(text, 40), k.low, k.high)
	}
	if k.milli {
		return whole, nil
	}
	return whole / 1000, nil
}

// shown is a stored value in people's units.
func (k knob) shown(stored int64) float64 {
	if k.milli {
		return float64(stored) / 1000
	}
	return float64(stored)
}

// text names the parameter with its value, in people's units.
func (k knob) text(value float64) string {
	if value == 0 && k.nought != "" {
		return k.flag() + " 0 (" + k.nought + ")"
	}
	return k.flag() + " " + decimal(value) + k.per
}

// knobsText names what an override replaces.
func knobsText(values map[string]*float64) string {
	var out []string
	for _, k := range knobs {
		if v := values[k.name]; v != nil {
			out = append(out, k.text(*v))
		}
	}
	return strings.Join(out, ", ")
}

// knobFlags adds a flag for each knob.
func knobFlags(cmd *cobra.Command) {
	for _, k := range knobs {
		cmd.Flags().String(k.flag(), "", k.usage)
	}
}

// givenKnobs reads the flags that were given.
func givenKnobs(cmd *cobra.Command) (map[string]int64, error) {
	values := map[string]int64{}
	var names []string
	for _, k := range knobs {
		names = append(names, "--"+k.flag())
		f := cmd.Flags().Lookup(k.flag())
		if !f.Changed {
			continue
		}
		v, err := k.parse(f.Value.String())
		if err != nil {
			return nil, err
		}
		values[k.name] = v
	}
	if len(values) == 0 {
		return nil, usagef("nothing to replace: give at least one of %s", strings.Join(names, ", "))
	}
	return values, nil
}
