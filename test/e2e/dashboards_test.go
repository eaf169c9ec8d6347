//go:build promtool

package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/test/program"
	"vmop/test/wait"
)

var update = flag.Bool("update", false, "make the pictures of the dashboards again")

// watched is how long Prometheus scrapes before the dashboards are drawn. It is longer than the alert's waiting time.
const watched = 12 * time.Minute

// A real Prometheus scrapes the manager as docs/tasks/alerts.md describes, with busy VMs and a VM that can't start.
// Each panel of the dashboards has data, and the alert fires. With -update, the dashboards are drawn for the
// documentation.
func TestDashboards(t *testing.T) {
	l := newLab(t)
	p := newPrometheus(t, l)
	began := time.Now()
	busyVMs(t, l)
	time.Sleep(time.Until(began.Add(watched)))
	wait.For(t, "the alert of the VM that can't start", func() error {
		if is := p.query(t, `ALERTS{alertname="VmopStartFails",alertstate="firing"}`, nil); len(is) != 1 {
			return fmt.Errorf("%v", is)
		}
		return nil
	})
	fill := strings.NewReplacer("$__rate_interval", "30s", "$namespace", namespace, "$vm", "web")
	for _, name := range []string{"fleet", "vm"} {
		var d dashboard
		text, err := os.ReadFile("../../deploy/monitoring/dashboards/" + name + ".json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &d))
		to := time.Now()
		for i := range d.Panels {
			panel := d.Panels[i]
			for _, target := range panel.Targets {
				span := []time.Time{began, to}
				if target.Instant {
					span = nil
				}
				for _, r := range p.query(t, fill.Replace(target.Expr), span) {
					panel.series = append(panel.series, seriesOf(t, r, target.Legend))
				}
			}
			if panel.Type != "row" && !mayBeEmpty[name+": "+panel.Title] {
				require.NotEmpty(t, panel.series, "%s: %s: %v", name, panel.Title, panel.Targets)
			}
		}
		if *update {
			d.picture(t, began, to, "../../docs/pictures/dashboard-"+name+".png")
		}
	}
}

// mayBeEmpty lists panels about events that don't happen here.
var mayBeEmpty = map[string]bool{
	"fleet: VMs asked for": true, "fleet: Log-ins refused": true, "fleet: VMs with problems": true, "vm: Alerts": true,
}

// busyVMs creates busy VMs, and a VM that can't start.
func busyVMs(t *testing.T, l *lab) {
	t.Helper()
	l.create(t, tiny("broken", func(s *v1.VirtualMachineSpec) { s.VM.Kernel.Image = "missing" }))
	for _, name := range []string{"desk-1", "desk-2"} {
		l.create(t, tiny(name, func(s *v1.VirtualMachineSpec) { s.Pools = []string{"desks"} }))
	}
	l.applyText(t, `
apiVersion: vmoperator.jdrupes.org/v1
kind: VmPool
metadata: {name: desks, namespace: `+namespace+`}
spec: {permissions: [{user: admin, may: [start]}]}`)
	var web *clusterVM
	for name, does := range map[string]string{
		"web":  "dd if=/dev/zero of=/dev/vda bs=64k count=128 conv=fsync; dd if=/dev/vda of=/dev/null bs=64k; sleep 2",
		"mail": "dd if=/dev/zero of=/dev/vda bs=4k count=32 conv=fsync; sleep 5",
		"jobs": "dd if=/dev/zero of=/dev/null bs=64k count=20000; sleep 20",
	} {
		disk := withDisk("data-"+name, corev1.PersistentVolumeBlock)
		v := l.create(t, tiny(name, disk, func(s *v1.VirtualMachineSpec) {
			s.VM.Networks = []v1.Network{{Masquerade: &v1.PrivateNetwork{}}}
			s.VM.Kernel.CommandLine += " tiny.dhcp"
		}))
		v.runs()
		inside := v.console().booted()
		require.Equal(t, "begun", inside.ask("(while :; do "+does+"; done) >/dev/null 2>&1 & echo begun"))
		if name == "web" {
			web = v
		}
	}
	address := web.pod().Status.PodIP
	l.reaches(t, address)
	meanwhile(t, func(ctx context.Context) {
		_ = l.OnNode(ctx, 1, "busybox", "wget", "-q", "-O", "-", "http://"+address+"/").Run()
	})
}

// prometheus scrapes the manager every 5 seconds.
type prometheus struct{ client *http.Client }

// newPrometheus builds and starts Prometheus in the network of a node.
func newPrometheus(t *testing.T, l *lab) prometheus {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, program.LookInto("../../tools/prometheus"))
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "remove_all_sd", "-o", dir+"/",
		"github.com/prometheus/prometheus/cmd/prometheus")
	build.Dir, build.Env = "../../tools/prometheus", append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	var rules struct {
		Spec any `yaml:"spec"`
	}
	text, err := os.ReadFile("../../deploy/monitoring/alerts.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &rules))
	text, err = yaml.Marshal(rules.Spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o644))
	targets := fmt.Sprintf("static_configs: [{targets: ['%s:8082'], labels: {namespace: %s}}]",
		l.manager(t).Status.PodIP, namespace)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(`
global: {scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 5s}
rule_files: [rules.yaml]
scrape_configs:
- {job_name: vm-operator, `+targets+`}
- {job_name: vms, metrics_path: /metrics/vms, honor_labels: true, `+targets+"}\n"), 0o644))
	server := l.Inside(context.WithoutCancel(t.Context()), filepath.Join(dir, "prometheus"),
		"--config.file="+filepath.Join(dir, "config.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:9090", "--log.level=warn")
	log := &strings.Builder{}
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		finish(server)
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return prometheus{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return l.Dial(ctx, network, address)
		},
	}}}
}

// result is a Prometheus series: times, in seconds since 1970, and values.
type result struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
	Values [][2]any          `json:"values"`
}

// query returns the value of an expression now, or in a time span.
func (p prometheus) query(t *testing.T, expr string, span []time.Time) []result {
	t.Helper()
	address, values := "http://127.0.0.1:9090/api/v1/query", url.Values{"query": {expr}}
	if len(span) > 0 {
		address += "_range"
		values.Set("start", fmt.Sprint(span[0].Unix()))
		values.Set("end", fmt.Sprint(span[1].Unix()))
		values.Set("step", "5")
	}
	response, err := p.client.PostForm(address, values)
	if err != nil {
		return nil // it has just started
	}
	defer response.Body.Close()
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []result `json:"result"`
		} `json:"data"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.Empty(t, answer.Error, expr)
	return answer.Data.Result
}
