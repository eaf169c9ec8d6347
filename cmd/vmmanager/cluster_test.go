package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
	"vmop/test/cluster"
	"vmop/test/tier"
)

// A namespace that enforces Pod Security "restricted" accepts deploy/. The images can be replaced as its comments
// describe.
func TestDeploy(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "restricted")
	var pods corev1.PodList
	p.eventually("a pod of the manager is admitted", func() bool {
		require.NoError(t, p.client.List(t.Context(), &pods, client.InNamespace(p.Name)))
		return len(pods.Items) == 1
	})
	require.Equal(t, "vmop/manager:devel", pods.Items[0].Spec.Containers[0].Image)
	require.Equal(t, "vmop/runner:devel", pods.Items[0].Spec.Containers[0].Env[0].Value)

	p.deploy(`
images: [{name: vmop/manager, newName: registry.example/manager, newTag: "1"}]
patches:
- patch: |
    {apiVersion: apps/v1, kind: Deployment, metadata: {name: vm-operator}, spec: {template: {spec: {containers: [
      {name: vm-operator, env: [{name: VMOP_RUNNER_IMAGE, value: "registry.example/runner:1"}]}]}}}}
- patch: |
    {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: vmop-image-repository}, spec: {resources: {requests: {storage: 100Gi}}}}
`)
	var deployment appsv1.Deployment
	require.True(t, p.get("vm-operator", &deployment))
	container := deployment.Spec.Template.Spec.Containers[0]
	require.Equal(t, "registry.example/manager:1", container.Image)
	require.Equal(t, "registry.example/runner:1", container.Env[0].Value)
}

// machine creates a VM with a pod without privileges and a disk of a class that can grow.
func (p *place) machine(name string) {
	p.t.Helper()
	p.Apply(`
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: ` + name + `}
spec:
  vmType: {source: mine, configMap: types}
  vm:
    state: Running
    accelerator: tcg
    maximumCpus: 2
    networks: [{user: {}}]
    disks:
    - volumeClaimTemplate: {metadata: {name: system}, spec: {storageClassName: ` + p.Name + `, resources: {requests: {storage: 1Gi}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: types}
data:
  mine.star: |
    load("@vmtypes//standard.star", standard = "launch")
    def launch(vm, host):
        return standard(vm, host)
`)
}

// runnerSays writes the status of the runner in the pod of a VM.
func (p *place) runnerSays(vm string, pod *corev1.Pod, status string) {
	p.t.Helper()
	object := &v1.VirtualMachine{}
	object.Name, object.Namespace = vm, p.Name
	text := `{"apiVersion": "vmoperator.jdrupes.org/v1", "kind": "VirtualMachine", "status": {"runner": {"podName": "` +
		pod.Name + `", "podUID": "` + string(pod.UID) + `", ` + status + `}}}`
	err := p.client.Status().Patch(p.t.Context(), object, client.RawPatch(types.ApplyPatchType, []byte(text)),
		client.FieldOwner("vm-runner"), client.ForceOwnership)
	require.NoError(p.t, err)
}

// awaitPod waits for a pod of a VM other than the previous pod.
func (p *place) awaitPod(vm string, before types.UID) *corev1.Pod {
	p.t.Helper()
	var pod corev1.Pod
	p.eventually("the VM has a new pod", func() bool {
		return p.get(vm+"-0", &pod) && pod.UID != before && pod.DeletionTimestamp == nil
	})
	return &pod
}

// kubelet assigns a pod to a node and sets the state of its container.
func (p *place) kubelet(pod *corev1.Pod, state corev1.ContainerState) {
	p.t.Helper()
	status := corev1.PodStatus{
		Phase:             corev1.PodRunning,
		ContainerStatuses: []corev1.ContainerStatus{{Name: "runner", Image: "none", ImageID: "none", State: state}},
	}
	text, err := json.Marshal(map[string]any{"status": status})
	require.NoError(p.t, err)
	require.NoError(p.t, p.client.Status().Patch(p.t.Context(), pod, client.RawPatch(types.MergePatchType, text)))
}

