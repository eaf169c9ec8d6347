package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
	"vmop/test/wait"
)

// uid returns the UID of a VM's pod.
func (w *world) uid(vm string) apitypes.UID {
	w.t.Helper()
	pod, is := get(w, objects.PodName(vm, 0), &corev1.Pod{})
	require.True(w.t, is, vm)
	return pod.UID
}

// Two simultaneous leaders, one with a clock an hour ahead, create the same objects as one leader and don't undo each
// other's changes.
func TestFault34TwoManagersAndAWrongClock(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := newWorld(t)
	w.play()
	first, second := newWire(), newWire()
	w.manage(first)
	w.ahead = time.Hour
	w.manage(second)
	var names []string
	for i := range 4 {
		names = append(names, fmt.Sprint("vm", i))
		edit := func(*v1.VirtualMachine) {}
		if i%2 == 0 {
			edit = privileged
		}
		w.vm(names[i], edit)
	}
	w.settled()
	claims := map[string]apitypes.UID{}
	for _, name := range names {
		claim, _ := get(w, "runner-data-"+name+"-0", &corev1.PersistentVolumeClaim{})
		claims[claim.Name] = claim.UID
	}
	for _, edit := range []func(*v1.VirtualMachine){stopped, running} {
		for _, name := range names {
			w.edit(name, edit)
		}
		w.settled()
	}
	for name, uid := range claims {
		claim, _ := get(w, name, &corev1.PersistentVolumeClaim{})
		require.Equal(t, uid, claim.UID, name)
	}
	pods := map[string]apitypes.UID{}
	for _, name := range names {
		pods[name] = w.uid(name)
	}
	written := func() int { return len(first.written()) + len(second.written()) }
	wait.Until(t, func() bool {
		was := written()
		w.look()
		w.look()
		<-time.After(10 * tick)
		return written() == was
	}, "they agree")
	for name, uid := range pods {
		require.Equal(t, uid, w.uid(name), name)
	}
}
