package vm

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// noticeTime is how long a kubelet may take to say something of a pod that was put
// on its node. The control plane removes a pod whose node isn't there after 40
// seconds or more, and another one would follow, for ever.
const noticeTime = 30 * time.Second

// unnoticed returns until when the node that a VM names must have said something of
// its pod; zero if it has, or if the scheduler has put the pod there.
func unnoticed(pod *corev1.Pod) time.Time {
	if pod.Spec.NodeName == "" || len(pod.Status.ContainerStatuses) > 0 || condition(pod, corev1.PodReady) != nil || !objects.NamesNode(&pod.ObjectMeta) {
		return time.Time{}
	}
	return pod.CreationTimestamp.Add(noticeTime)
}

// neglected returns a pod of which its node takes no notice as one that could not
// be started: this is tried again as after any failure, and not each minute. Other
// pods are returned as they are.
func (s situation) neglected(pod *corev1.Pod) *corev1.Pod {
	until := unnoticed(pod)
	if until.IsZero() || s.now.Before(until) {
		return pod
	}
	text, err := json.Marshal(v1.Outcome{
		Cause: causeStart, Reason: reasonNodeMissing,
		Message: fmt.Sprintf("node %s (spec.nodeName) takes no notice of pod %s: is there such a node, and does it run?", pod.Spec.NodeName, pod.Name),
	})
	if err != nil {
		return pod
	}
	seen := pod.DeepCopy()
	seen.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: objects.ContainerName, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: string(text), FinishedAt: metav1.NewTime(until)},
	}}}
	return seen
}