// grow binds a VM's claim to a volume that can grow, and increases the size of the VM's disk.
func (p *place) grow(vm, claim string) {
	p.t.Helper()
	p.Apply(`
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: ` + p.Name + `}, provisioner: example.org/none, allowVolumeExpansion: true}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: ` + p.Name + `}, spec: {storageClassName: ` + p.Name + `, capacity: {storage: 1Gi},
  accessModes: [ReadWriteOnce], volumeMode: Block, local: {path: /dev/loop0}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}
`)
	var have corev1.PersistentVolumeClaim
	p.eventually("the claim is bound", func() bool {
		return p.get(claim, &have) && have.Status.Phase == corev1.ClaimBound
	})
	p.Kubectl("patch", "vms", vm, "--type=json", "-p", `[{"op": "replace", "path": "/spec/vm/disks/0/volumeClaimTemplate/spec/resources/requests/storage", "value": "2Gi"}]`)
	p.eventually("the claim asks for more", func() bool {
		return p.get(claim, &have) && have.Spec.Resources.Requests.Storage().String() == "2Gi"
	})
}

// A VM's life uses each permission of the manager, and needs no others.
func TestRightsGrantedAreRightsUsed(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t, "restricted")
	p.Kubectl("create", "secret", "generic", "vm-operator-ca") // an empty Secret is filled, as an old one is renewed
	// Another manager of the cluster may have created the classes already: this manager continues after the other was
	// killed.
	p.Kubectl("create", "configmap", "vm-operator-classes", "--from-literal=presets=begun")
	m := p.start(p.withUsers(`loadBalancerService: true, operationsKept: 0, virtualMachineCIDRs: [10.66.10.0/24],
    virtualMachineIPLeaseRetention: 0`, "admin"), "--leader-elect")
	p.machine("web")
	p.Kubectl("patch", "vms", "web", "--type=merge", "-p", `{"spec": {"virtualMachineClassName": "host"}}`)
	pod := p.awaitPod("web", "")
	p.eventually("its class is protected", func() bool {
		var class v1.VirtualMachineClass
		return p.client.Get(t.Context(), client.ObjectKey{Name: "host"}, &class) == nil &&
			slices.ContainsFunc(class.Status.UsedBy, func(use v1.ClassUse) bool { return use.Namespace == p.Name })
	})
	p.grow("web", "system-disk-web-0")
	p.kubelet(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})

	// The VM's definition changes, and an annotation of its pod changes with it.
	p.Kubectl("patch", "vms", "web", "--type=merge", "-p", `{"spec": {"vm": {"currentCpus": 1}}}`)
	p.eventually("the pod has the version of the configuration", func() bool {
		var configMap corev1.ConfigMap
		return p.get("web", &configMap) && p.get("web-0", pod) &&
			pod.Annotations["vmrunner.jdrupes.org/cmVersion"] == configMap.ResourceVersion &&
			strings.Contains(configMap.Data["config.yaml"], "currentCpus: 1")
	})
	// Its service is removed.
	p.eventually("there is a service", func() bool { return p.get("web", &corev1.Service{}) })
	p.Kubectl("patch", "vms", "web", "--type=merge", "-p", `{"spec": {"loadBalancerService": {}}}`)
	p.eventually("there is no service", func() bool { return !p.get("web", &corev1.Service{}) })
	// It has a disruption budget, which is removed.
	p.Kubectl("patch", "vms", "web", "--type=merge", "-p", `{"spec": {"evictionStrategy": "LiveMigrate"}}`)
	p.eventually("there is a budget", func() bool { return p.get("web", &policyv1.PodDisruptionBudget{}) })
	p.Kubectl("patch", "vms", "web", "--type=merge", "-p", `{"spec": {"evictionStrategy": null}}`)
	p.eventually("there is no budget", func() bool { return !p.get("web", &policyv1.PodDisruptionBudget{}) })

	// The guest shuts down, which creates a new pod, in which the machine crashes.
	p.runnerSays("web", pod, `"state": "Stopped", "reason": "VmStopped", "outcome": {"cause": "guest shutdown", "exitCode": 0}`)
	p.gone(pod)
	pod = p.awaitPod("web", pod.UID)
	p.runnerSays("web", pod, `"state": "Booted"`)
	p.kubelet(pod, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode:   1,
		FinishedAt: metav1.Now(), Message: `{"cause": "crashed", "exitCode": 1, "message": "no"}`,
	}})
	p.eventually("the VM has failed", func() bool { return p.vm("web").Status.Phase == v1.PhaseFailed })
	p.gone(pod)

	// In the next pod the guest's shutdown ends the VM.
	p.Kubectl("patch", "vms", "web", "--type=merge", "-p", `{"spec": {"guestShutdownStops": true}}`)
	pod = p.awaitPod("web", pod.UID)
	p.kubelet(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	p.runnerSays("web", pod, `"state": "Stopped", "reason": "VmStopped", "outcome": {"cause": "guest shutdown", "exitCode": 0}`)
	p.eventually("the VM is set to Stopped", func() bool { return p.vm("web").Spec.VM.State == v1.Stopped })
	p.gone(pod)
	p.eventually("the VM is stopped", func() bool { return p.vm("web").Status.Phase == v1.PhaseStopped })

	p.Apply(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineOperation, metadata: {name: evict-web},
  spec: {type: Evict, virtualMachineName: web}}`)
	p.eventually("what has finished is removed", func() bool {
		return !p.get("evict-web", &v1.VirtualMachineOperation{})
	})
	p.usedOnPages(m)
	p.usesAddresses()
	p.usesDisks()
	p.usesSnapshots()
	p.usesAttachments()
	p.usesPools()

	// Its pod is refused, and the VM reports the reason.
	p.Kubectl("patch", "vms", "web", "--type=merge", "-p", `{"spec": {"priorityClassName": "none-such", "vm": {"state": "Running"}}}`)
	p.eventually("the VM says why there is no pod", func() bool {
		return strings.Contains(p.vm("web").Status.Message, "no PriorityClass with name none-such")
	})

	t.Logf("the manager has %s bytes in memory", m.metric("process_resident_memory_bytes"))
	require.Zero(t, m.stop())
	var lease coordinationv1.Lease
	require.True(t, p.get("vm-operator", &lease))
	require.Empty(t, *lease.Spec.HolderIdentity, "the lease is free for the next")
	require.NotContains(t, m.log.String(), `"level":"ERROR"`)

	used, refused := p.requests("vm-operator")
	require.Empty(t, refused)
	var role rbacv1.Role
	require.True(t, p.get("vm-operator", &role))
	var more rbacv1.ClusterRole
	require.NoError(t, p.client.Get(t.Context(), client.ObjectKey{Name: "vm-operator-cluster"}, &more))
	role.Rules = append(role.Rules, more.Rules...)
	require.ElementsMatch(t, granted(role.Rules), append(used, blocksDeletion, writesStatus))
	p.needsToBlockDeletion("web")
}

// blocksDeletion is the only permission that no request shows: admission requires it for an object that blocks the
// deletion of the VM that owns it.
const blocksDeletion = "vms/finalizers.vmoperator.jdrupes.org update"

// writesStatus is the permission for a subresource that doesn't exist, which the policy for addresses requires.
const writesStatus = "virtualmachineipaddresses/status.vmoperator.jdrupes.org patch"

// usesPools creates a pool, and waits until its status reports that it is empty.
func (p *place) usesPools() {
	p.t.Helper()
	p.Apply(`
{apiVersion: vmoperator.jdrupes.org/v1, kind: VmPool, metadata: {name: desktops}, spec: {permissions: []}}`)
	p.eventually("the pool says that it is empty", func() bool {
		var pool v1.VmPool
		return p.get("desktops", &pool) && strings.Contains(pool.Status.Message, "no VM")
	})
}

// usesAddresses creates two VMs with taps, which use a requested and an automatic address, and then releases both.
func (p *place) usesAddresses() {
	p.t.Helper()
	p.Apply(`
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineIPAddress, metadata: {name: tapped}, spec: {type: Static, staticIP: 10.66.10.14}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: tapped}, spec: {virtualMachineIPAddressName: tapped,
  vm: {state: Stopped, maximumCpus: 1, networks: [{tap: {}}]}}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: automatic}, spec: {vm: {state: Stopped, maximumCpus: 1, networks: [{tap: {}}]}}}
