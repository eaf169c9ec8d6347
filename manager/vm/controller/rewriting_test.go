package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/apply"
	"vmop/test/wait"
)

// A new manager version that generates different objects rewrites them at a limited rate. An edited VM doesn't wait for
// the others, and no VM restarts.
func TestRewriting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.play()
	end := w.manage(nil)
	const count = 4
	for i := range count {
		w.vm(fmt.Sprint("vm", i))
	}
	w.settled()
	stop()
	end()
	w.settings.Load().Image = "vmrunner:next"
	w.rewriting = apply.Rate{Interval: time.Hour, Burst: 1}
	via := newWire()
	w.manage(via)

	rewritten := func() (names []string) {
		var vms v1.VirtualMachineList
		require.NoError(t, w.client.List(t.Context(), &vms, client.InNamespace(w.Name)))
		for _, vm := range vms.Items {
			set, _ := get(w, vm.Name, &appsv1.StatefulSet{})
			next := set.Spec.Template.Spec.Containers[0].Image == "vmrunner:next"
			told := len(vm.Status.RestartAwaitingChanges) == 1
			require.False(t, told && !next, vm.Name)
			if told {
				require.Equal(t, "image.source", vm.Status.RestartAwaitingChanges[0].Path)
				require.Equal(t, metav1.ConditionTrue, condition(&vm, v1.ConditionRestartRequired).Status)
				require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
				names = append(names, vm.Name)
			}
		}
		return names
	}
	wait.Until(t, func() bool { return len(rewritten()) == 1 }, "its turn has come")
	last := slices.IndexFunc([]string{"vm0", "vm1", "vm2", "vm3"}, func(name string) bool {
		return !slices.Contains(rewritten(), name)
	})
	edited := fmt.Sprint("vm", last)
	w.edit(edited, func(vm *v1.VirtualMachine) { vm.Spec.VM.BootMenu = new(true) })
	wait.Until(t, func() bool { return slices.Contains(rewritten(), edited) }, "it was edited")
	for range 3 {
		w.look()
	}
	require.Len(t, rewritten(), 2, "the others wait")
	for range count - 1 {
		w.advance(time.Hour)
	}
	wait.Until(t, func() bool { return len(rewritten()) == count })
	require.Empty(t, slices.DeleteFunc(via.written(), func(s string) bool {
		return !strings.Contains(s, "DELETE")
	}), "no pod is restarted")
	require.Equal(t, "vmrunner:test", w.pod("vm0").Spec.Containers[0].Image)
}
