//go:build promtool

package monitoring_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	v1 "vmop/api/v1"
	"vmop/manager/pool"
	"vmop/manager/vm/scrape"
	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/test/program"
	"vmop/test/wait"
)

// exported returns the series that a manager exports for the VM web in a real runner.
func exported(t *testing.T) (all []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "web") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	for name, content := range map[string]string{
		"disk": string(guest.Sector()) + strings.Repeat("\x00", 1<<20),
		"config.yaml": `"/Runner": {dataDir: data, runtimeDir: run, vm: {name: as-it-says-itself, accelerator: tcg, firmware: bios,
  maximumRam: 64 MiB, network: [], powerdownTimeout: 0, drives: [{file: ` + filepath.Join(dir, "disk") + "}]}}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	runner := filepath.Join(t.TempDir(), "vmrunner")
	require.NoError(t, program.Build(t.Context(), runner, "vmop/cmd/vmrunner"))
	var log strings.Builder
	cmd := exec.Command(runner, "run", "-c", filepath.Join(dir, "config.yaml"))
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	metrics := ""
	wait.Until(t, func() bool {
		client, err := control.Dial(t.Context(), filepath.Join(dir, "run/control.sock"))
		if err != nil {
			return false
		}
		w := httptest.NewRecorder()
		scrape.New(scrape.Options{
			Namespace: "demo", VMs: func() []string { return []string{"web"} }, Log: slog.New(slog.DiscardHandler),
			Runner: func(string) (scrape.Runner, error) { return client, nil },
		}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics/vms", nil))
		metrics = w.Body.String()
		return strings.Contains(metrics, `condition="Running"} 1`) && strings.Contains(metrics, "drive=")
	})
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	return all
}

// played returns fake series of a manager: some with problems, and some that the VM lacks, such as taps.
func played() []string {
	all := []string{
		`ALERTS{alertname="VmopProblems",alertstate="firing",namespace="demo",name="web"}`, inPhase(v1.PhaseFailed),
		inPool(pool.Free), leads + "{" + leader + "}", errs, "vmop_apiserver_away{" + leader + "}",
		"vmop_config_faulty{" + leader + "}", `vmop_pool_claims_total{` + leader + `,result="none"}`,
		"vmop_sessions{" + leader + "}", `vmop_streams_open{` + leader + `,kind="screen"}`,
		`vmop_logins_refused_total{` + leader + `,cause="rate"}`, `workqueue_depth{` + leader + `,name="vm"}`,
		`rest_client_requests_total{` + leader + `,code="200",method="GET"}`,
		`controller_runtime_reconcile_time_seconds_bucket{` + leader + `,controller="vm",le="+Inf"}`,
		`vmop_vm_start_seconds_bucket{` + leader + `,step="pod",le="10"}`,
		`vmop_vm_start_seconds_bucket{` + leader + `,step="pod",le="+Inf"}`,
		"vmop_vm_problems{" + of("faulty", "demo") + "}",
		`vmop_vm_condition{condition="Running",` + of("faulty", "demo") + "}",
	}
	for _, direction := range []string{"receive", "transmit"} {
		for _, what := range []string{"bytes", "packets", "errors", "packets_dropped"} {
			all = append(all, "vmop_vm_network_"+direction+"_"+what+`_total{interface="tap0",`+of("web", "demo")+"}")
		}
	}
	return all
}

// Prometheus returns a value for each expression of the dashboards that has matching series.
func TestDashboardsAreEvaluated(t *testing.T) {
	t.Parallel()
	u := unit{Name: "dashboards", Step: "15s", Series: []series{
		{`vmop_vm_scraped{` + of("silent", "demo") + "}", always("0")},
		{`vmop_vm_condition{condition="Ready",` + of("faulty", "demo") + "}", always("0")},
	}}
	for _, s := range append(exported(t), played()...) {
		u.Series = append(u.Series, series{s, "1+1x400"})
		name, _, _ := strings.Cut(s, "{")
		if name == "vmop_vm_state" || name == "vmop_vm_condition" || name == leads {
			u.Series[len(u.Series)-1].Values = always("1")
		}
	}
	fill := strings.NewReplacer("$__rate_interval", "2m", "$namespace", "demo", "$vm", "web", none, "")
	expressions := 0
	for _, file := range slices.Sorted(maps.Keys(dashboards())) {
		for _, expr := range dashboards()[file].expressions() {
			u.Queries = append(u.Queries, query{Expr: fmt.Sprintf("absent(%s)", fill.Replace(expr)), At: "1h"})
			expressions++
		}
	}
	require.Greater(t, expressions, 40)
	text, err := yaml.Marshal(map[string]any{"evaluation_interval": "1m", "tests": []unit{u}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "tests.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	run(t, filepath.Join(build(t), "promtool"), "test", "rules", file)
}
