package disk

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/printable"
)

// importPhase returns the phase of an incomplete disk with a claim.
func (s Situation) importPhase(is *v1.DiskImport) (phase v1.DiskPhase, reason, message string) {
	name := importPodOf(s.Disk)
	switch {
	case s.Claim.Status.Phase == corev1.ClaimLost:
		return s.boundPhase()
	case s.copyFault() != nil && (is.Pod == "" || s.Pod != nil && Gated(s.Pod)):
		why := s.copyFault()
		return v1.DiskPending, why.Reason, why.Message
	case s.secretMissing() && is.Pod == "":
		return v1.DiskPending, ReasonSecretMissing, fmt.Sprintf("there is no Secret %s of the type %s (%s): "+
			"the import begins when it is created", s.Secret.Name, s.Secret.Type, s.Secret.Path)
	case !s.secretFits() && is.Pod == "":
		return v1.DiskPending, ReasonSecretHost, fmt.Sprintf(
			"the Secret %s may not be sent to %s (%s): the import begins when its annotation %s has this server",
			s.Secret.Name, serverOf(s.Disk.Spec.DataSource.HTTP.URL), s.Secret.Path, v1.AnnotationHosts)
	case s.Claim.Status.Phase != corev1.ClaimBound && !s.waitsForPod():
		return s.boundPhase()
	case s.Refused != nil && is.Pod == "":
		return v1.DiskPending, s.Refused.Reason, s.Refused.Message
	case s.Pod != nil && !metav1.IsControlledBy(s.Pod, s.Disk):
		return v1.DiskFailed, ReasonPodTaken, fmt.Sprintf("there is a pod %s already, which is not this %s's: "+
			"delete it", name, s.nounForPeople())
	case is.Pod != "":
		return s.runningPhase(is)
	case is.Failures > 0 && is.Inputs == s.importInputs():
		return s.failedPhase(is)
	case s.Claim.Status.Phase != corev1.ClaimBound && !s.Wanted:
		return v1.DiskWaiting, ReasonConsumer, "the volume is created and filled when a VM that uses the disk starts"
	case s.awaitsGrowth() || s.tooSmall():
		return v1.DiskPending, ReasonGrowing, s.growthText()
	}
	return v1.DiskProvisioning, ReasonStarting, fmt.Sprintf("the import pod %s is being created", name)
}

// failedPhase returns the phase of a disk after a failed import, until the next attempt.
func (s Situation) failedPhase(is *v1.DiskImport) (phase v1.DiskPhase, reason, message string) {
	again, secret := "", ""
	if is.RetryTime != nil {
		again = "; it is tried again at " + is.RetryTime.UTC().Format(time.RFC3339)
	}
	if s.Secret.Name != "" {
		secret = ", or when the Secret " + s.Secret.Name + " changes"
	}
	switch remedyOf(is.Reason) {
	case byTime:
		return v1.DiskProvisioning, is.Reason, is.Message + again
	case byServer:
		return v1.DiskFailed, is.Reason, is.Message + again + secret +
			": if the source in the definition is wrong, delete the " + s.nounForPeople() + ", and create it again"
	case byChange:
	}
	return v1.DiskFailed, is.Reason, is.Message + "; vmop retries when the " + s.nounForPeople() + " is resized" +
		secret + ": if the cause is another, delete the " + s.nounForPeople() + ", and create it again"
}

// runningPhase returns the phase of a disk while its import pod may be running.
func (s Situation) runningPhase(is *v1.DiskImport) (phase v1.DiskPhase, reason, message string) {
	phase, name, last := v1.DiskProvisioning, importPodOf(s.Disk), ""
	if is.Failures > 0 {
		last = fmt.Sprintf("; %d attempts before have failed, the last one: %s", is.Failures, is.Message)
	}
	if s.Pod == nil {
		return phase, ReasonStarting, "the pod " + name + " is being started" + last
	}
	if s.Pod.Status.Phase == corev1.PodRunning && s.awaitsUpload() {
		return v1.DiskUpload, ReasonUpload, s.uploadText() + last
	}
	if s.Pod.Status.Phase == corev1.PodRunning {
		return phase, ReasonImporting, "the data is being imported" + last
	}
	if reason, why := Unstarted(s.Pod); reason != "" {
		return phase, reason, why
	}
	return phase, ReasonStarting, fmt.Sprintf("the pod %s is being started: if it stays so, its events show the reason "+
		"(kubectl describe pod %[1]s)%s", name, last)
}

// Unstarted returns why the containers of one of the manager's pods haven't started, as a reason and a sentence; "" if
// the pod's status doesn't show it.
func Unstarted(pod *corev1.Pod) (reason, message string) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return ReasonUnschedulable, "no node takes the pod " + pod.Name + ": " + clipLine(c.Message)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		w := c.State.Waiting
		if w != nil && (strings.Contains(w.Reason, "Image") || w.Reason == "RegistryUnavailable") {
			return ReasonImagePull, "the image of the pod " + pod.Name + " cannot be pulled: " +
				clipLine(w.Reason+": "+w.Message) +
				"; it is set by image.source of the manager's configuration, or VMOP_RUNNER_IMAGE of its Deployment"
		}
	}
	return "", ""
}

// clipLine turns another program's text into one line of limited length.
func clipLine(text string) string { return printable.Clip(printable.Line(text), longestMessage) }
