// Package monitoring_test checks the alerts. make alerts has them evaluated by Prometheus' own promtool.
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

// An alert is a rule of alerts.yaml.
type alert struct {
	Alert               string
	Expr                string
	For                 string
	Labels, Annotations map[string]string
}

// read returns the alerts, and their rule file: the spec of the PrometheusRule.
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

// A metric that an alert refers to is in the tables of metrics. The runner's is compared with what it exports by a test
// of runner/control.
func TestAlertsAreAboutWhatIsExported(t *testing.T) {
	t.Parallel()
	var pages string
	for _, page := range []string{"manager", "control"} {
		text, err := os.ReadFile("../../docs/" + page + ".md")
		require.NoError(t, err)
		pages += string(text)
	}
	pages = strings.NewReplacer("`", "", ", ", "\n| ", "{", " ").Replace(pages)
	metric := regexp.MustCompile(`\b(vmop|controller_runtime|leader_election)_[a-z_]+`)
	alerts, _ := read(t)
	for name, a := range alerts {
		all := metric.FindAllString(a.Expr, -1)
		require.NotEmpty(t, all, name)
		for _, name := range all {
			require.Contains(t, pages, "\n| "+name+" ")
		}
	}
}

// Each alert names its section of docs/alerts.md, and each section is an alert's.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/alerts.md")
	require.NoError(t, err)
	alerts, _ := read(t)
	for name, a := range alerts {
		require.Contains(t, string(text), "\n### "+name+"\n")
		require.Equal(t, "docs/alerts.md#"+strings.ToLower(name), a.Annotations["runbook"])
		require.NotEmpty(t, a.Annotations["summary"])
		require.NotEmpty(t, a.Annotations["description"])
		require.Contains(t, []string{"critical", "warning", "info"}, a.Labels["severity"])
	}
	require.Equal(t, len(alerts), strings.Count(string(text), "\n### "))
}
