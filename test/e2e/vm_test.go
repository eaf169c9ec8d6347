package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/guest"
	"vmop/test/wait"
)

// clusterVM is a VM of a test.
type clusterVM struct {
	*lab
	t       testing.TB
	name    string
	ordinal int // of its pod
}

// tiny returns the definition of a VM that runs the tiny guest.
func tiny(name string, change ...func(*v1.VirtualMachineSpec)) *v1.VirtualMachine {
	ram := resource.MustParse("160Mi")
	d := &v1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1.VirtualMachineSpec{VM: v1.VM{
			State: v1.Running, Accelerator: "tcg", Firmware: "bios", MaximumCPUs: new(int32(1)), MaximumRAM: &ram,
			PowerdownTimeout: new(int32(120)),
			Kernel: &v1.Kernel{
				Image: "vmlinuz", Initrd: "initrd.gz",
				CommandLine: guest.CommandLine + " net.ifnames=0",
			},
			Networks: []v1.Network{{User: &v1.UserNetwork{}}},
		}},
	}
	for _, c := range change {
		c(&d.Spec)
	}
	return d
}

// withDisk adds a disk.
func withDisk(name string, mode corev1.PersistentVolumeMode) func(*v1.VirtualMachineSpec) {
	return func(s *v1.VirtualMachineSpec) {
		s.VM.Disks = append(s.VM.Disks, v1.Disk{VolumeClaimTemplate: &v1.VolumeClaimTemplate{
			Metadata: v1.ClaimMetadata{Name: name},
			Spec: v1.ClaimSpec{
				StorageClassName: new(storage), VolumeMode: &mode,
				Resources: v1.Resources{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
				},
			},
		}})
	}
}

// create creates a VM, which is deleted when the test ends. If the test has failed, it logs the VM's description.
func (l *lab) create(t testing.TB, definition *v1.VirtualMachine) *clusterVM {
	t.Helper()
	v := &clusterVM{lab: l, t: t, name: definition.Name}
	user, _ := l.users.LoadOrStore(v.name, t.Name())
	require.Equal(t, user, t.Name(), "another test has used the VM name %s, and its claims stay", v.name)
	require.NoError(t, l.client.Create(t.Context(), definition))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			t.Log(v.describe(ctx))
		}
		err := l.client.Delete(ctx, &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
			Name:      v.name,
			Namespace: namespace,
		}})
		require.NoError(t, client.IgnoreNotFound(err))
	})
	return v
}

// describe returns what an engineer on call would inspect.
func (v *clusterVM) describe(ctx context.Context) string {
	var text strings.Builder
	// Two looks at the registers show whether a silent guest is running, and where.
	registers := []string{
		"exec", v.podName(), "--", "vmrunner", "qmp", "human-monitor-command", `{"command-line": "info registers -a"}`,
	}
	for _, args := range [][]string{
		registers,
		{"get", "vm", v.name, "-o", "yaml"},
		{"get", "pods,statefulsets,persistentvolumeclaims", "-l", "app.kubernetes.io/instance=" + v.name, "-o", "wide"},
		{"describe", "pods", "-l", "app.kubernetes.io/instance=" + v.name},
		{"logs", v.podName(), "--previous"},
		{"logs", v.podName()},
		{"get", "events", "--field-selector", "involvedObject.name=" + v.name},
		registers,
	} {
		out, err := v.Kubectl(ctx, append([]string{"-n", namespace}, args...)...)
		fmt.Fprintf(&text, "\n--- kubectl %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			fmt.Fprintln(&text, err)
		}
	}
	fmt.Fprintf(&text, "--- QEMUs: %v\n", v.qemus(v.name))
	return text.String()
}

// podName returns the name of the VM's pod.
func (v *clusterVM) podName() string { return fmt.Sprintf("%s-%d", v.name, v.ordinal) }

// now returns the current VM.
func (v *clusterVM) now() *v1.VirtualMachine {
	v.t.Helper()
	var now v1.VirtualMachine
	require.NoError(v.t, v.client.Get(v.t.Context(), client.ObjectKey{Namespace: namespace, Name: v.name}, &now))
	return &now
}

// pod returns the VM's pod, or nil.
func (v *clusterVM) pod() *corev1.Pod {
	v.t.Helper()
	var pod corev1.Pod
	err := v.client.Get(v.t.Context(), client.ObjectKey{Namespace: namespace, Name: v.podName()}, &pod)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(v.t, err)
	return &pod
}