`)
	for _, vm := range []string{"tapped", "automatic"} {
		p.eventually(vm+" has an address", func() bool { return p.vm(vm).Status.VirtualMachineIPAddressName != "" })
	}
	lease := client.ObjectKey{Name: "ip-10-66-10-14"}
	require.NoError(p.t, p.client.Get(p.t.Context(), lease, &v1.VirtualMachineIPAddressLease{}))
	p.Kubectl("delete", "vm", "tapped", "automatic")
	p.eventually("no VM has the address", func() bool {
		var a v1.VirtualMachineIPAddress
		return p.get("tapped", &a) && a.Status.Phase == v1.IPAddressBound
	})
	p.Kubectl("delete", "vmip", "tapped")
	p.eventually("the lease is gone", func() bool {
		return p.client.Get(p.t.Context(), lease, &v1.VirtualMachineIPAddressLease{}) != nil
	})
}

// usesDisks attaches a disk to a VM and detaches it. A pod imports the data of another disk.
func (p *place) usesDisks() {
	p.t.Helper()
	p.Apply(`
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: data}, spec: {persistentVolumeClaim: {storageClassName: `+
		p.Name+`-late, size: 1Gi}}}
`, `
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: `+p.Name+`-late}, provisioner: example.org/none,
  volumeBindingMode: WaitForFirstConsumer}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: taker}, spec: {blockDeviceRefs: [{kind: VirtualDisk, name: data}],
  vm: {state: Running, maximumCpus: 1, accelerator: tcg}}}
