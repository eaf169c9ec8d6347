package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// saying is what a runner applies to the status of its VM in a state. It is as large
// as that of a real one whose guest has an agent: the manager keeps it.
func saying(name string, pod *corev1.Pod, state string) map[string]any {
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
			"id": "debian", "name": "Debian GNU/Linux", "pretty-name": "Debian GNU/Linux 12 (bookworm)", "version": "12 (bookworm)",
			"version-id": "12", "kernel-release": "6.1.0-31-amd64", "kernel-version": "#1 SMP PREEMPT_DYNAMIC Debian 6.1.128-1", "machine": "x86_64",
		}
		status["interfaces"] = []any{
			map[string]any{"name": "lo", "mac": "00:00:00:00:00:00", "ips": []any{"127.0.0.1", "::1"}},
			map[string]any{"name": "enp1s0", "mac": "52:54:00:12:34:56", "ips": []any{"10.0.2.15", "fe80::5054:ff:fe12:3456"}},
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	var conditions []any
	for _, c := range []struct {
		kind        string
		is          bool
		yes, no     string
		said, unsay string
	}{
		{v1.ConditionRunning, running, "GuestRuns", "VmStopped", "the guest runs", "the VM has stopped"},
		{v1.ConditionBooted, booted, "AgentAnswered", "NotBooted", "the guest's agent has answered", ""},
		{v1.ConditionReady, running, "Ready", "VmStopped", "", "the VM has stopped"},
		{v1.ConditionVmopAgent, false, "", "VmopAgentDisconnected", "", "the log-in agent is not there"},
		{v1.ConditionUserLoggedIn, false, "", "VmopAgentDisconnected", "", "the log-in agent is not there"},
		{v1.ConditionConsoleConnected, false, "", "ConsoleClosed", "", "nobody looks at the screen"},
		{v1.ConditionConfigApplied, running, "Applied", "VmStopped", "", ""},
		{v1.ConditionTPMLost, false, "", "TPMWorks", "", ""},
	} {
		condition := map[string]any{
			"type": c.kind, "status": "False", "reason": c.no, "message": c.unsay,
			"lastTransitionTime": now.Format(time.RFC3339), "observedGeneration": 1,
		}
		if c.is {
			condition["status"], condition["reason"], condition["message"] = "True", c.yes, c.said
		}
		conditions = append(conditions, condition)
	}
	status["conditions"] = conditions
	return map[string]any{
		"apiVersion": v1.GroupVersion().String(), "kind": "VirtualMachine",
		"metadata": map[string]any{"name": name}, "status": status,
	}
}
