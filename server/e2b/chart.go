package e2b

import (
	"strings"

	"talaria/api"
)

// chartMedia is the data of a matplotlib figure, as docs/charts.md describes it.
const chartMedia = "application/vnd.talaria.chart+json"

// figure is what this package reads of it.
type figure struct {
	Title string `json:"title"`
	Axes  []axes `json:"axes"`
}

type axes struct {
	Title   string   `json:"title"`
	X       axis     `json:"x"`
	Y       axis     `json:"y"`
	Series  []series `json:"series"`
	BarMode string   `json:"bar_mode"`
	Grid    api.Raw  `json:"grid"`
}

type axis struct {
	Label      string   `json:"label"`
	Type       string   `json:"type"`
	Scale      string   `json:"scale"`
	Categories []string `json:"categories"`
	Ticks      struct {
		At   []api.Raw `json:"at"`
		Text []string  `json:"text"`
	} `json:"ticks"`
}

type series struct {
	Type        string    `json:"type"`
	Name        string    `json:"name"`
	Orientation string    `json:"orientation"`
	X           []api.Raw `json:"x"`
	Y           []api.Raw `json:"y"`
	Positions   []api.Raw `json:"positions"`
	Values      []api.Raw `json:"values"`
	Bins        []api.Raw `json:"bins"`
	Labels      []string  `json:"labels"`
	Shares      []float64 `json:"shares"`
	Stack       *int      `json:"stack"`
	Boxes       []struct {
		Position api.Raw   `json:"position"`
		Low      api.Raw   `json:"low"`
		Q1       api.Raw   `json:"q1"`
		Median   api.Raw   `json:"median"`
		Q3       api.Raw   `json:"q3"`
		High     api.Raw   `json:"high"`
		Outliers []api.Raw `json:"outliers"`
	} `json:"boxes"`
}

// chart translates a figure. What E2B has no words for (orientation, stacking, the place among subplots) is in further fields;
// the whole figure is in the result's "extra". ok is false for data that is none of ours.
func chart(drawn api.Raw) (c object, ok bool) {
	var f figure
	if err := api.UnmarshalLoose(drawn, &f); err != nil || len(f.Axes) == 0 {
		return nil, false
	}
	charts := make([]object, len(f.Axes))
	for i, a := range f.Axes {
		charts[i] = a.chart()
	}
	if len(charts) == 1 {
		if charts[0]["title"] == "" {
			charts[0]["title"] = f.Title
		}
		return charts[0], true
	}
	return object{"type": "superchart", "title": f.Title, "elements": charts}, true
}

// chart describes one pair of axes. Its type is that of the first series that E2B has a type for.
func (a axes) chart() object {
	kind := "unknown"
	elements := []object{}
	for _, s := range a.Series {
		of := kindOf(s.Type)
		if kind == "unknown" {
			kind = of
		}
		if of == kind && of != "unknown" {
			elements = append(elements, s.elements()...)
		}
	}
	c := object{"type": kind, "title": a.Title, "elements": elements}
	if a.Grid != nil {
		c["grid"] = a.Grid
	}
	if kind == "pie" {
		return c
	}
	c["x_label"], c["y_label"], c["x_unit"], c["y_unit"] = a.X.Label, a.Y.Label, unit(a.X.Label), unit(a.Y.Label)
	if kind == "line" || kind == "scatter" {
		c["x_ticks"], c["x_tick_labels"], c["x_scale"] = a.X.describe()
		c["y_ticks"], c["y_tick_labels"], c["y_scale"] = a.Y.describe()
	}
	for _, s := range a.Series {
		if s.Orientation != "" {
			c["orientation"] = s.Orientation
			break
		}
	}
	if a.BarMode != "" {
		c["bar_mode"], c["stacked"] = a.BarMode, strings.Contains(a.BarMode, "stacked")
	}
	return c
}

func kindOf(series string) string {
	switch series {
	case "line", "stem":
		return "line"
	case "scatter":
		return "scatter"
	case "bar", "histogram":
		return "bar"
	case "pie":
		return "pie"
	case "box":
		return "box_and_whisker"
	}
	return "unknown"
}

// describe returns the ticks that say more than their number, and the scale in E2B's words.
func (a axis) describe() (ticks []api.Raw, labels []string, scale string) {
	ticks, labels, scale = a.Ticks.At, a.Ticks.Text, a.Scale
	switch {
	case a.Type == "date":
		scale = "datetime"
	case a.Type == "category":
		scale, labels = "categorical", a.Categories
	case scale == "":
		scale = "linear"
	}
	return append([]api.Raw{}, ticks...), append([]string{}, labels...), scale
}

// unit is what stands in brackets in a label.
func unit(label string) string {
	for _, pair := range []string{"()", "[]"} {
		if _, rest, ok := strings.Cut(label, pair[:1]); ok {
			if inner, _, ok := strings.Cut(rest, pair[1:]); ok {
				return inner
			}
		}
	}
	return ""
}

func (s series) elements() []object {
	switch kindOf(s.Type) {
	case "line", "scatter":
		points := [][2]api.Raw{}
		for i := range min(len(s.X), len(s.Y)) {
			points = append(points, [2]api.Raw{s.X[i], s.Y[i]})
		}
		return []object{{"label": s.Name, "points": points}}
	case "bar":
		list := []object{}
		for i, value := range s.Values {
			e := object{"label": s.label(i), "group": s.Name, "value": value}
			if s.Stack != nil {
				e["stack"] = *s.Stack
			}
			list = append(list, e)
		}
		return list
	case "pie":
		list := []object{}
		for i, share := range s.Shares {
			label := ""
			if i < len(s.Labels) {
				label = s.Labels[i]
			}
			list = append(list, object{"label": label, "angle": share * 360, "radius": 1})
		}
		return list
	case "box_and_whisker":
		list := []object{}
		for _, b := range s.Boxes {
			list = append(list, object{
				"label": text(b.Position), "min": b.Low, "first_quartile": b.Q1, "median": b.Median, "third_quartile": b.Q3, "max": b.High,
				"outliers": append([]api.Raw{}, b.Outliers...),
			})
		}
		return list
	}
	return nil
}

// label names a bar: its category or position, or the edges of its bin.
func (s series) label(i int) string {
	switch {
	case i < len(s.Positions):
		return text(s.Positions[i])
	case i+1 < len(s.Bins):
		return text(s.Bins[i]) + " to " + text(s.Bins[i+1])
	}
	return ""
}

// text is a JSON string without its quotes, or any other value as it is.
func text(raw api.Raw) string {
	var s string
	if api.UnmarshalLoose(raw, &s) == nil {
		return s
	}
	return string(raw)
}
