package dashboard

import (
	"encoding/json"
	"fmt"
)

const gridColumns = 24

// row is a heading with panels of one size below it.
type row struct {
	title         string
	width, height int
	panels        []panel
}

// Build returns the dashboard.
func Build() Dashboard {
	d := Dashboard{
		UID:           "redrive",
		Title:         "Redrive",
		Description:   "Whether anything is wrong, which dependency, why retries stopped, and what it costs. Each alert has its section in docs/runbook.md. Made by internal/dashboard: change it there.",
		Tags:          []string{"redrive"},
		SchemaVersion: 39,
		Editable:      true,
		GraphTooltip:  1,
		Refresh:       "30s",
		Time:          TimeRange{From: "now-3h", To: "now"},
		Timezone:      "browser",
		Annotations:   List{List: []struct{}{}},
		Templating: Templating{List: []Variable{
			{Name: "datasource", Label: "Prometheus", Type: "datasource", Query: "prometheus", Refresh: 1},
			{Name: "job", Label: "job", Type: "query", Query: "label_values(redrive_build_info, job)",
				Datasource: &promSource, Refresh: 2, Multi: true, IncludeAll: true, AllValue: ".*", Sort: 1},
			// All takes in other, too: what stands in Redis and in no configuration.
			{Name: "dependency", Label: "dependency", Type: "query", Query: `label_values(redrive_slots{job=~"$job"}, dependency)`,
				Datasource: &promSource, Refresh: 2, Multi: true, IncludeAll: true, AllValue: ".*", Sort: 1},
		}},
	}
	id, y := 1, 0
	for _, r := range rows {
		open := false
		d.Panels = append(d.Panels, Panel{ID: id, Type: "row", Title: r.title, Collapsed: &open, Panels: []Panel{}, GridPos: GridPos{H: 1, W: gridColumns, Y: y}})
		id, y = id+1, y+1
		perLine := gridColumns / r.width
		for i, p := range r.panels {
			at := GridPos{H: r.height, W: r.width, X: i % perLine * r.width, Y: y + i/perLine*r.height}
			d.Panels = append(d.Panels, p.placed(id, at))
			id++
		}
		y += (len(r.panels) + perLine - 1) / perLine * r.height
	}
	return d
}

// JSON returns the dashboard as the file that Grafana loads.
func JSON() ([]byte, error) {
	b, err := json.MarshalIndent(Build(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the dashboard as JSON: %w", err)
	}
	return append(b, '\n'), nil
}
