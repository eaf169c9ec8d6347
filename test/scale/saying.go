package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/vmstatus"
)

// runnerStatus returns the status that a runner applies for a state of its VM. It is as large as a real status with a
// guest agent, because the manager keeps it in memory.
func runnerStatus(name string, pod *corev1.Pod, state string) map[string]any {
	running, booted := state != "Stopped", state == "Booted"
	status := map[string]any{
		"runner": map[string]any{"podName": pod.Name, "podUID": pod.UID, "state": state},
		"vmType": "standard", "uuid": string(pod.UID), "runnerVersion": "0.0.0",
		"cpus": 0, "ram": "0", "consoleClient": "", "displayPasswordSerial": 0,
	}
	if running {
		status["cpus"], status["ram"] = 2, "4294967296"
	}
	if booted {
		status["osinfo"] = map[string]any{
			"id": "debian", "name": "Debian GNU/Linux", "pretty-name": "Debian GNU/Linux 12 (bookworm)",
			"version":    "12 (bookworm)",
			"version-id": "12", "kernel-release": "6.1.0-31-amd64",
			"kernel-version": "#1 SMP PREEMPT_DYNAMIC Debian 6.1.128-1", "machine": "x86_64",
		}
		status["interfaces"] = []any{
			map[string]any{"name": "lo", "mac": "00:00:00:00:00:00", "ips": []any{"127.0.0.1", "::1"}},
			map[string]any{
				"name": "enp1s0", "mac": "52:54:00:12:34:56",
				"ips": []any{"10.0.2.15", "fe80::5054:ff:fe12:3456"},
			},
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	var conditions []any
	reason := map[string]vmstatus.Reason{
		"Booting": vmstatus.ReasonVMStarted, "Booted": vmstatus.ReasonVMBooted,
		"Stopped": vmstatus.ReasonVMStopped,
	}[state]
	for _, c := range []struct {
		kind   string
		is     bool
		reason vmstatus.Reason
	}{
		{v1.ConditionRunning, running, reason},
		{v1.ConditionBooted, booted, reason},
		{v1.ConditionReady, running, reason},
		{v1.ConditionVmopAgent, false, vmstatus.ReasonVmopAgentDisconnected},
		{v1.ConditionUserLoggedIn, false, vmstatus.ReasonNotRequested},
		{v1.ConditionConsoleConnected, false, vmstatus.ReasonDisconnected},
		{v1.ConditionConfigApplied, running, vmstatus.ReasonApplied},
		{v1.ConditionTPMLost, false, vmstatus.ReasonNoTPM},
	} {
		holds := metav1.ConditionFalse
		if c.is {
			holds = metav1.ConditionTrue
		}
		conditions = append(conditions, map[string]any{
			"type": c.kind, "status": holds, "reason": c.reason, "message": "",
			"lastTransitionTime": now.Format(time.RFC3339), "observedGeneration": 1,
		})
	}
	status["conditions"] = conditions
	return map[string]any{
		"apiVersion": v1.GroupVersion().String(), "kind": "VirtualMachine",
		"metadata": map[string]any{"name": name}, "status": status,
	}
}
