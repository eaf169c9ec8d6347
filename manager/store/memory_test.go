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
	"vmop/manager/vm/class"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
)

// found returns the decoded objects of a running VM: the VM, its pod, and the metadata of all other objects.
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

// metaOf returns the decoded metadata of an object of a VM.
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

// live returns the memory in use, in bytes.
func live() uint64 {
	runtime.GC()
	runtime.GC() // also frees memory behind finalizers and weak pointers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The store's memory per VM is bounded, and so is the additional memory for a VM with a class and an address.
func TestStoreIsSmall(t *testing.T) { // not parallel: it measures the heap
	tier.Deep(t)
	const vms = 2000
	found(t, 0) // fills the decoders' caches
	plain := sizes(t, vms, false)
	t.Log(plain)
	require.Less(t, sum(plain), uint64(4000), plain)
	classed := sizes(t, vms, true)
	t.Log(classed)
	t.Logf("a class and an address: %d bytes of each VM", sum(classed)-sum(plain))
	require.Less(t, sum(classed)-sum(plain), uint64(1024), "Go lets the heap grow to twice that: %v", classed)
}

func sum(sizes map[string]uint64) (all uint64) {
	for _, bytes := range sizes {
		all += bytes
	}
	return all
}

// sizes returns the bytes per VM, by the holder.
func sizes(t *testing.T, vms int, classed bool) map[string]uint64 {
	t.Helper()
	m, book := New("vms", func() string { return "" }), NewAddresses("vms", func(string, string) {}, func(string) {})
	of := func(number int) (*v1.VirtualMachine, *corev1.Pod, []*objects.Metadata) {
		vm, pod, others := found(t, number)
		if classed {
			others = withClass(t, vm, others)
		}
		return vm, pod, others
	}
	size := map[string]uint64{}
	before := live()
	hold := func(what string, add func(number int) error) {
		for i := range vms {
			require.NoError(t, add(i))
		}
		now := live()
		size[what] = (max(now, before) - before) / uint64(vms)
		before = now
	}
	hold("VirtualMachine", func(i int) error {
		vm, _, _ := of(i)
		return m.vms.Add(vm)
	})
	hold("Pod", func(i int) error {
		_, pod, _ := of(i)
		return m.pods.Add(pod)
	})
	for k, table := range m.others {
		hold(objects.Kind(k).String(), func(i int) error {
			var errs []error
			_, _, others := of(i)
			for _, o := range others {
				if o.Kind == objects.Kind(k).String() {
					errs = append(errs, table.Add(o))
				}
			}
			return errors.Join(errs...)
		})
	}
	if classed {
		hold("VirtualMachineIPAddress", func(i int) error { return book.addresses.Add(addressOf(t, i)) })
		hold("VirtualMachineIPAddressLease", func(i int) error { return book.leases.Add(leaseOf(t, i)) })
	}
	runtime.KeepAlive(m)
	runtime.KeepAlive(book)
	return size
}

// withClass gives a VM a class and an address, and records the values from the class.
func withClass(t testing.TB, vm *v1.VirtualMachine, others []*objects.Metadata) []*objects.Metadata {
	t.Helper()
	vm.Spec.VirtualMachineClassName, vm.Spec.CPU = "office", &v1.CPU{CoreFraction: "20%"}
	vm.Spec.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}}
	vm.Status.VirtualMachineClassName, vm.Status.VirtualMachineIPAddressName = "office", addressName(vm.Name)
	vm.Status.Addresses = append(vm.Status.Addresses, v1.Address{
		Address: "10.66.10.20", Interface: "eth0", MAC: "52:54:00:12:34:56", From: "Network", Source: "Lease",
	})
	vm.Status.Conditions = append(vm.Status.Conditions, metav1.Condition{
		Type: v1.ConditionSizingMatched, Status: metav1.ConditionTrue, Reason: "Matched",
		LastTransitionTime: vm.Status.Conditions[0].LastTransitionTime, ObservedGeneration: 1,
	})
	office := &v1.VirtualMachineClass{ObjectMeta: metav1.ObjectMeta{Name: "office"}}
	office.Spec.CPU = v1.ClassCPU{Type: v1.CPUModel, Model: "Nehalem"}
	office.Spec.VMType = &v1.VMType{Source: "standard"}
	office.Spec.NodeSelector = &v1.NodeLabels{MatchLabels: map[string]v1.LabelValue{"kubernetes.io/arch": "amd64"}}
	office.Spec.Defaults = &v1.ClassDefaults{
		Firmware: "uefi", UseTPM: new(true), Networks: []v1.Network{{Masquerade: &v1.PrivateNetwork{}}},
	}
	record, err := class.Extract(office, vm).Record()
	require.NoError(t, err)
	for _, o := range others {
		if o.Kind == objects.KindConfigMap.String() {
			o.Annotations[objects.AnnotationClass] = record
		}
	}
	return others
}

func addressName(vm string) string { return vm + "-x7f2k" }

// addressOf returns the decoded address object of a VM.
func addressOf(t testing.TB, number int) *v1.VirtualMachineIPAddress {
	t.Helper()
	vm := fmt.Sprintf("vm-%05d", number)
	a := &v1.VirtualMachineIPAddress{
		ObjectMeta: metaOf(t, addressName(vm), vm, fmt.Sprintf("0e984725-c51c-4bf4-9960-%012d", number), number, ""),
	}
	a.Spec.Type = v1.IPAddressAuto
	a.Status = v1.VirtualMachineIPAddressStatus{
		Phase: v1.IPAddressAttached, Address: fmt.Sprintf("10.66.%d.%d", number/250, number%250), VirtualMachine: vm,
	}
	return a
}

func leaseOf(t testing.TB, number int) *v1.VirtualMachineIPAddressLease {
	t.Helper()
	vm := fmt.Sprintf("vm-%05d", number)
	l := &v1.VirtualMachineIPAddressLease{
		ObjectMeta: metaOf(t, fmt.Sprintf("ip-10-66-%d-%d", number/250, number%250), vm, "namespace", number, ""),
	}
	l.Spec.VirtualMachineIPAddressRef = v1.IPAddressRef{Name: addressName(vm), Namespace: "vms"}
	l.Status = v1.VirtualMachineIPAddressLeaseStatus{Phase: v1.LeaseBound, VirtualMachine: vm}
	return l
}

// runningVM is a VM with a booted guest that has reported; its arguments are the VM's name, its UID, and twice its
// pod's UID.
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
