// Package monitoring_test checks the alerts and generates the dashboards. make alerts evaluates both with Prometheus'
// promtool.
package monitoring_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// alert is a rule of alerts.yaml.
type alert struct {
	Alert               string
	Expr                string
	For                 string
	Labels, Annotations map[string]string
}

// read returns the alerts and their rule file, which is the spec of the PrometheusRule.
func read(t *testing.T) (alerts map[string]alert, file string) {
	t.Helper()
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	var rule struct{ Spec yaml.Node }
	require.NoError(t, yaml.Unmarshal(text, &rule))
	spec, err := yaml.Marshal(&rule.Spec)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, spec, 0o600))
	var content struct{ Groups []struct{ Rules []alert } }
	require.NoError(t, rule.Spec.Decode(&content))
	alerts = map[string]alert{}
	for _, group := range content.Groups {
		for _, a := range group.Rules {
			require.NotContains(t, alerts, a.Alert)
			alerts[a.Alert] = a
		}
	}
	return alerts, file
}

// Every metric that an alert or a dashboard uses is in the tables of metrics. A test of runner/control compares the
// runner's table with the exported metrics.
func TestWhatIsExportedIsReferredTo(t *testing.T) {
	t.Parallel()
	var pages string
	for _, page := range []string{"manager", "control"} {
		text, err := os.ReadFile("../../docs/reference/" + page + ".md")
		require.NoError(t, err)
		pages += string(text)
	}
	pages = strings.NewReplacer("`", "", ", ", "\n| ", "{", " ").Replace(pages)
	metric := regexp.MustCompile(`\b(vmop|controller_runtime|leader_election|workqueue|rest_client)_[a-z_]+`)
	refersToWhatIsThere := func(expr string) {
		all := metric.FindAllString(expr, -1)
		for _, name := range all {
			row := "\n| " + strings.TrimSuffix(name, "_bucket")
			require.True(t, strings.Contains(pages, row+" ") || strings.Contains(pages, row+"\n"), name)
		}
		require.True(t, len(all) > 0 || strings.Contains(expr, "ALERTS{"), expr)
	}
	alerts, _ := read(t)
	for _, a := range alerts {
		refersToWhatIsThere(a.Expr)
	}
	for _, d := range dashboards() {
		for _, expr := range d.expressions() {
			refersToWhatIsThere(expr)
		}
	}
}

// Each alert refers to its section of docs/tasks/alerts.md, and each section belongs to an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/tasks/alerts.md")
	require.NoError(t, err)
	alerts, _ := read(t)
	for name, a := range alerts {
		require.Contains(t, string(text), "\n### "+name+"\n")
		require.Equal(t, "docs/tasks/alerts.md#"+strings.ToLower(name), a.Annotations["runbook"])
		require.NotEmpty(t, a.Annotations["summary"])
		require.NotEmpty(t, a.Annotations["description"])
		require.Contains(t, []string{"critical", "warning", "info"}, a.Labels["severity"])
	}
	require.Equal(t, len(alerts), strings.Count(string(text), "\n### "))
}
