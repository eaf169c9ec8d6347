package controller

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
)

// One VM has its own claim, which disks copy.
const ownVM, ownVolume, ownClaim = "vm-0", "own-disk", "own-disk-vm-0-0"

func withOwnClaim(vm *v1.VirtualMachine) {
	if vm.Name == ownVM {
		of := &v1.VolumeClaimTemplate{Metadata: v1.ClaimMetadata{Name: "own"}}
		vm.Spec.VM.Disks = []v1.Disk{{VolumeClaimTemplate: of}}
	}
}

func ownClaims(vm *v1.VirtualMachine) []objects.Claim {
	if vm.Name != ownVM {
		return nil
	}
	return []objects.Claim{{Name: ownClaim}}
}

func ownVolumes(vm *v1.VirtualMachine) []corev1.Volume {
	if vm.Name != ownVM {
		return nil
	}
	v := corev1.Volume{Name: ownVolume}
	v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: ownClaim}
	return []corev1.Volume{v}
}

func (w *world) newOwnClaim() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: ownClaim, Namespace: namespace, UID: "own", Labels: map[string]string{
			objects.LabelName: objects.AppName, objects.LabelInstance: ownVM, v1.LabelDataSource: "true",
		},
	}}
	c.Status.Phase = corev1.ClaimBound
	c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	w.next(c)
	return c
}

// ofOwnClaim changes something about the VM, or about a disk that copies its claim.
func (w *world) ofOwnClaim() {
	const of = "disk-0"
	switch vm, pod := w.vms[ownVM], w.pods[ownVM]; w.random.IntN(12) {
	case 0:
		vm.Spec.VM.State = []v1.State{v1.Running, v1.Stopped}[w.random.IntN(2)]
	case 1:
		if pod != nil && pod.DeletionTimestamp != nil {
			delete(w.pods, ownVM)
		}
	case 2, 3:
		w.reconcileVM(ownVM)
	case 4, 5:
		w.keepSet(ownVM)
	case 6:
		w.known = maps.Clone(w.pods)
	case 7:
		w.work(disk.PodName(of))
		w.now = w.now.Add(time.Duration(w.random.IntN(8)) * time.Second)
	case 8:
		if d := w.disks[of]; d == nil || disk.Whole(d) { // a new disk
			delete(w.disks, of)
			w.defineDisk(of)
			w.disks[of].Spec.DataSource = &v1.VirtualDiskSource{
				Type: v1.DiskSourceObjectRef, ObjectRef: &v1.DiskSourceRef{Kind: v1.KindClaim, Name: ownClaim},
			}
			w.see(w.disks[of], false)
		}
		w.collect()
	case 9:
		for _, event := range w.events {
			event()
		}
		w.events = nil
	default:
		w.reconcileDisk(of)
	}
	if w.cut {
		w.start()
	}
}

// A VM's claim is copied only while no pod of the VM mounts it, whatever the order of writes, and even if managers are
// killed.
func TestAClaimIsLeftAloneWhileItIsCopied(t *testing.T) {
	t.Parallel()
	copies, ran := 0, 0
	rounds := tier.Rounds(60)
	for seed := range uint64(rounds) {
		w := newWorld(t, seed, 0.05)
		w.define(ownVM)
		w.vms[ownVM].Spec.BlockDeviceRefs = nil
		for range 2000 {
			w.ofOwnClaim()
			w.check()
			ran += len(w.pods)
		}
		copies += w.ofClaim
	}
	require.Greater(t, copies, rounds*5/3, "it is copied")
	require.Greater(t, ran, 83*rounds, "the VM runs")
}
