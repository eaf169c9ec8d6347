package e2e_test

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/web/stream"
	"vmop/qmp"
	"vmop/runner/control"
	"vmop/test/cluster/clustertest"
	"vmop/test/wait"
)

// The test acts as another replica of the manager. It reads the key that the first replica created, and reaches a VM's
// runner in a pod that passes Pod Security "restricted": status, screen and console.
func managerReachesRunner(t *testing.T, l *lab) {
	v := l.create(t, tiny("streamed", func(s *v1.VirtualMachineSpec) {
		s.VM.Display = &v1.Display{Spice: &v1.Spice{Port: 5900}}
	}))
	v.runs()
	config, err := clustertest.Config(l.Cluster)
	require.NoError(t, err)
	core, err := client.NewForConfig(config)
	require.NoError(t, err)
	keys := stream.NewKeys(core.Secrets(namespace), core.ConfigMaps(namespace), slog.New(slog.DiscardHandler))
	keys.Connect = l.Dial
	require.NoError(t, keys.Refresh(t.Context()))

	now := v.until("to say where its runner is", func(now *v1.VirtualMachine) bool {
		return now.Status.Runner.Control != nil
	})
	require.Empty(t, now.Status.Privileges, "the pod passes restricted")
	pod := v.pod()
	target, err := stream.TargetOf(now, pod.UID, pod.Status.PodIP)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(target.Address, ":7443"))
	ctx := t.Context()
	alice := keys.Client(target, "alice")
	status, err := alice.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, "streamed", status.Name)
	_, err = alice.QMP(ctx, qmp.Command{Execute: "quit"})
	var refused *control.AnswerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 404, refused.Code)

	var shot bytes.Buffer
	require.NoError(t, alice.Screenshot(ctx, &shot))
	_, err = png.Decode(&shot)
	require.NoError(t, err)
	screen, err := alice.Screen(ctx, control.Watch)
	require.NoError(t, err)
	defer screen.Close()
	version := make([]byte, 12)
	_, err = io.ReadFull(screen, version)
	require.NoError(t, err)
	require.Equal(t, "RFB 003.008\n", string(version))
	console, err := alice.Console(ctx, control.Watch)
	require.NoError(t, err)
	defer console.Close()
	buffer, text := make([]byte, 4<<10), ""
	for !strings.Contains(text, "READY") {
		n, err := console.Read(buffer)
		require.NoError(t, err, text)
		text += string(buffer[:n])
	}
	v.until("to be watched", func(now *v1.VirtualMachine) bool {
		c := meta.FindStatusCondition(now.Status.Conditions, v1.ConditionConsoleConnected)
		return c != nil && c.Message == "watching vnc alice; watching serial alice"
	})

	l.hasMetrics(t, "streamed")

	lie := target
	lie.Key = strings.Repeat("0", 64)
	_, err = keys.Client(lie, "").Status(ctx)
	require.ErrorIs(t, err, stream.ErrOther)
}

// hasMetrics requires that the manager exports a VM's metrics for Prometheus.
func (l *lab) hasMetrics(t *testing.T, vm string) {
	t.Helper()
	manager := l.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/name=vm-operator",
		"-o", "jsonpath={.items[0].status.podIP}")
	prometheus := &http.Client{Transport: &http.Transport{DialContext: l.Dial}}
	labels := `{name="` + vm + `",namespace="` + namespace + `"`
	wait.For(t, "the VM's metrics at the manager", func() error {
		answer, err := prometheus.Get("http://" + net.JoinHostPort(manager, "8082") + "/metrics/vms")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		for _, metric := range []string{
			`vmop_vm_scraped` + labels + "} 1\n", `vmop_vm_condition` + labels + `,condition="Running"} 1` + "\n",
			`vmop_vm_consoles` + labels + `,kind="serial"} 1` + "\n",
		} {
			if err == nil && !strings.Contains(string(text), "\n"+metric) {
				err = fmt.Errorf("%s is missing in:\n%s", metric, text)
			}
		}
		return err
	})
}
