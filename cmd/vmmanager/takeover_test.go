package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/vm/objects"
	"vmop/test/tier"
)

// takeover runs the verb with an administrator's permissions, and returns its output.
func (p *place) takeover(args ...string) (string, error) {
	p.t.Helper()
	path, err := exec.LookPath("vmmanager")
	require.NoError(p.t, err)
	all := append([]string{"takeover", "--kubeconfig", p.Kubeconfig, "-n", p.Name}, args...)
	out, err := p.Inside(p.t.Context(), path, all...).CombinedOutput()
	return string(out), err
}

// away scales a Deployment to 0, and waits until its pods have ended.
func (p *place) away(deployment string) {
	p.t.Helper()
	p.Kubectl("scale", "deployment", deployment, "--replicas", "0")
	p.eventually("the manager is gone", func() bool {
		var d appsv1.Deployment
		return p.get(deployment, &d) && d.Status.Replicas == 0 && d.Status.ObservedGeneration == d.Generation
	})
}

// originals contains objects of two VMs as VM-Operator creates them: of web, which runs, by version 4, and of old, with
// a StatefulSet as before 3.4.
const originals = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: web}
spec:
  image: {source: "ghcr.io/mnlipp/org.jdrupes.vmoperator.runner.qemu-arch:latest"}
  vm:
    state: Running
    accelerator: tcg
    maximumCpus: 1
    networks: [{user: {}}]
    disks: [{volumeClaimTemplate: {metadata: {name: system}, spec: {volumeMode: Block, resources: {requests: {storage: 1Gi}}}}}]
---
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: old}
spec:
  vm:
    state: Running
    accelerator: tcg
    maximumCpus: 1
    networks: [{user: {}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: web-runner-data
  labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: web, app.kubernetes.io/managed-by: vm-operator}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: web-system-disk
  labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: web, app.kubernetes.io/managed-by: vm-operator}
spec: {accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels:
    app.kubernetes.io/name: vm-runner
    app.kubernetes.io/component: vm-runner
    app.kubernetes.io/instance: web
    app.kubernetes.io/managed-by: vm-operator
spec:
  schedulingGates: [{name: example.org/runs-here}]
  containers:
  - name: web
    image: ghcr.io/mnlipp/org.jdrupes.vmoperator.runner.qemu-arch:latest
    volumeDevices: [{name: system, devicePath: /dev/system-disk}]
  volumes: [{name: system, persistentVolumeClaim: {claimName: web-system-disk}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: old
  labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: old, app.kubernetes.io/managed-by: vm-operator}
spec:
  serviceName: old
  selector: {matchLabels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: old}}
  template:
    metadata: {labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: old}}
    spec:
      schedulingGates: [{name: example.org/runs-here}]
      containers: [{name: old, image: "ghcr.io/mnlipp/org.jdrupes.vmoperator.runner.qemu-arch:2.0"}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: original}
spec:
  selector: {matchLabels: {app: original}}
  template:
    metadata: {labels: {app: original}}
    spec:
      schedulingGates: [{name: example.org/runs-here}]
      containers: [{name: vm-operator, image: "ghcr.io/mnlipp/org.jdrupes.vmoperator.manager:latest"}]
