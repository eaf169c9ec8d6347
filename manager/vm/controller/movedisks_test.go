package controller

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	diskof "vmop/manager/disk"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
	"vmop/test/wait"
)

// local creates a VM with a disk that only one node at a time can use.
func (w *world) local() {
	w.t.Helper()
	class := w.storage(false, false, "1Gi", "1Gi", "1Gi")
	w.blankDisk("data", class, "1Gi")
	w.vm("web", withDisks("data"), func(vm *v1.VirtualMachine) {
		vm.Spec.Migration = &v1.MigrationPolicy{CopyDisks: true}
	})
	w.phase("web", v1.PhaseRunning, "")
}

// claimIn returns the disk's claim in a pod.
func claimIn(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.Name == diskof.VolumeName("data") {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// tidy waits until the disk has the claim of the guest's pod, all other claims belong to operations, and the VM has no
// finalizers.
func (w *world) tidy(guest string) {
	w.t.Helper()
	wait.For(w.t, "the disk has what the guest has written, and nothing else is left", func() error {
		d, _ := get(w, "data", &v1.VirtualDisk{})
		if is := d.Status.Target.PersistentVolumeClaimName; is != guest {
			return fmt.Errorf("the disk has the claim %s, and the guest %s", is, guest)
		}
		var claims corev1.PersistentVolumeClaimList
		if err := w.client.List(w.t.Context(), &claims, client.InNamespace(w.Name),
			client.MatchingLabels{objects.LabelName: diskof.AppName}); err != nil {
			return err
		}
		for _, c := range claims.Items {
			owner := metav1.GetControllerOf(&c)
			switch mine := c.Name == guest; {
			case mine && (owner.UID != d.UID || c.UID != d.Status.Target.UID):
				return fmt.Errorf("the disk's claim is another one's: %+v", owner)
			case !mine && owner.Kind != "VirtualMachineOperation":
				return fmt.Errorf("the claim %s is left: %+v", c.Name, owner)
			}
		}
		if vm, is := get(w, "web", &v1.VirtualMachine{}); is && len(vm.Finalizers) > 0 {
			return fmt.Errorf("the VM is held by %v", vm.Finalizers)
		}
		return nil
	})
}

// After a manager is killed at any write of a migration with copied disks, the next manager completes it, and the disk
// has the guest's last data.
func TestFault33TheManagerIsKilledWhileDisksAreCopied(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	// The first write before this range holds the VM, and the last write releases it.
	movesThoughKilled(t, 4, 22, (*world).local, func(w *world, vm *v1.VirtualMachine) {
		pod, _ := get(w, vm.Status.Runner.PodName, &corev1.Pod{})
		w.tidy(claimIn(pod))
	})
}

// A VM deleted while its disks are copied stays until it is known which volume has the guest's last data.
func TestAVMIsDeletedWhileItsDisksAreCopied(t *testing.T) {
	t.Parallel()
	for what, stays := range map[string]bool{"the guest stays": true, "the guest has moved": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.playMoves()
			w.movers.asked, w.movers.goes, w.movers.refuses = make(chan struct{}), make(chan struct{}), stays
			w.manage(nil)
			w.local()
			w.request("move", "Migrate")
			<-w.movers.asked
			vm, _ := get(w, "web", &v1.VirtualMachine{})
			want := vm.Status.Migration.Disks[0].Claim
			if stays {
				want = "vd-data"
			}
			require.NoError(t, w.client.Delete(t.Context(), vm))
			held := eventually(w, "web", &v1.VirtualMachine{}, "is being deleted", func(vm *v1.VirtualMachine) bool {
				return vm.Status.Phase == v1.PhaseTerminating
			})
			require.Equal(t, []string{v1.MigrationFinalizer}, held.Finalizers)
			close(w.movers.goes)
			wait.For(t, "the VM goes", func() error {
				err := w.client.Get(t.Context(), client.ObjectKeyFromObject(vm), &v1.VirtualMachine{})
				if !apierrors.IsNotFound(err) {
					return fmt.Errorf("it is there: %w", err)
				}
				return nil
			})
			w.tidy(want)
		})
	}
}

// If the namespace has no room for a copy, the migration fails immediately with the API server's error.
func TestThereIsNoRoomForACopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.playMoves()
	w.manage(nil)
	w.local()
	w.create(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "little", Namespace: w.Name},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceRequestsStorage: resource.MustParse("1Gi"),
		}},
	})
	eventually(w, "little", &corev1.ResourceQuota{}, "is in force", func(q *corev1.ResourceQuota) bool {
		return len(q.Status.Hard) > 0
	})
	w.request("move", "Migrate")
	vm, o := w.moved("move")
	require.Equal(t, v1.OperationFailed, o.Status.Phase)
	require.Contains(t, vm.Status.Migration.Message, "for the copy of the VirtualDisk data, is refused: ")
	require.Contains(t, vm.Status.Migration.Message, "exceeded quota: little")
	require.False(t, vm.Status.Migration.CopiesKept)
	w.tidy("vd-data")
}

// A foreign claim with the name of a copy ends the migration and stays unchanged.
func TestAnotherClaimIsInTheWayOfACopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.playMoves()
	end := w.manage(nil)
	w.local()
	end()
	w.request("move", "Migrate")
	o, _ := get(w, "move", &v1.VirtualMachineOperation{})
	d, _ := get(w, "data", &v1.VirtualDisk{})
	other := &corev1.PersistentVolumeClaim{}
	other.Name, other.Namespace = diskof.CopyName(d, o.UID), w.Name
	other.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	other.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	w.create(other)
	w.manage(nil)
	vm, o := w.moved("move")
	require.Equal(t, v1.OperationFailed, o.Status.Phase)
	require.Contains(t, vm.Status.Migration.Message, "there is a claim "+other.Name+" already, which is not the "+
		"VirtualDisk data's")
	require.Equal(t, "vd-data", w.diskOf("data", "web").Status.Target.PersistentVolumeClaimName)
	left, is := get(w, other.Name, &corev1.PersistentVolumeClaim{})
	require.True(t, is && len(left.OwnerReferences) == 0)
}
