package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/operation/migration"
	"vmop/manager/vm/objects"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// movers plays the runners of the VM "web" while its guest moves.
type movers struct {
	w *world

	mu      sync.Mutex
	at      apitypes.UID // the pod with the guest; "": no pod has had it yet
	target  *corev1.Pod  // the pod with a waiting runner
	refuses bool         // the source refuses to migrate

	asked, goes chan struct{} // if not nil: closed when a migration is requested, and when it may proceed
}

// of returns a runner, as Options.Source and Target do.
func (m *movers) of(_ *v1.VirtualMachine, pod *corev1.Pod) (migration.Runner, error) {
	if m == nil {
		return nil, errors.New("no runner is played")
	}
	return mover{m, pod.UID}, nil
}

type mover struct {
	*movers

	pod apitypes.UID
}

func (mover) Invitation(context.Context) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }

func (m mover) Migrate(context.Context, control.MigrationRequest, func(vmstatus.Progress)) error {
	if m.asked != nil {
		close(m.asked)
		<-m.goes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at != m.pod || m.target == nil || m.refuses {
		return errors.New("there is no guest, or no target, or it stays")
	}
	m.at = m.target.UID
	m.w.say("web", m.target, stateBooted, nil)
	return nil
}

func (m mover) Status(context.Context) (s status.Status, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at != m.pod {
		s.Outcome = &status.Outcome{Cause: vmstatus.CauseMoved}
	}
	return s, nil
}

// playMoves plays the scheduler, the kubelet and the runners of the VM "web".
func (w *world) playMoves() {
	w.t.Helper()
	w.movers = &movers{w: w}
	ctx, cancel := context.WithCancel(w.t.Context())
	pods, err := w.client.Watch(ctx, &corev1.PodList{}, client.InNamespace(w.Name))
	require.NoError(w.t, err)
	var done sync.WaitGroup
	done.Go(func() {
		seen := map[apitypes.UID]bool{}
		for event := range pods.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type == watch.Deleted || ctx.Err() != nil {
				continue
			}
			switch known := seen[pod.UID]; {
			case pod.DeletionTimestamp != nil:
				w.remove(pod)
			case !known:
				seen[pod.UID] = true
				w.bind(pod)
				w.report(pod, runningSince(time.Now()))
				w.movers.start(pod)
			}
		}
	})
	w.t.Cleanup(func() {
		cancel()
		pods.Stop()
		done.Wait()
	})
}

// start plays a new runner, which starts the guest or waits for it.
func (m *movers) start(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pod.Annotations[objects.AnnotationReceives] == "" {
		m.at = pod.UID
		m.w.say("web", pod, stateBooted, nil)
		return
	}
	m.target = pod
	ip := []byte(`{"status": {"podIP": "192.0.2.9", "podIPs": [{"ip": "192.0.2.9"}]}}`)
	err := m.w.client.Status().Patch(m.w.playing(), pod.DeepCopy(), client.RawPatch(apitypes.MergePatchType, ip))
	require.NoError(m.w.t, client.IgnoreNotFound(err))
	arriving := fmt.Appendf(nil, `{"apiVersion": %q, "kind": "VirtualMachine", "metadata": {"name": "web"}, "status": `+
		`{"arriving": {"podUID": %q, "stage": "Waiting", "control": {"port": 7443, "key": "ab"}}}}`,
		v1.GroupVersion().String(), pod.UID)
	vm := &v1.VirtualMachine{}
	vm.Name, vm.Namespace = "web", m.w.Name
	patch := client.RawPatch(apitypes.ApplyPatchType, arriving)
	require.NoError(m.w.t, m.w.client.Status().Patch(m.w.playing(), vm, patch, client.FieldOwner("vm-runner-target")))
}

// movable lets a VM's guest migrate, and gives its pod more rights than "restricted".
func movable(vm *v1.VirtualMachine) {
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.AccessModes = modes
	vm.Spec.VM.Networks = []v1.Network{{Tap: &v1.Tap{Bridge: "br0"}}}
}

// moved waits until an operation has ended and the VM's status agrees with its result. It returns both.
func (w *world) moved(operation string) (*v1.VirtualMachine, *v1.VirtualMachineOperation) {
	w.t.Helper()
	o := eventually(w, operation, &v1.VirtualMachineOperation{}, "has ended", func(o *v1.VirtualMachineOperation) bool {
		return o.Status.Phase.Finished()
	})
	vm := eventually(w, "web", &v1.VirtualMachine{}, "is settled", func(vm *v1.VirtualMachine) bool {
		return vm.Status.Phase == v1.PhaseRunning && vm.Status.Arriving == nil
	})
	wait.For(w.t, "there is the pod of the guest, and no other", func() error {
		var pods corev1.PodList
		if err := w.client.List(w.t.Context(), &pods, client.InNamespace(w.Name)); err != nil {
			return err
		}
		w.movers.mu.Lock()
		defer w.movers.mu.Unlock()
		if len(pods.Items) != 1 || pods.Items[0].UID != w.movers.at {
			return fmt.Errorf("the guest is in %s, and the pods are %+v", w.movers.at, pods.Items)
		}
		return nil
	})
	require.Equal(w.t, objects.PodName("web", vm.Status.PodOrdinal), vm.Status.Runner.PodName)
	return vm, o
}

