package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"vmop/manager/vm/objects"
)

// nodeName is the node on which all pods run.
const nodeName = "everywhere"

// hands is the number of pods that the kubelet handles at the same time.
const hands = 8

// kubelet simulates the scheduler, the kubelet, and the runner in each pod.
type kubelet struct {
	pods  clientcore.PodInterface
	vms   dynamic.ResourceInterface
	known cache.Store
	queue workqueue.TypedRateLimitingInterface[string]
	stop  func()

	told   times        // when pods received new configurations
	labels times        // when pods received new values of crowdedLabel
	spoken atomic.Int64 // number of status updates of runners
	failed atomic.Value // the last error, as a string
}

// startKubelet starts the kubelet, which runs until stop is called.
func startKubelet(ctx context.Context, pods clientcore.PodInterface, vms dynamic.ResourceInterface) *kubelet {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &kubelet{pods: pods, vms: vms}
	k.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](
		10*time.Millisecond, time.Second))
	selector := objects.LabelName + "=" + objects.AppName
	add := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			k.queue.Add(key)
		}
	}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.LabelSelector = selector
				return pods.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.LabelSelector = selector
				return pods.Watch(ctx, o)
			},
		},
		ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(was, is any) {
			const version = objects.AnnotationConfigVersion
			before, after := was.(*corev1.Pod), is.(*corev1.Pod)
			if before.Annotations[version] != after.Annotations[version] {
				k.told.recordTime(after.Name)
			}
			if is := after.Labels[crowdedLabel]; before.Labels[crowdedLabel] != is {
				k.labels.recordTime(is)
			}
			add(is)
		}},
	})
	k.known = store
	var working sync.WaitGroup
	working.Go(func() { controller.RunWithContext(ctx) })
	for range hands {
		working.Go(func() {
			for k.workOnce(ctx) {
			}
		})
	}
	k.stop = func() {
		cancel()
		k.queue.ShutDown()
		working.Wait()
	}
	return k
}

// workOnce handles one pod.
func (k *kubelet) workOnce(ctx context.Context) bool {
	key, over := k.queue.Get()
	if over {
		return false
	}
	defer k.queue.Done(key)
	found, exists, err := k.known.GetByKey(key)
	if err == nil && exists {
		err = k.advancePod(ctx, found.(*corev1.Pod))
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		k.failed.Store(err.Error())
		k.queue.AddRateLimited(key)
		return true
	}
	k.queue.Forget(key)
	return true
}

// advancePod moves a pod to its next state. The watch event of that write leads to the next step.
func (k *kubelet) advancePod(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		if err := k.reportState(ctx, pod, "Stopped"); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return k.pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)),
			Preconditions:      &metav1.Preconditions{UID: &pod.UID},
		})
	case pod.Spec.NodeName == "":
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
		}
		return k.pods.Bind(ctx, binding, metav1.CreateOptions{})
	case pod.Status.StartTime == nil:
		return k.setPhase(ctx, pod, corev1.PodPending)
	case pod.Status.Phase == corev1.PodPending:
		if err := k.setPhase(ctx, pod, corev1.PodRunning); err != nil {
			return err
		}
		if err := k.reportState(ctx, pod, "Booting"); err != nil {
			return err
		}
		return k.reportState(ctx, pod, "Booted")
	}
	return nil
}

// setPhase writes a pod's status as a kubelet does: first that its container is being created, then that it runs.
func (k *kubelet) setPhase(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	now := metav1.Now()
	running := phase == corev1.PodRunning
	status := corev1.PodStatus{Phase: phase, HostIP: "10.66.0.11", StartTime: &now}
	ready := corev1.ConditionFalse
	container := corev1.ContainerStatus{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image}
	container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	if running {
		ready, container.Ready, container.Started, container.ContainerID = corev1.ConditionTrue, true, &running,
			"containerd://"+string(pod.UID)
		container.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		status.PodIP, status.PodIPs = "10.100.0.1", []corev1.PodIP{{IP: "10.100.0.1"}}
		status.StartTime = pod.Status.StartTime
	}
	status.ContainerStatuses = []corev1.ContainerStatus{container}
	for kind, value := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodInitialized: corev1.ConditionTrue, corev1.PodReady: ready, corev1.ContainersReady: ready,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: value,
			LastTransitionTime: now,
		})
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = k.pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// reportState writes the VM's status as its runner does.
func (k *kubelet) reportState(ctx context.Context, pod *corev1.Pod, state string) error {
	k.spoken.Add(1)
	name := pod.Labels[objects.LabelInstance]
	text, err := json.Marshal(runnerStatus(name, pod, state))
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "vm-runner", Force: new(true)}
	if _, err := k.vms.Patch(ctx, name, types.ApplyPatchType, text, options, "status"); err != nil {
		return fmt.Errorf("status of VM %s: %w", name, err)
	}
	return nil
}
