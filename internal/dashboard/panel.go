package dashboard

import "strings"

// Filters of a query: J where the metric has only the job, D where it has a
// dependency too. They are written into expressions as {J} and {D}; {J, x="y"} adds
// to them.
var filters = strings.NewReplacer(
	"{J", `{job=~"$job"`,
	"{D", `{job=~"$job", dependency=~"$dependency"`,
)

// query is an expression and what its series are called.
type query struct{ expr, legend string }

// panel is a panel before it has its place.
type panel struct {
	kind        string // stat, timeseries or state-timeline
	title, says string
	unit        string
	decimals    int // -1: as Grafana thinks
	steps       []Step
	words       map[string]Word
	queries     []query
}

func value(v float64) *float64 { return &v }

// green is the colour of what has no threshold.
var green = []Step{{Color: "green"}}

// above is green, and turns to a colour from a value on.
func above(color string, from float64) []Step { return append(green[:1:1], Step{color, value(from)}) }

// stat shows one number, the newest.
func stat(title, says, unit string, steps []Step, expr string) panel {
	return panel{kind: "stat", title: title, says: says, unit: unit, decimals: -1, steps: steps, queries: []query{{expr, ""}}}
}

// chart shows numbers over time.
func chart(title, says, unit string, queries ...query) panel {
	return panel{kind: "timeseries", title: title, says: says, unit: unit, decimals: -1, steps: green, queries: queries}
}

// limit draws the threshold of a chart.
func (p panel) limit(color string, from float64) panel {
	p.steps = above(color, from)
	return p
}

// states shows values as words over time, from 0 on.
func states(title, says string, words []Word, queries ...query) panel {
	p := panel{kind: "state-timeline", title: title, says: says, unit: "none", decimals: 0, steps: green, words: map[string]Word{}, queries: queries}
	for i, w := range words {
		w.Index = i
		p.words[string(rune('0'+i))] = w
	}
	return p
}

var promSource = Datasource{Type: "prometheus", UID: "${datasource}"}

// placed is the panel as Grafana reads it.
func (p panel) placed(id int, at GridPos) Panel {
	out := Panel{ID: id, Type: p.kind, Title: p.title, Description: p.says, Datasource: &promSource, GridPos: at,
		FieldConfig: &FieldConfig{Defaults: FieldDefaults{Unit: p.unit, Thresholds: Thresholds{Mode: "absolute", Steps: p.steps}}, Overrides: []struct{}{}}}
	if p.decimals >= 0 {
		out.FieldConfig.Defaults.Decimals = &p.decimals
	}
	if len(p.words) > 0 {
		out.FieldConfig.Defaults.Mappings = []Mapping{{Type: "value", Options: p.words}}
	}
	bottom := legend{DisplayMode: "list", Placement: "bottom", ShowLegend: true, Calcs: []string{}}
	switch p.kind {
	case "stat":
		out.Options = statOptions{ColorMode: "background", GraphMode: "area", JustifyMode: "auto", Orientation: "auto", TextMode: "value",
			ReduceOptions: reduceOptions{Calcs: []string{"lastNotNull"}}, WideLayout: true, PercentChangeColorMode: "standard"}
	case "timeseries":
		out.FieldConfig.Defaults.Min = value(0)
		limit := thresholdsStyle{Mode: "off"}
		if len(p.steps) > 1 {
			limit.Mode = "dashed"
		}
		out.FieldConfig.Defaults.Custom = lines{LineWidth: 1, FillOpacity: 10, ShowPoints: "never", ThresholdsStyle: limit}
		out.Options = timeSeriesOptions{Legend: bottom, Tooltip: tooltip{Mode: "multi", Sort: "desc"}}
	case "state-timeline":
		out.Options = timelineOptions{AlignValue: "left", MergeValues: true, RowHeight: 0.9, ShowValue: "auto", Legend: bottom, Tooltip: tooltip{Mode: "single", Sort: "none"}}
	}
	for i, q := range p.queries {
		out.Targets = append(out.Targets, Target{RefID: string(rune('A' + i)), Datasource: promSource, Expr: filters.Replace(q.expr), LegendFormat: q.legend, Range: true})
	}
	return out
}
