package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// classesOfTwo are a class, with the given networks, and a class with another CPU.
const classesOfTwo = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachineClass
metadata: {name: e2e-nehalem}
spec:
  cpu: {type: Model, model: Nehalem}
  sizingPolicies:
  - cores: {min: 1, max: 2}
    memory: {min: 128Mi, max: 1Gi, step: 32Mi}
  defaults:
    networks: [%s]
---
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachineClass
metadata: {name: e2e-westmere}
spec:
  cpu: {type: Model, model: Westmere}
  defaults:
    networks: [{user: {}}]
`

// startAgent starts the guest agent, which reports that the guest has booted, and which shuts it down.
func (c *console) startAgent() {
	c.t.Helper()
	c.ask("mkdir -p /etc /sbin; echo '#!/bin/sh' >/sbin/shutdown; echo 'poweroff -f' >>/sbin/shutdown; " +
		"chmod +x /sbin/shutdown; " + qemuGA)
}

// A VM of a class that approves restarts is restarted exactly once for each pending change: of the VM, of the class, or
// of the VM's class name. The guest sees the change (docs/reference/classes.md).
func approvedRestarts(t *testing.T, l *lab) {
	l.applyText(t, fmt.Sprintf(classesOfTwo, "{user: {}}"))
	initrd := l.guestWith(t, "/usr/sbin/qemu-ga")
	v := l.create(t, tiny("clerk", func(s *v1.VirtualMachineSpec) {
		s.VirtualMachineClassName, s.VM.Networks, s.VM.Kernel.Initrd = "e2e-nehalem", nil, initrd
		s.Disruptions = &v1.Disruptions{RestartApprovalMode: v1.RestartAutomatic}
	}))
	v.runs()
	const cpus, model, cards = "nproc", "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort -u", "ls /sys/class/net"
	guest := v.console().booted()
	guest.startAgent()
	require.Equal(t, "1", guest.ask(cpus))
	require.Contains(t, guest.ask(model), "Nehalem")
	require.NotContains(t, guest.ask(cards), "eth1")

	for i, change := range []struct {
		does           func()
		look, contains string
	}{
		{func() { v.change(func(s *v1.VirtualMachineSpec) { s.VM.MaximumCPUs = new(int32(2)) }) }, cpus, "2"},
		{func() { l.applyText(t, fmt.Sprintf(classesOfTwo, "{user: {}}, {user: {}}")) }, cards, "eth1"},
		{func() {
			v.change(func(s *v1.VirtualMachineSpec) { s.VirtualMachineClassName = "e2e-westmere" })
		}, model, "Westmere"},
	} {
		pod := v.pod()
		change.does()
		pod = v.podOtherThan(pod)
		v.runs()
		guest := v.console().booted()
		guest.startAgent()
		require.Contains(t, guest.ask(change.look), change.contains)
		v.until("to need no restart", func(now *v1.VirtualMachine) bool { // the manager has found no change
			return now.Status.AutomaticRestart == nil && now.Status.Runner.ComparedGeneration == now.Generation
		})
		v.condition(v1.ConditionRestartRequired, metav1.ConditionFalse)
		require.Equal(t, pod.UID, v.pod().UID)
		wait.For(t, "an event for each restart", func() error {
			events := l.kubectl(t, "get", "events", "-o", "name", "--field-selector",
				"involvedObject.name=clerk,reason=AutomaticRestart")
			if n := strings.Count(events, "\n"); n != i+1 {
				return fmt.Errorf("there are %d:\n%s", n, events)
			}
			return nil
		})
	}
	v.condition(v1.ConditionSizingMatched, metav1.ConditionTrue)

	v.change(func(s *v1.VirtualMachineSpec) {
		s.VirtualMachineClassName = "e2e-nehalem"
		s.VM.MaximumCPUs = new(int32(3))
	})
	c := v.condition(v1.ConditionSizingMatched, metav1.ConditionFalse)
	require.Contains(t, c.Message, "maximumCpus")
	require.Equal(t, "2", v.console().ask(cpus), "a VM that is running isn't restarted into what couldn't start")
	v.delete()
	l.kubectl(t, "delete", "vmclass", "e2e-nehalem", "e2e-westmere")
}
