//go:build promtool

package monitoring_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	v1 "vmop/api/v1"
	"vmop/manager/pool"
	"vmop/runner/status"
	"vmop/test/program"
	"vmop/vmstatus"
)

// prometheus is the module with Prometheus' programs.
const prometheus = "../../tools/prometheus"

// build builds promtool, without service discovery, which alerts don't need.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, program.LookInto(prometheus))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "remove_all_sd", "-o", dir+"/",
		"github.com/prometheus/prometheus/cmd/promtool")
	cmd.Dir, cmd.Env = prometheus, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

func run(t *testing.T, words ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// lasts is how long an alert's expression must be true. Go durations have no days.
func (a alert) lasts(t *testing.T) time.Duration {
	t.Helper()
	days, isDays := strings.CutSuffix(a.For, "d")
	if isDays {
		hours, err := time.ParseDuration(days + "h")
		require.NoError(t, err)
		return 24 * hours
	}
	d, err := time.ParseDuration(a.For)
	require.NoError(t, err)
	return d
}

// began is the first minute with a problem.
const began = 61 * time.Minute

// always and since return the values of a series, one per minute.
func always(v string) string { return v + "x20000" }

func since(before, then string) string { return before + "x60 " + then + "x20000" }

// of returns the labels of a VM, without a namespace outside of Kubernetes.
func of(vm, namespace string) string {
	if namespace == "" {
		return fmt.Sprintf("name=%q", vm)
	}
	return fmt.Sprintf("name=%q,namespace=%q", vm, namespace)
}

func condition(labels string, c vmstatus.ConditionType) string {
	return fmt.Sprintf("vmop_vm_condition{condition=%q,%s}", c, labels)
}

func inPhase(p v1.Phase) string { return fmt.Sprintf("vmop_vms{%s,phase=%q}", leader, p) }

func inPool(state pool.State) string {
	return fmt.Sprintf("vmop_pool_vms{%s,pool=%q,state=%q}", leader, "desktops", state)
}

const (
	leader  = `namespace="demo",pod="a"`
	standby = `namespace="demo",pod="b"`
	leads   = "leader_election_master_status"
	errs    = `controller_runtime_reconcile_errors_total{` + leader + `,controller="vm"}`
)

// healthy returns the series of two managers and of healthy VMs.
func healthy() map[string]string {
	all := map[string]string{
		"vmop_build_info{" + leader + "}": always("1"), "vmop_build_info{" + standby + "}": always("1"),
		leads + "{" + leader + "}": always("1"), leads + "{" + standby + "}": always("0"),
		"vmop_apiserver_away{" + leader + "}": always("0"), "vmop_config_faulty{" + leader + "}": always("0"),
		errs:                       "0+1x10 10x20000", // a few errors, followed by none
		inPhase(v1.PhaseFailed):    always("0"),
		inPhase(v1.PhaseMigrating): always("0"),
		inPhase(v1.PhaseRunning):   always("7"),
	}
	for i, state := range pool.States() {
		all[inPool(state)] = always(fmt.Sprint(i + 1))
	}
	for _, namespace := range []string{"", "demo"} {
		addVMs(all, namespace)
	}
	return all
}

// addVMs adds the series of healthy VMs.
func addVMs(all map[string]string, namespace string) {
	web, plain, ends := of("web", namespace), of("plain", namespace), of("ends", namespace)
	all["vmop_vm_problems{"+web+"}"], all["vmop_vm_pending_changes{"+web+"}"] = always("0"), always("0")
	all["vmop_vm_scraped{"+web+"}"] = always("1")
	for _, c := range status.deriveConditions(status.Status{}) {
		is := "0"
		if slices.Contains([]vmstatus.ConditionType{
			vmstatus.ConditionRunning, vmstatus.ConditionReady, vmstatus.ConditionVmopAgent,
		}, c.Type) {
			is = "1"
		}
		all[condition(web, c.Type)] = always(is)
	}
	// A VM without a log-in agent, and a VM that ends.
	all[condition(plain, vmstatus.ConditionRunning)] = always("1")
	all[condition(plain, vmstatus.ConditionReady)] = always("1")
	all[condition(plain, vmstatus.ConditionVmopAgent)] = always("0")
	for _, c := range []vmstatus.ConditionType{
		vmstatus.ConditionRunning, vmstatus.ConditionReady, vmstatus.ConditionVmopAgent,
	} {
		all[condition(ends, c)] = since("1", "0")
	}
}

// fault is a problem that makes an alert fire.
type fault struct {
	labels string // of the alert
	series map[string]string
	late   time.Duration // from the first bad sample until the expression is true
}

// faults returns the problems by alert. With namespace "" the VM runs outside of Kubernetes.
func faults(namespace string) map[string]fault {
	demo, web := `namespace="demo"`, of("web", namespace)
	single := func(labels, series, values string) fault {
		return fault{labels: labels, series: map[string]string{series: values}}
	}
	agent, running := condition(web, vmstatus.ConditionVmopAgent), `condition="Running",`+web
	away := single(demo, "vmop_apiserver_away{"+leader+"}", since("0", "1"))
	away.late = 2 * time.Minute // three of five minutes
	return map[string]fault{
		// One start attempt every five minutes.
		"VmopStartFails": single(demo, inPhase(v1.PhaseFailed), "0x60 "+strings.Repeat("1x3 0 ", 4000)),
		"VmopManagerAway": {labels: demo, series: map[string]string{
			"vmop_build_info{" + leader + "}": "1x60 stale", "vmop_build_info{" + standby + "}": "1x60 stale",
		}},
		"VmopNoLeader":            single(demo, leads+"{"+leader+"}", since("1", "0")),
		"VmopAPIServerAway":       away,
		"VmopConfigurationFaulty": single(demo, "vmop_config_faulty{"+leader+"}", since("0", "1")),
		"VmopPoolEmpty": {labels: demo + `,pool="desktops"`, series: map[string]string{
			inPool(pool.Free): since("1", "0"), inPool(pool.Expired): since("2", "0"),
		}},
		"VmopReconcileErrors": single(`controller="vm",`+demo, errs, "0x60 1+1x20000"),
		"VmopMigrationLasts":  single(demo, inPhase(v1.PhaseMigrating), since("0", "1")),
		"VmopLogInAgentLost":  single(`condition="VmopAgentConnected",`+web, agent, since("1", "0")),
		"VmopTPMLost": single(`condition="TPMLost",`+web,
			condition(web, vmstatus.ConditionTPMLost), since("0", "1")),
		"VmopNotReady":   single(running, condition(web, vmstatus.ConditionReady), since("1", "0")),
		"VmopProblems":   single(web, "vmop_vm_problems{"+web+"}", since("0", "2")),
		"VmopNotScraped": single(web, "vmop_vm_scraped{"+web+"}", since("1", "0")),
		"VmopRestartAwaited": single(`condition="RestartRequired",`+web,
			condition(web, vmstatus.ConditionRestartRequired), since("0", "1")),
	}
}

// The format of promtool's test files.
type (
	series struct{ Series, Values string }
	sample struct {
		Labels string
		Value  int
	}
	query struct {
		Expr    string
		At      string   `yaml:"eval_time"`
		Samples []sample `yaml:"exp_samples"`
	}
	unit struct {
		Name    string
		Step    string   `yaml:"interval"`
		Series  []series `yaml:"input_series"`
		Queries []query  `yaml:"promql_expr_test"`
	}
)

// firing returns a query for all alerts that fire.
func firing(at time.Duration, expected ...sample) query {
	return query{`ALERTS{alertstate="firing"}`, fmt.Sprintf("%dm", int(at.Minutes())), expected}
}

// Each alert fires alone, exactly when its problem has lasted for its "for" duration. With healthy VMs, no alert fires
// in eight days.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	alerts, rules := read(t)
	require.ElementsMatch(t, slices.Collect(maps.Keys(alerts)), slices.Collect(maps.Keys(faults(""))))
	const week = 8 * 24 * time.Hour
	units := []unit{newUnit("healthy", nil, firing(time.Minute), firing(began+time.Hour), firing(week))}
	for _, namespace := range []string{"", "demo"} {
		for name, f := range faults(namespace) {
			a := alerts[name]
			at := began + f.late + a.lasts(t)
			units = append(units, newUnit(name+" in "+namespace, f.series, firing(at-time.Minute), firing(at, sample{
				fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing",severity=%q,%s}`, name, a.Labels["severity"],
					f.labels), 1,
			})))
		}
	}
	programs := build(t)
	require.Contains(t, run(t, filepath.Join(programs, "promtool"), "check", "rules", "--lint-fatal", rules), "SUCCESS")
	text, err := yaml.Marshal(map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": units,
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "tests.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	run(t, filepath.Join(programs, "promtool"), "test", "rules", file)
}

