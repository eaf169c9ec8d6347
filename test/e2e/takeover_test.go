package e2e_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/guest"
	"vmop/test/program"
	"vmop/test/wait"
)

// madeByOriginal contains the objects that VM-Operator 4 creates for a running VM: its pod with the VM's claims. It
// uses our image instead of the original's, and a QEMU without a guest.
const madeByOriginal = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: moved-in-runner-data
  labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: moved-in, app.kubernetes.io/managed-by: vm-operator}
spec: {storageClassName: lab, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: moved-in-system-disk
  labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: moved-in, app.kubernetes.io/managed-by: vm-operator}
spec: {storageClassName: lab, accessModes: [ReadWriteOnce], volumeMode: Block, resources: {requests: {storage: 16Mi}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: moved-in
  labels:
    app.kubernetes.io/name: vm-runner
    app.kubernetes.io/component: vm-runner
    app.kubernetes.io/instance: moved-in
    app.kubernetes.io/managed-by: vm-operator
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: moved-in
    image: vmop/runner:devel
    command: [qemu-system-x86_64, -name, moved-in, -machine, none, -display, none]
    volumeDevices: [{name: system, devicePath: /dev/system-disk}]
    volumeMounts: [{name: data, mountPath: /var/local/vm-data}]
  volumes:
  - {name: system, persistentVolumeClaim: {claimName: moved-in-system-disk}}
  - {name: data, persistentVolumeClaim: {claimName: moved-in-runner-data}}
`

const movedIn = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: moved-in}
spec:
  image: {repository: ghcr.io, path: mnlipp/org.jdrupes.vmoperator.runner.qemu-alpine, version: latest}
  vm:
    state: Running
    accelerator: tcg
    maximumCpus: 1
    maximumRam: 160Mi
    firmware: bios
    powerdownTimeout: 1
    networks: [{user: {}}]
    disks:
    - volumeClaimTemplate:
        metadata: {name: system}
        spec: {storageClassName: lab, volumeMode: Block, resources: {requests: {storage: 16Mi}}}
`

// The manager ignores a VM that VM-Operator runs until a user takes it over. The VM then boots from its disk in a pod
// of our runner, and never has two QEMUs.
func takenOver(t *testing.T, l *lab) {
	u := newUser(t, l)
	require.NoError(t, program.Build(t.Context(), filepath.Join(u.home, "vmmanager"), "vmop/cmd/vmmanager"))
	l.volumes.holds(t, "moved-in-system-disk", append(guest.Sector(), make([]byte, diskSize-512)...))
	l.applyText(t, madeByOriginal)
	t.Cleanup(func() { _ = u.command("kubectl delete vm/moved-in pod/moved-in --ignore-not-found").Run() })
	v := &clusterVM{lab: l, t: t, name: "moved-in"}
	wait.For(t, "the original's QEMU", func() error {
		if len(l.qemus("moved-in")) == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	l.applyText(t, movedIn)
	v.until("to be seen", func(now *v1.VirtualMachine) bool { return now.Status.Phase != "" })
	require.Contains(t, u.types("vmmanager takeover -n "+namespace+" moved-in", ""),
		"it runs in the pod moved-in of VM-Operator")
	require.Nil(t, v.pod())
	require.Equal(t, "moved-in: handed over\n",
		u.types("vmmanager takeover -n "+namespace+" --apply --stop moved-in", ""))
	v.runs()
	v.console().await(guest.SectorSays)
	var pods corev1.PodList
	require.NoError(t, l.client.List(t.Context(), &pods, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/instance": "moved-in"}))
	require.Len(t, pods.Items, 1)
	require.Equal(t, v1.PhaseRunning, v.now().Status.Phase)
}