`)
	has := func(vms int) func() bool {
		return func() bool {
			var d v1.VirtualDisk
			return p.get("data", &d) && len(d.Status.AttachedToVirtualMachines) == vms
		}
	}
	p.eventually("the VM has the disk", has(1))
	p.Kubectl("delete", "vm", "taker")
	p.eventually("no VM has the disk", has(0))
	p.Kubectl("delete", "vd", "data")

	p.Apply(`
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: filled}, spec: {persistentVolumeClaim: {storageClassName: `+
		p.Name+`-late, size: 1Gi}, dataSource: {type: HTTP, http: {url: "https://example.org/debian.qcow2"}}}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: waiter}, spec: {blockDeviceRefs: [{kind: VirtualDisk, name: filled}],
  vm: {state: Running, maximumCpus: 1, accelerator: tcg}}}
`)
	p.eventually("a pod may import", func() bool {
		var pod corev1.Pod
		return p.get("vd-filled-import", &pod) && len(pod.Spec.SchedulingGates) == 0
	})
	p.Kubectl("delete", "vm", "waiter")
	p.Kubectl("delete", "vd", "filled")
	p.Apply(`
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualImage, metadata: {name: debian}, spec: {persistentVolumeClaim: {storageClassName: ` +
		p.Name + `-late, size: 1Gi}, dataSource: {type: HTTP, http: {url: "https://example.org/debian.qcow2"}}}}
`)
	p.eventually("a pod may import the image", func() bool {
		var pod corev1.Pod
		return p.get("vi-debian-import", &pod) && len(pod.Spec.SchedulingGates) == 0
	})
	p.Kubectl("delete", "vi", "debian")
	p.Apply(`
{apiVersion: vmoperator.jdrupes.org/v1, kind: ClusterVirtualImage, metadata: {name: `+p.Name+`}, spec: {persistentVolumeClaim: {storageClassName: `+
		p.Name+`-late, size: 1Gi}, dataSource: {type: HTTP, http: {url: "https://example.org/x", checksum: {sha256: `+
		strings.Repeat("0a", 32)+`}}}}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: of-cluster}, spec: {persistentVolumeClaim: {storageClassName: `+
		p.Name+`-late, size: 1Gi}, dataSource: {type: ObjectRef, objectRef: {kind: ClusterVirtualImage, name: `+p.Name+`}}}}
