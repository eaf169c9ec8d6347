package controller

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/test/wait"
)

func disk(name, size string) *v1.VolumeClaimTemplate {
	template := &v1.VolumeClaimTemplate{Metadata: v1.ClaimMetadata{Name: name}}
	template.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return template
}

// playing returns the context for the scheduler, the kubelet and runners that a test plays. They stop in the test's
// cleanup, after the test's own context has been canceled.
func (w *world) playing() context.Context { return context.WithoutCancel(w.t.Context()) }

// pod waits for a VM's pod that is not being deleted.
func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	return eventually(w, name+"-0", &corev1.Pod{}, "there is a pod", func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil
	})
}

// bind plays the scheduler. When the API server is busy, the client may repeat the request, and the pod may already be
// gone.
func (w *world) bind(pod *corev1.Pod) {
	w.t.Helper()
	err := w.client.SubResource("binding").Create(w.playing(), pod, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	})
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		require.NoError(w.t, err)
	}
}

// report plays the kubelet, which reports the status of a pod's container.
func (w *world) report(pod *corev1.Pod, status corev1.ContainerStatus) {
	w.t.Helper()
	status.Name = objects.ContainerName
	status.Ready = status.State.Running != nil
	ready := corev1.ConditionFalse
	if status.Ready {
		ready = corev1.ConditionTrue
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": corev1.PodRunning, "containerStatuses": []corev1.ContainerStatus{status},
		"conditions": []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: ready},
		},
	}})
	require.NoError(w.t, err)
	err = w.client.Status().Patch(w.playing(), pod.DeepCopy(), client.RawPatch(apitypes.MergePatchType, patch))
	require.NoError(w.t, client.IgnoreNotFound(err))
}

func runningSince(at time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)},
	}}
}

func (w *world) endedWith(code int32, message string) corev1.ContainerStatus {
	now := metav1.NewTime(time.Now().Add(time.Duration(w.clock.Load())))
	reason := "Error"
	if code == 0 {
		reason = "Completed"
	}
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: message, StartedAt: now, FinishedAt: now,
	}}}
}

func waitingFor(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason:  reason,
		Message: message,
	}}}
}

// say plays the runner, which reports its state.
func (w *world) say(vm string, pod *corev1.Pod, state string, outcome *v1.Outcome,
	changes ...v1.RestartAwaitingChange,
) {
	w.t.Helper()
	alive := metav1.ConditionFalse
	if state == stateBooting || state == stateBooted {
		alive = metav1.ConditionTrue
	}
	is := &v1.VirtualMachine{} // that the runner has compared
	require.NoError(w.t, client.IgnoreNotFound(w.client.Get(w.playing(),
		client.ObjectKey{Namespace: w.Name, Name: vm}, is)))
	status := v1.VirtualMachineStatus{
		Runner: &v1.RunnerStatus{
			PodName: pod.Name, PodUID: pod.UID, State: state, Reason: "Vm" + state,
			Outcome: outcome, ComparedGeneration: is.Generation, AwaitsServers: !w.earlier,
		},
		CPUs: 2, RAM: "1Gi", VMType: "standard", UUID: "8c1b4d6e-0000-4000-8000-000000000001",
		ConsoleClient:          "10.0.0.1",
		RestartAwaitingChanges: changes,
	}
	if w.drives != nil {
		status.Runner.Drives, status.Runner.DrivesRevision = w.drives(vm)
	}
	for _, name := range v1.MachineConditions() {
		is := alive
		if name == v1.ConditionConsoleConnected {
			is = metav1.ConditionFalse
		}
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: name, Status: is, Reason: "Vm" + state,
			ObservedGeneration: 1, LastTransitionTime: metav1.Now(),
		})
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": v1.GroupVersion().String(), "kind": "VirtualMachine", "metadata": map[string]string{"name": vm},
		"status": status,
	})
	require.NoError(w.t, err)
	object := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: vm, Namespace: w.Name}}
	require.NoError(w.t, w.client.Status().Patch(w.playing(), object, client.RawPatch(apitypes.ApplyPatchType, text),
		client.FieldOwner("vm-runner"), client.ForceOwnership))
}

// boot plays all components until a VM's guest is running.
func (w *world) boot(vm string) *corev1.Pod {
	w.t.Helper()
	pod := w.pod(vm)
	w.bind(pod)
	w.report(pod, runningSince(time.Now()))
	w.say(vm, pod, stateBooted, nil)
	w.phase(vm, v1.PhaseRunning, "")
	return pod
}

// gone plays the runner and the kubelet, which end a pod that is being deleted.
func (w *world) gone(vm string, pod *corev1.Pod) {
	w.t.Helper()
	eventually(w, pod.Name, &corev1.Pod{}, "the pod is being deleted", func(p *corev1.Pod) bool {
		return p.UID == pod.UID && p.DeletionTimestamp != nil
	})
	w.say(vm, pod, stateStopped, &v1.Outcome{Cause: "asked"})
	w.remove(pod)
}

// remove deletes a pod from the API server, as its kubelet finally does.
func (w *world) remove(pod *corev1.Pod) {
	w.t.Helper()
	err := w.client.Delete(w.playing(), pod.DeepCopy(),
		&client.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // another pod may have its name
		require.NoError(w.t, err)
	}
}

// nextSecond waits until the API server's clock, which counts in seconds, is later than the pod's creation.
func (w *world) nextSecond(pod *corev1.Pod) {
	w.t.Helper()
	wait.Until(w.t, func() bool { return time.Now().Unix() > pod.CreationTimestamp.Unix() })
}

// removeWhenTold removes a pod with an ended container when it is deleted.
func (w *world) removeWhenTold(pod *corev1.Pod) {
	w.t.Helper()
	eventually(w, pod.Name, &corev1.Pod{}, "the pod is deleted", func(p *corev1.Pod) bool {
		return p.UID == pod.UID && p.DeletionTimestamp != nil
	})
	w.remove(pod)
}
