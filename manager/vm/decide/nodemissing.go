package decide

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// acknowledgeTime is how long a kubelet may take until it first reports a pod that was assigned to its node. If a
// node doesn't exist, the control plane removes the pod after 40 seconds or more, and the StatefulSet would create
// another pod forever.
const acknowledgeTime = 30 * time.Second

// AcknowledgeBy returns the deadline for the first report about the pod from the node that the VM names. It returns
// zero if the node has reported, or if the scheduler has selected it.
func AcknowledgeBy(pod *corev1.Pod) time.Time {
	if pod == nil || pod.Spec.NodeName == "" || len(pod.Status.ContainerStatuses) > 0 ||
		podCondition(pod, corev1.PodReady) != nil || !objects.NamesNode(&pod.ObjectMeta) {
		return time.Time{}
	}
	return pod.CreationTimestamp.Add(acknowledgeTime)
}

// WithoutNode returns a pod that its node has not acknowledged in time as a pod that could not be started. As a
// result, the start is repeated with the same delays as after any failure. Other pods are returned unchanged.
func WithoutNode(pod *corev1.Pod, now time.Time) *corev1.Pod {
	until := AcknowledgeBy(pod)
	if until.IsZero() || now.Before(until) {
		return pod
	}
	text, err := json.Marshal(v1.Outcome{
		Cause: causeStart, Reason: reasonNodeMissing,
		Message: fmt.Sprintf("node %s (spec.nodeName) has not acknowledged pod %s: "+
			"check that the node exists and that its kubelet is running", pod.Spec.NodeName, pod.Name),
	})
	if err != nil {
		return pod
	}
	changed := pod.DeepCopy()
	changed.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: objects.ContainerName}}
	changed.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 1, Message: string(text), FinishedAt: metav1.NewTime(until),
	}
	return changed
}
