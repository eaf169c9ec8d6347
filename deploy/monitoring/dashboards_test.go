package monitoring_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test . -run TestDashboardsAreCurrent -update
var update = flag.Bool("update", false, "write the dashboards anew")

type (
	// dashboard is a Grafana dashboard. deploy/monitoring/dashboards contains its JSON.
	dashboard struct {
		uid, title string
		// selector replaces "@" in expressions: it selects the labels of the dashboard's subject.
		selector  string
		variables []variable
		sections  []section
	}
	// variable is chosen from a list: the values of a label of a metric.
	variable struct {
		name, title, values string
		several             bool
	}
	section struct {
		title  string
		panels []panel
	}
	panel struct {
		// kind is Grafana's type of panel: stat, timeseries, table or state-timeline.
		kind, title, about string
		// unit is Grafana's name of a unit.
		unit    string
		queries []panelQuery
		// bad is the value from which the panel is red, or 0 for never. With low, values below bad are red.
		bad float64
		low bool
	}
	panelQuery struct{ expr, legend string }
)

// expressions returns the expressions of all panels.
func (d dashboard) expressions() (all []string) {
	for _, s := range d.sections {
		for _, p := range s.panels {
			for _, q := range p.queries {
				all = append(all, d.expr(q))
			}
		}
	}
	return all
}

func (d dashboard) expr(q panelQuery) string { return strings.ReplaceAll(q.expr, "@", d.selector) }

type object = map[string]any

func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// json returns the dashboard in the format that Grafana imports.
func (d dashboard) json(t *testing.T) []byte {
	t.Helper()
	variables := []any{object{
		"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
	}}
	for _, v := range d.variables {
		one := object{
			"name": v.name, "label": v.title, "type": "query", "datasource": source(), "refresh": 2, "sort": 1,
			"query": object{"query": v.values, "refId": v.name}, "definition": v.values,
		}
		if v.several {
			one["multi"], one["includeAll"], one["allValue"] = true, true, ".*"
			one["current"] = object{"text": "All", "value": "$__all"}
		}
		variables = append(variables, one)
	}
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	to.SetIndent("", " ")
	require.NoError(t, to.Encode(object{
		"uid": d.uid, "title": d.title, "tags": []string{"vmop"}, "schemaVersion": 39, "editable": true,
		"refresh": "30s", "graphTooltip": 1, "time": object{"from": "now-6h", "to": "now"},
		"templating": object{"list": variables},
		"panels":     d.panels(),
	}))
	return text.Bytes()
}

// panels places panels from left to right, in rows of 24 columns.
func (d dashboard) panels() (all []object) {
	x, y, line := 0, 0, 0 // line is the height of the current row
	place := func(o object, width, height int) {
		if x+width > 24 {
			x, y = 0, y+line
		}
		o["id"], o["gridPos"] = len(all)+1, object{"x": x, "y": y, "w": width, "h": height}
		x, line = x+width, height
		all = append(all, o)
	}
	for _, s := range d.sections {
		x, y = 0, y+line
		place(object{"type": "row", "title": s.title, "collapsed": false, "panels": []any{}}, 24, 1)
		for _, p := range s.panels {
			if p.kind == "stat" {
				place(d.panel(p), 4, 4)
			} else {
				place(d.panel(p), 12, 8)
			}
		}
	}
	return all
}

func (d dashboard) panel(p panel) object {
	defaults := object{"unit": p.unit, "min": 0}
	good, bad := "green", "red"
	if p.low {
		good, bad = bad, good
	}
	switch {
	case p.bad != 0:
		defaults["thresholds"] = object{"mode": "absolute", "steps": []object{
			{"color": good, "value": nil}, {"color": bad, "value": p.bad},
		}}
	case p.kind == "stat":
		defaults["color"] = object{"mode": "fixed", "fixedColor": "text"}
	}
	options := object{}
	switch p.kind {
	case "stat":
		options = object{
			"colorMode": "value", "graphMode": "none", "reduceOptions": object{"calcs": []string{"lastNotNull"}},
		}
		if p.queries[0].legend != "" {
			options["textMode"] = "name"
		}
	case "timeseries":
		defaults["custom"] = object{"fillOpacity": 10, "showPoints": "never"}
		options["tooltip"], options["legend"] = object{"mode": "multi", "sort": "desc"}, object{"placement": "right"}
	case "state-timeline":
		delete(defaults, "min")
		defaults["mappings"] = []object{{"type": "value", "options": object{
			"0": object{"text": "no", "color": "text"}, "1": object{"text": "yes", "color": "blue"},
		}}}
		options["showValue"] = "never"
	}
	var targets []object
	for i, q := range p.queries {
		target := object{
			"refId": string(rune('A' + i)), "datasource": source(), "expr": d.expr(q), "legendFormat": q.legend,
		}
		if p.kind != "timeseries" && p.kind != "state-timeline" {
			target["instant"], target["range"] = true, false
		}
		if p.kind == "table" {
			target["format"] = "table"
		}
		if q.legend == byVM {
			labels := "__field.labels"
			if p.kind == "table" {
				labels = "__data.fields" // shown as columns
			}
			defaults["links"] = []object{{
				"title": "the VM", "url": "/d/" + vmUID + "?var-datasource=${datasource}" +
					"&var-namespace=${" + labels + ".namespace}&var-vm=${" + labels + ".name}",
			}}
		}
		targets = append(targets, target)
	}
	return object{
		"type": p.kind, "title": p.title, "description": p.about, "datasource": source(), "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []any{}}, "options": options,
	}
}

// dashboards returns the dashboards by file.
func dashboards() map[string]dashboard {
	return map[string]dashboard{"dashboards/fleet.json": fleet(), "dashboards/vm.json": vm()}
}

func TestDashboardsAreCurrent(t *testing.T) {
	t.Parallel()
	for file, d := range dashboards() {
		text := d.json(t)
		if *update {
			require.NoError(t, os.WriteFile(file, text, 0o644))
		}
		there, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(text), string(there), "go generate ./deploy/monitoring writes %s anew", file)
	}
}