`

// VMs move from VM-Operator's manager to ours and back, with their disks, and no VM ever has two pods.
func TestTakeover(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t, "privileged")
	p.eventually("the account of pods is there", func() bool { return p.get("default", &corev1.ServiceAccount{}) })
	p.Apply(originals)
	p.awaitPod("old", "")
	ours := p.start(p.config(`trustedClaims: ["*"]`))
	one := func(vm, name string) {
		var pods corev1.PodList
		require.NoError(t, p.client.List(t.Context(), &pods, client.InNamespace(p.Name),
			client.MatchingLabels{objects.LabelInstance: vm, objects.LabelName: objects.AppName}))
		require.Len(t, pods.Items, 1)
		require.Equal(t, name, pods.Items[0].Name)
	}
	said, err := p.takeover()
	require.NoError(t, err, said)
	require.Contains(t, said, "kept     it runs in the pod web of VM-Operator, and gets no other")
	require.Contains(t, said, "kept     spec.vm.disks[0].volumeClaimTemplate: the claim web-system-disk")
	require.Contains(t, said, "changes  its StatefulSet is of a VM-Operator before 3.4")

	said, err = p.takeover("--apply", "--stop")
	require.ErrorContains(t, err, "exit status 1")
	require.Contains(t, said, "scale deployment original --replicas 0")
	one("web", "web")
	p.away("original")
	said, err = p.takeover("--apply")
	require.NoError(t, err, said)
	require.Contains(t, said, "web: left: its guest runs in the pod web of VM-Operator; --stop shuts it down")
	one("web", "web")
	one("old", "old-0")

	said, err = p.takeover("--apply", "--stop", "web")
	require.NoError(t, err, said)
	require.Equal(t, "web: handed over\n", said)
	pod := p.awaitPod("web", "")
	one("web", "web-0")
	var claims []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims = append(claims, v.PersistentVolumeClaim.ClaimName)
		}
	}
	require.Subset(t, claims, []string{"web-runner-data", "web-system-disk"})
	said, err = p.takeover("--apply", "--stop", "old")
	require.NoError(t, err, said)
	p.eventually("the pod is ours", func() bool {
		var pod corev1.Pod
		return p.get("old-0", &pod) && pod.Spec.Containers[0].Name == objects.ContainerName
	})

	said, err = p.takeover("--undo")
	require.Error(t, err)
	require.Contains(t, said, "our manager would start the VMs again: kubectl -n "+p.Name+
		" scale deployment vm-operator --replicas 0")
	require.NoError(t, ours.cmd.Process.Signal(syscall.SIGTERM))
	<-ours.ended
	p.away("vm-operator")
	said, err = p.takeover("--undo")
	require.NoError(t, err, said)
	require.Contains(t, said, "web: left: its guest may run in the pod web-0; --stop shuts it down")
	said, err = p.takeover("--undo", "--stop")
	require.NoError(t, err, said)
	require.Equal(t, "old: handed back\nweb: handed back\n", said)
	var set appsv1.StatefulSet
	require.False(t, p.get("web", &set))
	var left corev1.PodList
	require.NoError(t, p.client.List(t.Context(), &left, client.InNamespace(p.Name),
		client.MatchingLabels{objects.LabelName: objects.AppName}))
	require.Empty(t, left.Items)
	kept := p.Kubectl("get", "pvc", "-l", "app.kubernetes.io/instance=web", "-o", "name")
	require.Equal(t, 2, strings.Count(kept, "/"), kept)
	require.Equal(t, "Running", string(p.vm("web").Spec.VM.State), "its definition is what it was")
}

// Only objects that the API server refuses with our resource definition block the takeover.
func TestTakeoverBlocksWhatIsRefused(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t, "privileged")
	disks := func(name string, order int) string {
		const disk = "{volumeClaimTemplate: {metadata: {name: %s}, spec: {resources: {requests: {storage: 1Gi}}}}, " +
			"bootindex: %d}"
		return "maximumCpus: 2, disks: [" + fmt.Sprintf(disk, "a", 1) + ", " + fmt.Sprintf(disk, name, order) + "]"
	}
	for name, given := range map[string]struct {
		vm, machine string
		blocks      bool
	}{
		"as it should be": {"web", disks("b", 2), false},
		"topology":        {"web", "cpuTopology: {sockets: 2, coresPerDie: 2}, currentCpus: 4", false},
		"RAM":             {"web", "maximumCpus: 2, maximumRam: 1Gi, currentRam: 2Gi", true},
		"CPUs":            {"web", "maximumCpus: 2, currentCpus: 3", true},
		"CPUs beyond":     {"web", "cpuTopology: {sockets: 2, coresPerDie: 2}, currentCpus: 5", true},
		"no CPUs":         {"web", "maximumRam: 1Gi", false},
		"both":            {"web", "maximumCpus: 2, cpuTopology: {sockets: 2}", true},
		"names of disks":  {"web", disks("a", 2), true},
		"order":           {"web", disks("b", 1), true},
		"a dot":           {"web.example.org", "maximumCpus: 2", true},
		"a long name":     {strings.Repeat("w", 49), "maximumCpus: 2", true},
		"MAC":             {"web", `maximumCpus: 2, networks: [{tap: {mac: "02:00"}}]`, true},
		"clock":           {"web", "maximumCpus: 2, rtcBase: noon", true},
	} {
		text := "{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: " + given.vm +
			"}, spec: {vm: {accelerator: tcg, " + given.machine + "}}}"
		file := filepath.Join(t.TempDir(), "vm.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		try := p.KubectlCommand(t.Context(), "-n", p.Name, "apply", "--dry-run=server", "-f", file)
		out, err := try.CombinedOutput()
		require.Equal(t, given.blocks, err != nil, "%s: %s", name, out)
		said, err := exec.CommandContext(t.Context(), "vmmanager", "takeover", "-f", file).CombinedOutput()
		require.Equal(t, given.blocks, err != nil, "%s: %s", name, said)
		require.Equal(t, given.blocks, strings.Contains(string(said), "  blocks   "), "%s: %s", name, said)
	}
}