// A new image reaches a running guest by migration, or by a restart if the migration fails.
func TestAnImageReachesAGuest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings.Load().Restarts.Pause = 0
	w.playMoves()
	w.manage(nil)
	w.vm("web", automatic) // its disk is local to its node
	w.phase("web", v1.PhaseRunning, "")
	compared := func(image string) {
		w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.Image = &v1.Image{Source: image} })
		vm, _ := get(w, "web", &v1.VirtualMachine{})
		w.needs("web", "NotFresh")
		pod, _ := get(w, objects.PodName("web", vm.Status.PodOrdinal), &corev1.Pod{})
		w.say("web", pod, stateBooted, nil)
	}
	runs := func(image string) (vm *v1.VirtualMachine) {
		w.needs("web", "")
		vm = w.phase("web", v1.PhaseRunning, "")
		pod, _ := get(w, objects.PodName("web", vm.Status.PodOrdinal), &corev1.Pod{})
		require.Equal(t, image, pod.Spec.Containers[0].Image)
		return vm
	}
	compared("example.org/runner:2")
	vm := runs("example.org/runner:2")
	require.Equal(t, int32(1), vm.Status.PodOrdinal)
	require.Equal(t, v1.MigrationCompleted, vm.Status.Migration.Stage)
	require.Equal(t, map[string]string{"kubernetes.io/hostname": node}, vm.Status.Migration.NodeSelector)

	w.movers.mu.Lock()
	w.movers.refuses = true
	w.movers.mu.Unlock()
	compared("example.org/runner:3")
	vm = runs("example.org/runner:3")
	require.Equal(t, v1.MigrationFailed, vm.Status.Migration.Stage)
	require.Len(t, w.events("web", "AutomaticRestart"), 1)
}

// A VM that has lost its status finds its guest through the claims, even after two moves: it starts with the guest's
// last data, and in no other pod.
func TestAVMWithoutItsStatusFindsItsGuest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.playMoves()
	w.manage(nil)
	w.vm("web", movable)
	w.phase("web", v1.PhaseRunning, "")
	for i, operation := range []string{"there", "back"} {
		ordinal := int32(1 - i)
		w.request(operation, "Migrate")
		vm, _ := w.moved(operation)
		require.Equal(t, ordinal, vm.Status.PodOrdinal)
		claim := "runner-data-" + objects.PodName("web", ordinal)
		eventually(w, claim, &corev1.PersistentVolumeClaim{}, "it says so", func(c *corev1.PersistentVolumeClaim) bool {
			return c.Annotations[objects.AnnotationGuestSince] == vm.Status.Migration.EndTime.UTC().Format(time.RFC3339)
		})
		require.NoError(t, w.client.Delete(t.Context(), vm))
		absent(w, vm.Status.Runner.PodName, &corev1.Pod{})

		w.vm("web", movable)
		again := w.phase("web", v1.PhaseRunning, "")
		require.NotEqual(t, vm.UID, again.UID)
		require.Equal(t, ordinal, again.Status.PodOrdinal)
		require.Equal(t, objects.PodName("web", ordinal), again.Status.Runner.PodName)
		_, is := get(w, objects.PodName("web", 1-ordinal), &corev1.Pod{})
		require.False(t, is)
	}
}

// After a manager is killed at any write of a migration, the next manager completes it: the guest is in exactly one
// pod, and the operation names it.
func TestFault33TheManagerIsKilledInAMigration(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	movesThoughKilled(t, 1, 20, func(w *world) { w.vm("web", movable) }, func(*world, *v1.VirtualMachine) {})
}

// movesThoughKilled kills the manager at some writes of a migration, each in a new world, and checks how the next
// manager continues.
func movesThoughKilled(
	t *testing.T, first, last int, begin func(*world), check func(*world, *v1.VirtualMachine),
) {
	t.Helper()
	for at := first; at <= last; at++ {
		t.Run(fmt.Sprintf("write %d", at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.playMoves()
			end := w.manage(nil)
			begin(w)
			w.phase("web", v1.PhaseRunning, "")
			end()
			via := cutWire(at, at%2 == 0)
			end = w.manage(via)
			w.request("move", "Migrate")
			wait.Receive(t, via.cut, "the manager has written less", "%v", via.written())
			end()
			w.manage(nil)
			vm, o := w.moved("move")
			require.Equal(t, vm.Status.PodOrdinal == 1, o.Status.Phase == v1.OperationCompleted, "%+v", o.Status)
			check(w, vm)
		})
	}
}