func newUnit(name string, wrong map[string]string, queries ...query) unit {
	all := healthy()
	maps.Copy(all, wrong)
	u := unit{Name: name, Step: "1m", Queries: queries}
	for _, s := range slices.Sorted(maps.Keys(all)) {
		u.Series = append(u.Series, series{s, all[s]})
	}
	return u
}

// The component adds its resources to a kustomization.
func TestComponent(t *testing.T) {
	t.Parallel()
	built, err := program.Kustomize(t.Context(),
		"namespace: demo\nresources: [DEPLOY/manager]\ncomponents: [DEPLOY/monitoring]\n", "DEPLOY")
	require.NoError(t, err)
	require.Regexp(t, `kind: ConfigMap\nmetadata:\n  labels:\n    grafana_dashboard: "1"\n  name: vm-operator-dashboards\n  namespace: demo\n`,
		built)
	for _, kind := range []string{"PodMonitor", "PrometheusRule"} {
		require.Regexp(t, `kind: `+kind+`\nmetadata:\n  name: vm-operator\n  namespace: demo\n`, built)
	}
	require.Regexp(t, `- containerPort: 8082\n +name: metrics\n`, built)
	require.Regexp(t, `(?s)kind: Deployment\n.* template:\n +metadata:\n +labels:\n(?: +\S+: \S+\n)*? +`+
		`app.kubernetes.io/name: vm-operator\n`, built)
}
