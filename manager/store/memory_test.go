package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// found returns what the API server has of a VM that runs, as it is decoded: the VM,
// its pod, and the metadata of all else.
func found(t testing.TB, number int) (*v1.VirtualMachine, *corev1.Pod, []*objects.Metadata) {
	t.Helper()
	name := fmt.Sprintf("vm-%05d", number)
	uid := fmt.Sprintf("0e984725-c51c-4bf4-9960-%012d", number)
	var vm v1.VirtualMachine
	require.NoError(t, json.Unmarshal([]byte(fmt.Sprintf(runningVM, name, uid, uid, uid)), &vm))
	var pod corev1.Pod
	pod.ObjectMeta = metaOf(t, name+"-0", name, uid, number, `"vmrunner.jdrupes.org/cmVersion": "1"`)
	pod.Spec.NodeName = fmt.Sprintf("node-%d", number%10)
	pod.Spec.Containers = make([]corev1.Container, 1)
	started := metav1.NewTime(time.Unix(1<<30, 0))
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "10.0.0.1", PodIP: "10.100.0.1", PodIPs: []corev1.PodIP{{IP: "10.100.0.1"}},
		StartTime: &started,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: objects.ContainerName, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		}},
	}
	var others []*objects.Metadata
	for _, of := range []struct {
		kind objects.Kind
		name string
	}{
		{objects.KindStatefulSet, name},
		{objects.KindConfigMap, name},
		{objects.KindSecret, name + "-display-secret"},
		{objects.KindClaim, "runner-data-" + name + "-0"},
		{objects.KindClaim, "system-disk-" + name + "-0"},
	} {
		o := objects.NewMetadata(of.kind)
		o.ObjectMeta = metaOf(t, of.name, name, uid, number, fmt.Sprintf("%q: %q", objects.AnnotationApplied,
			fmt.Sprintf("%064d", number)))
		if of.kind == objects.KindClaim {
			o.OwnerReferences = nil
		}
		others = append(others, o)
	}
	return &vm, &pod, others
}

// metaOf decodes the metadata of an object of a VM.
func metaOf(t testing.TB, name, vm, uid string, number int, annotation string) metav1.ObjectMeta {
	t.Helper()
	var m metav1.ObjectMeta
	text := fmt.Sprintf(`{"name": %q, "namespace": "vms", "uid": "5d1c2b3a-0000-4000-8000-%012d", "resourceVersion": "%d", "generation": 1,
		"creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {%s}, "labels": {"app.kubernetes.io/name": "vm-runner", "app.kubernetes.io/instance": %q,
		"app.kubernetes.io/managed-by": "vm-operator", "app.kubernetes.io/component": "vm-runner"},
		"ownerReferences": [{"apiVersion": "vmoperator.jdrupes.org/v1", "kind": "VirtualMachine", "name": %q, "uid": %q, "controller": true, "blockOwnerDeletion": true}],
		"managedFields": [{"manager": "vm-operator", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]}`,
		name, number, 100_000+number, annotation, vm, vm, uid)
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	return m
}

// Many VMs fit into little memory: what the store holds of one is bounded.
func TestStoreIsSmall(t *testing.T) { // alone: it measures the heap
	const vms = 2000
	live := func() uint64 {
		runtime.GC()
		runtime.GC() // what finalizers and weak pointers held, too
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	m := New("vms", func() string { return "" })
	found(t, 0) // what decoders keep
	size := map[string]uint64{}
	before := live()
	hold := func(what string, add func(*v1.VirtualMachine, *corev1.Pod, []*objects.Metadata) error) {
		for i := range vms {
			require.NoError(t, add(found(t, i)))
		}
		now := live()
		size[what] = (now - before) / vms
		before = now
	}
	hold("VirtualMachine", func(vm *v1.VirtualMachine, _ *corev1.Pod, _ []*objects.Metadata) error {
		return m.vms.Add(vm)
	})
	hold("Pod", func(_ *v1.VirtualMachine, pod *corev1.Pod, _ []*objects.Metadata) error { return m.pods.Add(pod) })
	for k, table := range m.others {
		hold(objects.Kind(k).String(), func(_ *v1.VirtualMachine, _ *corev1.Pod, others []*objects.Metadata) error {
			var errs []error
			for _, o := range others {
				if o.Kind == objects.Kind(k).String() {
					errs = append(errs, table.Add(o))
				}
			}
			return errors.Join(errs...)
		})
	}
	t.Log(size)
	sum := uint64(0)
	for _, bytes := range size {
		sum += bytes
	}
	require.Less(t, sum, uint64(6000), size)
	runtime.KeepAlive(m)
}

// runningVM is one whose guest has booted, and told of itself; it is given its name, its
// uid, and twice the uid of its pod.
const runningVM = `{
  "apiVersion": "vmoperator.jdrupes.org/v1", "kind": "VirtualMachine",
  "metadata": {"name": %q, "namespace": "vms", "uid": %q, "resourceVersion": "4711", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    "managedFields": [{"manager": "kubectl", "operation": "Apply", "time": "2026-01-01T00:00:00Z"}]},
  "spec": {
    "guestShutdownStops": true, "vmType": {"source": "standard", "update": true},
    "cloudInit": {"userData": {"ssh_authorized_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample user@example"]}},
    "vm": {"state": "Running", "maximumCpus": 4, "currentCpus": 2, "maximumRam": "8Gi", "currentRam": "4Gi", "accelerator": "tcg",
      "networks": [{"user": {}}], "display": {"spice": {"port": 5900}},
      "disks": [{"volumeClaimTemplate": {"metadata": {"name": "system"}, "spec": {"resources": {"requests": {"storage": "40Gi"}}}}}, {"cdrom": {"image": "installer.iso"}}]}},
  "status": {
    "observedGeneration": 1, "phase": "Running", "nodeName": "node-1", "cpus": 2, "ram": "4294967296",
    "runner": {"podName": "vm-0", "podUID": %q, "state": "Booted"}, "vmType": "standard", "uuid": %q, "runnerVersion": "1.0.0",
    "osinfo": {"id": "debian", "name": "Debian GNU/Linux", "pretty-name": "Debian GNU/Linux 12 (bookworm)", "version": "12 (bookworm)", "kernel-release": "6.1.0-31-amd64"},
    "interfaces": [{"name": "lo", "ips": ["127.0.0.1", "::1"]}, {"name": "enp1s0", "mac": "52:54:00:12:34:56", "ips": ["10.0.2.15", "fe80::5054:ff:fe12:3456"]}],
    "conditions": [
      {"type": "Running", "status": "True", "reason": "GuestRuns", "message": "the guest runs", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "Booted", "status": "True", "reason": "AgentAnswered", "message": "the guest's agent has answered", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "VmopAgentConnected", "status": "False", "reason": "VmopAgentDisconnected", "message": "the log-in agent is not there", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "UserLoggedIn", "status": "False", "reason": "VmopAgentDisconnected", "message": "the log-in agent is not there", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "ConsoleConnected", "status": "False", "reason": "ConsoleClosed", "message": "no viewer is connected", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "ConfigApplied", "status": "True", "reason": "Applied", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "TPMLost", "status": "False", "reason": "TPMWorks", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "VMTypeAccepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "RestartRequired", "status": "False", "reason": "NothingPending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1},
      {"type": "Reconciled", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]}
}`
