package decide

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// acknowledgeTime is how long a kubelet may take until it reports anything about a pod
// that was put on its node. The control plane removes a pod whose node doesn't exist after
// 40 seconds or more, and the stateful set would make another one, forever.
const acknowledgeTime = 30 * time.Second

// AcknowledgeBy returns until when the node that a VM names must have reported something
// about its pod; zero if it has, or if the scheduler has put the pod there.
func AcknowledgeBy(pod *corev1.Pod) time.Time {
	if pod == nil || pod.Spec.NodeName == "" || len(pod.Status.ContainerStatuses) > 0 ||
		condition(pod, corev1.PodReady) != nil || !objects.NamesNode(&pod.ObjectMeta) {
		return time.Time{}
	}
	return pod.CreationTimestamp.Add(acknowledgeTime)
}

// WithoutNode returns a pod that its node has not acknowledged in time as one that could
// not be started, so that this is tried again after the same delays as any failure. Other
// pods are returned as they are.
func WithoutNode(pod *corev1.Pod, now time.Time) *corev1.Pod {
	until := AcknowledgeBy(pod)
	if until.IsZero() || now.Before(until) {
		return pod
	}
	text, err := json.Marshal(v1.Outcome{
		Cause: causeStart, Reason: ReasonNodeMissing,
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