// change changes the definition.
func (v *clusterVM) change(change func(*v1.VirtualMachineSpec)) {
	v.t.Helper()
	wait.For(v.t, "a change of "+v.name, func() error {
		now := v.now()
		change(&now.Spec)
		return v.client.Update(v.t.Context(), now)
	})
}

// set sets spec.vm.state.
func (v *clusterVM) set(state v1.State) {
	v.t.Helper()
	v.change(func(s *v1.VirtualMachineSpec) { s.VM.State = state })
}

// until waits until the VM is in the wanted state.
func (v *clusterVM) until(what string, is func(*v1.VirtualMachine) bool) *v1.VirtualMachine {
	v.t.Helper()
	var now *v1.VirtualMachine
	wait.For(v.t, v.name+" "+what, func() error {
		if now = v.now(); !is(now) {
			return fmt.Errorf("the phase is %q (%s: %s)", now.Status.Phase, now.Status.Reason, now.Status.Message)
		}
		return nil
	})
	return now
}

// phase waits for a phase.
func (v *clusterVM) phase(phase v1.Phase) *v1.VirtualMachine {
	v.t.Helper()
	return v.until("to be "+string(phase), func(now *v1.VirtualMachine) bool { return now.Status.Phase == phase })
}

// condition waits for a condition, and returns it.
func (v *clusterVM) condition(name string, status metav1.ConditionStatus) metav1.Condition {
	v.t.Helper()
	now := v.until("to have the condition "+name+"="+string(status), func(now *v1.VirtualMachine) bool {
		return meta.IsStatusConditionPresentAndEqual(now.Status.Conditions, name, status)
	})
	return *meta.FindStatusCondition(now.Status.Conditions, name)
}

// runs waits until the guest runs, and returns QEMU's process ID.
func (v *clusterVM) runs() int {
	v.t.Helper()
	v.until("to run in its pod", func(now *v1.VirtualMachine) bool {
		pod, said := v.pod(), now.Status.Runner // for a moment, the phase may still describe the previous pod
		return now.Status.Phase == v1.PhaseRunning && pod != nil && said != nil && said.PodUID == pod.UID &&
			said.State != "Stopped"
	})
	return v.qemu()
}

// qemu returns the process ID of the VM's QEMU.
func (v *clusterVM) qemu() int {
	v.t.Helper()
	all := v.qemus(v.name)
	require.Len(v.t, all, 1, "a VM that runs has one QEMU")
	return all[0]
}

// podOtherThan waits until the VM has another pod than earlier.
func (v *clusterVM) podOtherThan(earlier *corev1.Pod) *corev1.Pod {
	v.t.Helper()
	var pod *corev1.Pod
	wait.For(v.t, "another pod of "+v.name, func() error {
		if pod = v.pod(); pod == nil || pod.UID == earlier.UID {
			return errors.New("there is none")
		}
		return nil
	})
	return pod
}

// podGone waits until the VM has no pod and no QEMU.
func (v *clusterVM) podGone() {
	v.t.Helper()
	wait.For(v.t, "the pod of "+v.name+" to go", func() error {
		if pod := v.pod(); pod != nil {
			return fmt.Errorf("there is %s, since %v", pod.UID, pod.CreationTimestamp)
		}
		return nil
	})
	require.Empty(v.t, v.qemus(v.name), "a VM without a pod has no QEMU")
}

// cutOff stops a VM with a guest that doesn't shut down, such as firmware.
func (v *clusterVM) cutOff() {
	v.t.Helper()
	v.change(func(s *v1.VirtualMachineSpec) { s.VM.PowerdownTimeout = new(int32(1)) })
	v.until("to know that", func(now *v1.VirtualMachine) bool {
		c := meta.FindStatusCondition(now.Status.Conditions, v1.ConditionConfigApplied)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == now.Generation
	})
	v.set(v1.Stopped)
	v.phase(v1.PhaseStopped)
	v.podGone()
}

// delete deletes the VM, and waits until its resource no longer exists.
func (v *clusterVM) delete(flags ...string) {
	v.t.Helper()
	v.kubectl(v.t, append([]string{"delete", "vm", v.name, "--timeout=4m"}, flags...)...)
}

// claim requires that a claim exists, bound or pending, and has no owner.
func (v *clusterVM) claim(name string) {
	v.t.Helper()
	wait.For(v.t, "the claim "+name, func() error {
		var claim corev1.PersistentVolumeClaim
		if err := v.client.Get(v.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil || len(claim.OwnerReferences) > 0 {
			return fmt.Errorf("it is %s, deleted %v, owned by %v", claim.Status.Phase, claim.DeletionTimestamp,
				claim.OwnerReferences)
		}
		return nil
	})
}