`)
	p.eventually("the image of the cluster is stored", func() bool { return p.get("cvi-"+p.Name, &v1.VirtualImage{}) })
	p.Kubectl("delete", "vd", "of-cluster")
	p.Kubectl("delete", "cvi", p.Name)
	p.Kubectl("delete", "vi", "cvi-"+p.Name, "--ignore-not-found")
}

// usesSnapshots creates two snapshots of a disk. The storage is too slow for one of them to be consistent.
func (p *place) usesSnapshots() {
	p.t.Helper()
	p.Apply(`
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: `+p.Name+`}, driver: example.org/none, deletionPolicy: Delete}
`, `
{apiVersion: v1, kind: PersistentVolume, metadata: {name: `+p.Name+`-late}, spec: {storageClassName: `+p.Name+`-late, capacity: {storage: 1Gi},
  volumeMode: Block, accessModes: [ReadWriteOnce], claimRef: {namespace: `+p.Name+`, name: vd-data}, csi: {driver: csi.example.org, volumeHandle: v}}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: data}, spec: {persistentVolumeClaim: {storageClassName: `+
		p.Name+`-late, size: 1Gi}}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDiskSnapshot, metadata: {name: kept}, spec: {virtualDiskName: data, requiredConsistency: true}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDiskSnapshot, metadata: {name: slow}, spec: {virtualDiskName: data, requiredConsistency: true}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineSnapshot, metadata: {name: none}, spec: {virtualMachineName: none}}
`)
	asked := func(name string) func() bool {
		return func() bool { return p.Kubectl("get", "volumesnapshot", "--ignore-not-found", "vds-"+name) != "" }
	}
	is := func(name string, phase v1.SnapshotPhase) func() bool {
		return func() bool {
			var s v1.VirtualDiskSnapshot
			return p.get(name, &s) && s.Status.Phase == phase
		}
	}
	p.eventually("the storage is asked for the snapshots", func() bool { return asked("kept")() && asked("slow")() })
	p.Kubectl("patch", "volumesnapshot", "vds-kept", "--subresource=status", "--type=merge", "-p",
		`{"status": {"creationTime": "2026-01-02T03:04:05Z", "readyToUse": true}}`)
	p.eventually("one is consistent", is("kept", v1.SnapshotReady))
	p.eventually("the other one is not", is("slow", v1.SnapshotFailed))
	p.eventually("which is removed", func() bool { return !asked("slow")() })
	p.eventually("a snapshot of a VM waits for its VM", func() bool {
		var s v1.VirtualMachineSnapshot
		return p.get("none", &s) && s.Status.Reason == snapshot.ReasonMachine
	})
	p.Kubectl("delete", "vdsnapshot", "kept", "slow")
	p.Kubectl("delete", "vd", "data")
}

// usesAttachments attaches a disk, restarts its export next to a Service, and detaches it.
func (p *place) usesAttachments() {
	p.t.Helper()
	p.Apply(`
{apiVersion: v1, kind: PersistentVolume, metadata: {name: `+p.Name+`-more}, spec: {storageClassName: `+p.Name+`-late, capacity: {storage: 1Gi},
  volumeMode: Block, accessModes: [ReadWriteOnce], claimRef: {namespace: `+p.Name+`, name: vd-more}, csi: {driver: csi.example.org, volumeHandle: w}}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: more}, spec: {persistentVolumeClaim: {storageClassName: `+
		p.Name+`-late, size: 1Gi}}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: plugs}, spec: {vm: {state: Running, maximumCpus: 1, accelerator: tcg, disks: []}}}
`, `
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineBlockDeviceAttachment, metadata: {name: more}, spec: {virtualMachineName: plugs,
  blockDeviceRef: {kind: VirtualDisk, name: more}}}
