package cli

import (
	"strings"
	"testing"

	"redrive/internal/budget"
)

func TestEveryOverridableParameterHasAFlag(t *testing.T) {
	t.Parallel()
	var names []string
	for _, k := range knobs {
		names = append(names, k.name)
	}
	if got, want := strings.Join(names, " "), strings.Join(budget.Overridable, " "); got != want {
		t.Errorf("flags for %s, want %s", got, want)
	}
}

func TestAnOverrideKeepsToWhatTheConfigurationAllows(t *testing.T) {
	t.Parallel()
	w := newGoldenWorld(t)
	for _, c := range []struct{ flag, value, says string }{
		{"ratio", "1.001", "not from 0 to 1"}, {"ratio", "-0.1", "not from 0 to 1"}, {"ratio", "0.0001", "more than three decimals"},
		{"ratio", "NaN", "not a plain number"}, {"ratio", "1e-1", "not a plain number"}, {"ratio", "", "not a plain number"}, {"ratio", "0.1/s", "not a plain number"},
		{"cap", "0", "not from 1 to 1000000"}, {"cap", "1000001", "not from 1 to 1000000"}, {"cap", "2.5", "not a whole number"}, {"cap", "-3", "not from 1"},
		{"floor", "10000.001", "not from 0 to 10000"}, {"floor", "-1", "not from 0 to 10000"}, {"floor", "5/m", "not a plain number"},
		{"rate", "1000001", "not from 0 to 1000000"}, {"rate", "-1", "not from 0"}, {"rate", "99999999999999999999", "not from 0"},
		{"drain", "10001/s", "not from 0 to 10000"}, {"drain", "-1", "not from 0"}, {"drain", "0x10", "not a plain number"},
		{"max-in-flight", "1000001", "not from 0 to 1000000"}, {"max-in-flight", "-1", "not from 0"}, {"max-in-flight", "1.5", "not a whole number"},
	} {
		got := w.must(exitUsage, "gate", "override", "payrail", "--"+c.flag, c.value, "--for", "1h", "--note", "x")
		says(t, got.stderr, "--"+c.flag, c.says)
	}
	if v := w.gateNow(); v.Override != nil {
		t.Errorf("something was replaced: %+v", v.Override)
	}
	got := into[overrideAnswer](t, w.must(exitOK, line("gate override payrail --ratio 1.000 --cap 1000000 --floor 0.5/s --rate 1000000 --drain 10000.0/s --max-in-flight 0 --for 24h --note x -o json")...))
	want := map[string]float64{"ratio": 1, "cap": 1_000_000, "floor": 0.5, "rate": 1_000_000, "drain": 10_000, "max_in_flight": 0}
	for name, value := range want {
		if got := got.Override.Values[name]; got == nil || *got != value {
			t.Errorf("%s is %v, want %v", name, got, value)
		}
	}
}

// Whatever is taken lies in the bounds, and shown it reads back as the same.
func FuzzKnob(f *testing.F) {
	for _, text := range []string{"0", "1", "0.1", "0.125", "2.5/s", "1000000", "-0", "-1", "007.100", "1.0001", "1e3", "9999999999999999999"} {
		f.Add(uint8(0), text)
		f.Add(uint8(3), text)
		f.Add(uint8(5), text)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		k := knobs[int(which)%len(knobs)]
		v, err := k.parse(text)
		if err != nil {
			return
		}
		if shown := k.shown(v); shown < float64(k.low) || shown > float64(k.high) {
			t.Fatalf("%s: %q is taken as %v", k.name, text, shown)
		}
		if again, err := k.parse(decimal(k.shown(v))); err != nil || again != v {
			t.Fatalf("%s: %q is %d, shown as %s and read back as %d, %v", k.name, text, v, decimal(k.shown(v)), again, err)
		}
	})
}
