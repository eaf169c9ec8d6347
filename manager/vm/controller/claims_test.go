package controller

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
)

// told waits until a VM's condition Reconciled is False with a message.
func (w *world) told(name, message string) *v1.VirtualMachine {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualMachine{}, "the message "+message, func(vm *v1.VirtualMachine) bool {
		status, said := reconciled(vm)
		return status == metav1.ConditionFalse && strings.Contains(said, message)
	})
}

// Events warn in time about the deletion of a running VM's claims, and report the claims that replace them.
func TestClaimDeleted(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	for _, name := range []string{"runner-data-web-0", "system-disk-web-0"} {
		claim, _ := get(w, name, &corev1.PersistentVolumeClaim{})
		require.NoError(t, w.client.Delete(t.Context(), claim))
	}
	w.told("web", "the runner's data: the claim runner-data-web-0 is being deleted, which cannot be undone. The VM keeps it until its pod ends; "+
		"for the next start, an empty claim is created, with a new machine uuid, firmware variables and TPM.")
	vm := eventually(w, "web", &v1.VirtualMachine{}, "of both", func(vm *v1.VirtualMachine) bool {
		_, message := reconciled(vm)
		return len(w.events("web", decide.ReasonClaimDeleted)) == 2 && len(message) > 400
	})
	_, message := reconciled(vm)
	require.Contains(t, message, "spec.vm.disks[0].volumeClaimTemplate: the claim system-disk-web-0 is being deleted")
	require.Equal(t, decide.ReasonClaimDeleted, condition(vm, v1.ConditionReconciled).Reason)
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)

	require.NoError(t, w.client.Delete(t.Context(), pod.DeepCopy()))
	w.replicas("web", 0)
	w.gone("web", pod)
	second := w.boot("web")
	require.NotEqual(t, pod.UID, second.UID)
	w.isWell("web")
	made := w.events("web", "ClaimMade")
	require.Len(t, made, 2)
	for _, e := range made {
		if e.Type == corev1.EventTypeWarning {
			require.Contains(t, e.Note, "runner-data-web-0 has been created for the runner's data: it is empty, since the previous one is gone")
		}
	}
}

// isWell waits until a VM's condition Reconciled is True.
func (w *world) isWell(name string) {
	w.t.Helper()
	eventually(w, name, &v1.VirtualMachine{}, "all is well", func(vm *v1.VirtualMachine) bool {
		status, _ := reconciled(vm)
		return status == metav1.ConditionTrue && vm.Status.ObservedGeneration == vm.Generation
	})
}

// An invalid level in a VM's logging.properties is reported with its line and the correct level; unknown loggers of
// VM-Operator are accepted.
func TestLevelsOfItsOwn(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", stopped, func(vm *v1.VirtualMachine) {
		vm.Spec.LoggingProperties = "org.jgrapes.level=FINE\n.level=DEBUG\n"
	})
	vm := w.told("web", `spec.loggingProperties: line 2: .level: "DEBUG" is not a level (it is called FINE here)`)
	require.Equal(t, decide.ReasonLogging, condition(vm, v1.ConditionReconciled).Reason)
	require.Equal(t, v1.PhaseStopped, vm.Status.Phase)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.LoggingProperties = "org.jgrapes.level=FINE\n.level=FINE\n" })
	w.isWell("web")
}
