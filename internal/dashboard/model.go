package dashboard

// Dashboard is a dashboard as Grafana reads it.
type Dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Editable      bool       `json:"editable"`
	GraphTooltip  int        `json:"graphTooltip"` // 1: the crosshair is shared by all panels
	Refresh       string     `json:"refresh"`
	Time          TimeRange  `json:"time"`
	Timezone      string     `json:"timezone"`
	Templating    Templating `json:"templating"`
	Annotations   List       `json:"annotations"`
	Panels        []Panel    `json:"panels"`
}

// TimeRange is what is shown when the dashboard is opened.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// List is a list that has nothing in it here but must be there.
type List struct {
	List []struct{} `json:"list"`
}

// Templating holds the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is a choice at the top of the dashboard.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`  // datasource or query
	Query      string      `json:"query"` // the plug-in of a datasource, or label_values(...)
	Datasource *Datasource `json:"datasource,omitempty"`
	Refresh    int         `json:"refresh"` // 2: when the time range changes
	Multi      bool        `json:"multi"`
	IncludeAll bool        `json:"includeAll"`
	AllValue   string      `json:"allValue,omitempty"`
	Sort       int         `json:"sort"` // 1: by the alphabet
}

// Datasource names a data source, here always by the variable.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is one panel, or the heading of a row.
type Panel struct {
	ID          int          `json:"id"`
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	Datasource  *Datasource  `json:"datasource,omitempty"`
	GridPos     GridPos      `json:"gridPos"`
	Collapsed   *bool        `json:"collapsed,omitempty"` // of a row
	Panels      []Panel      `json:"panels,omitzero"`     // of a row that is collapsed; none is, but the list must be there
	Targets     []Target     `json:"targets,omitempty"`
	FieldConfig *FieldConfig `json:"fieldConfig,omitempty"`
	Options     any          `json:"options,omitempty"`
}

// GridPos places a panel on a grid of 24 columns.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is one query.
type Target struct {
	RefID        string     `json:"refId"`
	Datasource   Datasource `json:"datasource"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	Instant      bool       `json:"instant"`
	Range        bool       `json:"range"`
}

// FieldConfig says how values are shown.
type FieldConfig struct {
	Defaults  FieldDefaults `json:"defaults"`
	Overrides []struct{}    `json:"overrides"`
}

// FieldDefaults hold for every value of a panel.
type FieldDefaults struct {
	Unit       string     `json:"unit"`
	Decimals   *int       `json:"decimals,omitempty"`
	Min        *float64   `json:"min,omitempty"`
	Thresholds Thresholds `json:"thresholds"`
	Mappings   []Mapping  `json:"mappings,omitempty"`
	Custom     any        `json:"custom,omitempty"`
}

// Thresholds colour values.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is a colour from a value on; the first has none and holds below.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Mapping shows values as words.
type Mapping struct {
	Type    string          `json:"type"`
	Options map[string]Word `json:"options"`
}

// Word stands for a value.
type Word struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

// lines is how a time series is drawn.
type lines struct {
	LineWidth       int             `json:"lineWidth"`
	FillOpacity     int             `json:"fillOpacity"`
	ShowPoints      string          `json:"showPoints"`
	SpanNulls       bool            `json:"spanNulls"`
	ThresholdsStyle thresholdsStyle `json:"thresholdsStyle"`
}

// thresholdsStyle says whether a threshold is drawn: off, or dashed.
type thresholdsStyle struct {
	Mode string `json:"mode"`
}

// timeSeriesOptions are the options of a panel of type timeseries.
type timeSeriesOptions struct {
	Legend  legend  `json:"legend"`
	Tooltip tooltip `json:"tooltip"`
}

type legend struct {
	DisplayMode string   `json:"displayMode"`
	Placement   string   `json:"placement"`
	ShowLegend  bool     `json:"showLegend"`
	Calcs       []string `json:"calcs"`
}

type tooltip struct {
	Mode string `json:"mode"`
	Sort string `json:"sort"`
}

// statOptions are the options of a panel of type stat.
type statOptions struct {
	ColorMode     string        `json:"colorMode"`
	GraphMode     string        `json:"graphMode"`
	JustifyMode   string        `json:"justifyMode"`
	Orientation   string        `json:"orientation"`
	TextMode      string        `json:"textMode"`
	ReduceOptions reduceOptions `json:"reduceOptions"`

	WideLayout             bool   `json:"wideLayout"`
	ShowPercentChange      bool   `json:"showPercentChange"`
	PercentChangeColorMode string `json:"percentChangeColorMode"`
}

type reduceOptions struct {
	Calcs  []string `json:"calcs"`
	Fields string   `json:"fields"`
	Values bool     `json:"values"`
}

// timelineOptions are the options of a panel of type state-timeline.
type timelineOptions struct {
	AlignValue  string  `json:"alignValue"`
	MergeValues bool    `json:"mergeValues"`
	RowHeight   float64 `json:"rowHeight"`
	ShowValue   string  `json:"showValue"`
	Legend      legend  `json:"legend"`
	Tooltip     tooltip `json:"tooltip"`
}
