package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

func TestParseSizes(t *testing.T) {
	t.Parallel()
	numbers, err := parseSizes("5, 10")
	require.NoError(t, err)
	require.Equal(t, []int{5, 10}, numbers)
	_, err = parseSizes("10,5")
	require.EqualError(t, err, "-n 10,5: VMs are added, so the numbers must grow")
	_, err = parseSizes("10,x")
	require.EqualError(t, err, `-n 10,x: "x" is no number of VMs`)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	all, err := parseMetrics(`# HELP x y
x{a="1",b="2"} 3
x{a="2",b="2"} 4
t_bucket{c="vm",le="0.1"} 90
t_bucket{c="vm",le="0.2"} 100
t_bucket{c="vm",le="+Inf"} 100
`)
	require.NoError(t, err)
	require.InDelta(t, 7, all.sumOf("x"), 0)
	require.InDelta(t, 3, all.sumOf("x", `a="1"`), 0)
	require.Zero(t, all.sumOf("y"))
	require.InDelta(t, 0.05, all.quantileOf(0.45, nil, "t"), 1e-9)
	require.InDelta(t, 0.19, all.quantileOf(0.99, nil, "t", `c="vm"`), 1e-9)
	require.InDelta(t, 0.15, all.quantileOf(0.5, metrics{
		`t_bucket{c="vm",le="0.1"}`: 90, `t_bucket{c="vm",le="0.2"}`: 90,
		`t_bucket{c="vm",le="+Inf"}`: 90,
	}, "t"), 1e-9)
	require.Zero(t, all.quantileOf(0.5, all, "t"))
	_, err = parseMetrics("x y\n")
	require.ErrorContains(t, err, "metric x y")
}