`)
	exported := func(other string) func() bool {
		return func() bool {
			var pod corev1.Pod
			return p.get("vd-more", &pod) && string(pod.UID) != other
		}
	}
	p.eventually("the disk is exported", exported(""))
	uid := p.Kubectl("get", "pod", "vd-more", "-o", "jsonpath={.metadata.uid}")
	p.Kubectl("delete", "pod", "vd-more")
	p.eventually("another pod exports it", exported(uid))
	p.Kubectl("patch", "vms", "plugs", "--type=merge", "-p", `{"spec": {"vm": {"state": "Stopped"}}}`)
	p.eventually("the export is ended", func() bool {
		return !p.get("vd-more", &corev1.Pod{}) && !p.get("vd-more", &corev1.Secret{})
	})
	p.Kubectl("delete", "vmbda", "more")
	p.Kubectl("delete", "vm", "plugs")
	p.eventually("the disk is free", func() bool {
		var d v1.VirtualDisk
		return p.get("more", &d) && len(d.Status.AttachedToVirtualMachines) == 0
	})
	p.Kubectl("delete", "vd", "more")
}

// needsToBlockDeletion shows that no object of a VM can be created without this permission.
func (p *place) needsToBlockDeletion(vm string) {
	p.t.Helper()
	var set appsv1.StatefulSet
	require.True(p.t, p.get(vm, &set))
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "its-", Namespace: p.Name,
		OwnerReferences: set.OwnerReferences,
	}}
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	require.NoError(p.t, err)
	config.Dial = p.Dial
	manager, err := client.New(config, client.Options{Scheme: p.client.Scheme()})
	require.NoError(p.t, err)
	require.NoError(p.t, manager.Create(p.t.Context(), object.DeepCopy(), client.DryRunAll))
	var role rbacv1.Role
	require.True(p.t, p.get("vm-operator", &role))
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "vms/finalizers")
	})
	require.NoError(p.t, p.client.Update(p.t.Context(), &role))
	p.eventually("it is refused", func() bool {
		err := manager.Create(p.t.Context(), object.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "cannot set blockOwnerDeletion")
	})
}

// gone ends a deleted pod instead of its kubelet.
func (p *place) gone(pod *corev1.Pod) {
	p.t.Helper()
	var now corev1.Pod
	p.eventually("pod "+pod.Name+" is deleted", func() bool {
		return !p.get(pod.Name, &now) || now.UID != pod.UID || now.DeletionTimestamp != nil
	})
	p.Kubectl("delete", "pod", pod.Name, "--force", "--ignore-not-found")
}

// granted returns the permissions of rules, each as "resource.group verb".
func granted(rules []rbacv1.PolicyRule) []string {
	all := map[string]bool{}
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all[resource+"."+rule.APIGroups[0]+" "+verb] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// requests returns the permissions that a service account has used, in the same format, and its refused requests.
// Creating an object with a patch also uses the permission to create.
func (p *place) requests(account string) (used, refused []string) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.Dir, cluster.AuditLog))
	require.NoError(p.t, err)
	all := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var event struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef *struct{ Resource, Subresource, APIGroup string }
			Response  struct{ Code int } `json:"responseStatus"`
			URI       string             `json:"requestURI"`
		}
		require.NoError(p.t, json.Unmarshal([]byte(line), &event))
		if event.User.Username != "system:serviceaccount:"+p.Name+":"+account {
			continue
		}
		if event.Response.Code == 403 {
			refused = append(refused, line)
		}
		if event.ObjectRef == nil {
			continue // discovery, which all users may read
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		verbs := []string{event.Verb}
		switch {
		case event.Verb == "patch" && event.Response.Code == 201:
			verbs = append(verbs, "create")
		case event.Verb == "watch" && strings.Contains(event.URI, "sendInitialEvents=true"):
			verbs = append(verbs, "list") // used for older API servers
		}
		for _, verb := range verbs {
			all[resource+"."+event.ObjectRef.APIGroup+" "+verb] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), refused
}

// One of two managers leads. When it is killed, the other takes over.
func TestOneOfTwoLeads(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t, "restricted")
	config := p.config("")
	first := p.start(config, "--leader-elect")
	const leads = `leader_election_master_status{name=""}`
	p.eventually("the first leads", func() bool { return first.metric(leads) == "1" })
	second := p.start(config, "--leader-elect")
	p.machine("one")
	p.eventually("the first works", func() bool { return p.get("one", &appsv1.StatefulSet{}) })
	require.Equal(t, "0", second.metric(leads))
	require.Empty(t, second.metric(`vmop_vms{phase="Pending"}`), "who leads counts the VMs")

	require.NoError(t, first.cmd.Process.Kill())
	first.awaitEnd()
	p.machine("two")
	p.eventually("the second works", func() bool { return p.get("two", &appsv1.StatefulSet{}) })
	require.Equal(t, "1", second.metric(leads))
	var lease coordinationv1.Lease
	require.True(t, p.get("vm-operator", &lease))
	require.Contains(t, *lease.Spec.HolderIdentity, "-")

	third := p.start(config, "--leader-elect")
	require.Zero(t, second.stop())
	p.eventually("the third leads as soon as the second has stopped", func() bool { return third.metric(leads) == "1" })
	require.Equal(t, int32(2), *p.transitions(), "from the first to the second by time, to the third by hand")
}

func (p *place) transitions() *int32 {
	p.t.Helper()
	var lease coordinationv1.Lease
	require.True(p.t, p.get("vm-operator", &lease))
	return lease.Spec.LeaseTransitions
}

// An API server that does not answer is logged, even by an idle manager, which continues when the server is back. All
// tests here share the server, so no other test may run at the same time.
func TestTheAPIServerIsAway(t *testing.T) {
	tier.Deep(t)
	p := newPlace(t, "restricted")
	m := p.start(p.config(""))
	require.Equal(t, "0", m.metric("vmop_apiserver_away"))
	require.NoError(t, p.StopServer(t.Context()))
	p.eventually("it is away", func() bool { return m.metric("vmop_apiserver_away") == "1" })
	require.Equal(t, 1, strings.Count(m.log.String(), "the API server does not answer"))
	require.NoError(t, p.StartServer(t.Context()))
	p.machine("web")
	p.eventually("it is back", func() bool { return m.metric("vmop_apiserver_away") == "0" })
	p.eventually("the manager continues", func() bool { return p.get("web", &appsv1.StatefulSet{}) })
	require.Contains(t, m.log.String(), "the API server answers again")
}

// A new configuration applies to existing VMs. An invalid configuration does not: the manager logs the errors, and
// continues.
func TestConfigurationFollowsItsFile(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "restricted")
	dir := t.TempDir()
	write := func(version string, files map[string]string) { // as the kubelet writes a ConfigMap
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		for name, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o600))
		}
		require.NoError(t, os.Symlink(version, filepath.Join(dir, "..new")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	}
	for _, name := range []string{"config.yaml", "logging.properties"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	section := func(text string) map[string]string {
		return map[string]string{"config.yaml": "/Manager/Controller: {namespace: " + p.Name + ", /Reconciler: {" +
			text + "}}\n"}
	}
	image := func() string {
		var set appsv1.StatefulSet
		if !p.get("web", &set) {
			return ""
		}
		return set.Spec.Template.Spec.Containers[0].Image
	}
	write("1", section("image: {source: one}"))
	m := p.start(filepath.Join(dir, "config.yaml"))
	p.machine("web")
	p.eventually("the image is the configured one", func() bool { return image() == "one" })

	write("2", section("image: {source: two}"))
	p.eventually("the new image is taken", func() bool { return image() == "two" })
	require.Equal(t, "2", m.metric("vmop_config_generation"))

	write("3", section("image: {source: three}, cpuOverkommit: 2, ramOvercommit: 0"))
	p.eventually("the faults are counted", func() bool { return m.metric("vmop_config_faulty") == "1" })
	require.Contains(t, m.log.String(), "cpuOverkommit: unknown key (did you mean cpuOvercommit?)")
	require.Contains(t, m.log.String(), "ramOvercommit: can't be 0")
	for _, question := range []string{"/readyz", "/healthz"} {
		body, err := m.ask(m.health, question)
		require.NoError(t, err)
		require.Equal(t, "ok", body, question)
	}
	p.Kubectl("patch", "vms", "web", "--type=merge", "-p", `{"spec": {"priorityClassName": "x"}}`)
	p.eventually("the manager continues", func() bool { return p.vm("web").Status.ObservedGeneration == 2 })
	require.Equal(t, "two", image())

	files := section("image: {source: four}, /DisplaySecretReconciler: {passwordValidity: 5}")
	files["logging.properties"] = "org.jdrupes.vmoperator.manager.level=FINE\n"
	write("4", files)
	p.eventually("the next good one is taken", func() bool { return image() == "four" })
	require.Equal(t, "0", m.metric("vmop_config_faulty"))
	files = section("image: {source: five}, /DisplaySecretReconciler: {passwordValidity: 5}")
	write("5", files)
	p.eventually("details are logged now", func() bool {
		return strings.Contains(m.log.String(), "/Manager/Controller/Reconciler/DisplaySecretReconciler")
	})
	require.Zero(t, m.stop())
}