func TestAudit(t *testing.T) {
	t.Parallel()
	a := audit{path: filepath.Join(t.TempDir(), "log")}
	write := func(text string) {
		t.Helper()
		file, err := os.OpenFile(a.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = file.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	write(`{"verb":"patch","objectRef":{"resource":"vms","subresource":"status"},"requestURI":"/apis/x"}` + "\n" +
		`{"verb":"watch","objectRef":{"resource":"pods"}}` + "\n" + `{"verb":"get","requestURI":"/api?timeout=32s"}` +
		"\n" + `{"verb":"cre`)
	found, err := a.drainCalls()
	require.NoError(t, err)
	require.Equal(t, calls{"patch vms/status": 1, "watch pods": 1, "get /api": 1}, found)
	require.Equal(t, 1, found.countWrites())
	require.Equal(t, 1, found.countReads())
	require.Equal(t, "1 x get /api, 1 x patch vms/status, 1 x watch pods", found.String())
	write(`ate","objectRef":{"resource":"pods"}}` + "\n")
	found, err = a.drainCalls()
	require.NoError(t, err)
	require.Equal(t, calls{"create pods": 1}, found)
	found.addCalls(calls{"create pods": 2, "update leases": 3, "list vms": 4, "deletecollection pods": 5})
	require.Equal(t, calls{"create pods": 3, "update leases": 3, "list vms": 4, "deletecollection pods": 5}, found)
	require.Equal(t, []int{8, 4, 3}, []int{found.countWrites(), found.countReads(), found.countRenewals()})
	write("no JSON\n")
	_, err = a.drainCalls()
	require.ErrorContains(t, err, "read the audit log: ")
	_, err = (&audit{path: filepath.Join(a.path, "none")}).drainCalls()
	require.ErrorContains(t, err, "read the audit log: ")
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	values := []float64{4, 1, 3, 2}
	for part, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.99: 4, 1: 4} {
		require.InDelta(t, want, quantileAt(values, part), 0, part)
	}
	require.Zero(t, quantileAt(nil, 0.5))
}

// Only the first time of a name counts, and only after beginTimes.
func TestTimes(t *testing.T) {
	t.Parallel()
	var seen times
	seen.recordTime("early")
	seen.beginTimes()
	seen.recordTime("a")
	all := seen.allTimes()
	seen.recordTime("a")
	seen.recordTime("b")
	require.Len(t, all, 1, "it is a copy")
	require.Equal(t, all["a"], seen.allTimes()["a"])
	require.Len(t, seen.allTimes(), 2)
	seen.beginTimes()
	require.Empty(t, seen.allTimes())
}

// The measurement's runners write the same status as real runners.
func TestSaying(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "u"}}
	for state, want := range map[string]string{
		"Booting": "2 4294967296 Running=True/VmStarted Booted=False/VmStarted Ready=True/VmStarted ConfigApplied=True/",
		"Booted":  "2 4294967296 Running=True/VmBooted Booted=True/VmBooted Ready=True/VmBooted ConfigApplied=True/",
		"Stopped": "0 0 Running=False/VmStopped Booted=False/VmStopped Ready=False/VmStopped ConfigApplied=False/",
	} {
		text, err := json.Marshal(runnerStatus("web", pod, state))
		require.NoError(t, err)
		var vm v1.VirtualMachine
		require.NoError(t, json.Unmarshal(text, &vm))
		s := vm.Status
		require.Equal(t, "web", vm.Name)
		require.Equal(t, v1.RunnerStatus{PodName: "web-0", PodUID: "u", State: state}, *s.Runner)
		require.Equal(t, state == "Booted", s.OSInfo != nil && len(s.Interfaces) == 2, state)
		is := fmt.Sprint(s.CPUs, " ", s.RAM)
		for _, c := range s.Conditions {
			require.WithinDuration(t, time.Now(), c.LastTransitionTime.Time, time.Hour)
			switch c.Type {
			case v1.ConditionConfigApplied:
				is += fmt.Sprintf(" %s=%s/", c.Type, c.Status)
			case v1.ConditionRunning, v1.ConditionBooted, v1.ConditionReady:
				is += fmt.Sprintf(" %s=%s/%s", c.Type, c.Status, c.Reason)
			default:
				require.Equal(t, metav1.ConditionFalse, c.Status, c.Type)
			}
		}
		require.Equal(t, want, is)
		require.Len(t, s.Conditions, 8)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	r := report{
		Date: "2026-01-01", LoadBefore: "1.00", LoadAfter: "2.00",
		Rounds: []round{
			{Memory: 30 << 20, Restarted: 30 << 20},
			{
				VMs: 1000, Added: 1000, Created: 10, Running: 20, Calls: calls{
					"patch vms/status": 2000,
					"patch configmaps": 6500,
				}, Reconciled: 5000, Median: 0.01, P99: 0.05,
				Processor: 10, Memory: 50 << 20, Synced: 1, Looked: 2, AfterRestart: calls{"list vms": 1},
				IdleP99: 0.04, Restarted: 38 << 20,
			},
			{
				VMs: 2000, Added: 1000, Created: 10, Running: 40, Calls: calls{"patch vms/status": 2000},
				Reconciled: 5000, Median: 0.01, P99: 0.15,
				Processor: 10, Memory: 70 << 20, Synced: 6, Looked: 7, AfterRestart: calls{"list vms": 1},
				IdleP99: 0.12, Restarted: 46 << 20,
			},
		},
		Idle: quiet{Seconds: 60, Calls: calls{"watch vms": 1, "update leases": 30}, Processor: 0.01},
		Single: single{
			VMs: 2100, Reconciled: 0.02, ReconciledP99: 0.08, Edited: 0.03, EditedP99: 0.09, OperatedP95: 0.2,
		},
	}
	table := r.markdownTable()
	for _, want := range []string{
		`\| memory after a restart, MiB +\| 30\.0 +\| 38\.0 +\| 46\.0 +\| <= 10 KiB/VM +\| met `,
		`\| memory after creating them, MiB +\| .* \| missed `,
		`\| writes per VM, created to booted +\| +\| 8\.50 +\| 2\.00 +\| <= 8 +\| missed `,
		`\| reads per VM, created to booted +\| +\| 0\.00 +\| 0\.00 +\| 0 +\| met `,
		`\| VMs booted per second +\| +\| 50 +\| 25 +\| >= 50 +\| missed `,
		`\| reconciliation at that speed, p99, ms +\| +\| 50 +\| 150 +\| +\| +\|`,
		`\| reconciliation with nothing to do, p99, ms +\| +\| 40 +\| 120 +\| <= 100 +\| missed `,
		`\| Every 200ms, with 2100 VMs +\|`,
		`\| reconciliation, ms +\| 20 +\| 80 +\| p99 <= 100 \| met \|`,
		`\| a running VM is changed, until its pod has it, ms +\| 30 +\| 90 +\|`,
		`\| a reset is asked for, until the pod has it, ms \(p95\) +\| 0 +\| 200 +\| p95 <= 300 +\| met `,
		`\| restart until synced, s +\| +\| 1\.0 +\| 6\.0 +\| <= 5 +\| missed `,
		`memory after a restart: 8\.2 KiB per VM, R² 1\.0000`,
		`idle for 60 s: 0 writes, 0 reads, 10 ms of processor time, and 30 renewals of the lease`,
	} {
		require.Regexp(t, want, table)
	}
}
