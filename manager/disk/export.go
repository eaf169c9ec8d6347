package disk

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A user requests an export of a disk or image with an annotation. A pod then reads the claim, and the user downloads
// the data from a program in that pod. While the status names the pod, no VM can use the disk.
//
// See docs/decisions/0142-exports-of-disks.md.

// Reasons for the phases of an export, in addition to those for copies and imports.
const (
	ReasonFetchable  = "Fetchable"
	ReasonNotFetched = "NotFetched"
	ReasonEnding     = "Ending"
)

// Exported reports whether an export pod may be reading the disk.
func Exported(d *v1.VirtualDisk) bool { return d.Status.Export != nil && d.Status.Export.Pod != "" }

// exportRequest returns the value of the export annotation, "" if it is missing, and the deadline in it. A value that
// isn't a time counts as expired.
func (s Situation) exportRequest() (request string, until time.Time) {
	request = s.Disk.Annotations[v1.AnnotationExport]
	until, _ = time.Parse(time.RFC3339Nano, request)
	return request, until
}

// UntilForgotten returns how long until the export request expires, at least a second; 0 if there is no pending
// request.
func (s Situation) UntilForgotten() time.Duration {
	request, until := s.exportRequest()
	if request == "" || Exported(s.Disk) {
		return 0
	}
	return max(until.Sub(s.Now), time.Second)
}

func (s Situation) exportStatus() v1.DiskExport {
	if s.Disk.Status.Export == nil {
		return v1.DiskExport{}
	}
	return *s.Disk.Status.Export
}

// exportFault returns why the disk can't be exported now; nil if it can.
func (s Situation) exportFault() *Refusal {
	d, what := s.Disk, fmt.Sprintf("the %s %s", kindOf(s.Disk), s.Disk.Name)
	phase := d.Status.Phase
	switch {
	case d.DeletionTimestamp != nil:
		return &Refusal{ReasonDeletion, what + " is being deleted"}
	case phase != v1.DiskReady && phase != v1.DiskResizing && phase != v1.DiskWaiting,
		d.Status.Target.UID == "", !Whole(d), s.Claim == nil, s.Gone:
		return &Refusal{ReasonSourceNotReady, fmt.Sprintf("%s is %s: %s", what, cmp.Or(string(phase), "new"),
			cmp.Or(d.Status.Message, "it is exported when it is Ready"))}
	case Holder(d) != "":
		return &Refusal{ReasonSourceInUse, fmt.Sprintf("%s is attached to the VM %s: the export starts when no VM uses it; "+
			"a disk created from a VirtualDiskSnapshot can be exported now", what, Holder(d))}
	}
	return nil
}

// mayExport reports whether a requested export may start.
func (s Situation) mayExport() bool {
	request, until := s.exportRequest()
	is := s.exportStatus()
	return request != "" && s.Now.Before(until) && is.Pod == "" &&
		(is.Request != request || is.Phase != v1.DiskExportEnded) && s.exportFault() == nil
}

// NextOfExport returns the next step for the export pod of a disk. Like an import pod, it can start only after the
// status records its UID.
func NextOfExport(s Situation) Step {
	pod, is := s.Exporter, s.exportStatus()
	request, until := s.exportRequest()
	switch {
	case is.Pod != "" && (pod == nil || pod.UID != is.Pod) && !s.ExporterGone:
		return Confirm
	case pod == nil && s.mayExport():
		return MakePod
	case pod == nil && is.Pod == "" && request != "" && !s.Now.Before(until):
		return Forget
	case pod == nil, !metav1.IsControlledBy(pod, s.Disk), pod.DeletionTimestamp != nil:
		return Nothing
	case pod.UID == is.Pod && (request != is.Request || s.Disk.DeletionTimestamp != nil):
		return RemovePod
	case pod.UID == is.Pod && Gated(pod):
		return StartPod
	case pod.UID == is.Pod, Gated(pod) && s.mayExport():
		return Nothing // its outcome is written to the status first
	}
	return RemovePod
}

// exportOf returns the export part of the status; nil if there is no export.
func (s Situation) exportOf() *v1.DiskExport {
	request, _ := s.exportRequest()
	is, pod := s.exportStatus(), s.Exporter
	ours := pod != nil && metav1.IsControlledBy(pod, s.Disk)
	switch {
	case is.Pod != "" && pod != nil && pod.UID == is.Pod && Finished(pod):
		return s.exportEnded(exportOutcome(pod))
	case is.Pod != "" && s.ExporterGone:
		return s.exportEnded(Outcome{Reason: ReasonPodGone, Message: "the pod that exported the data was deleted"})
	case is.Pod != "":
		is.Phase, is.Reason, is.Message = s.exportProgress(pod)
		return &is
	case request == "":
		return nil
	case is.Request == request && is.Phase == v1.DiskExportEnded:
		return &is
	}
	is = v1.DiskExport{Request: request, Phase: v1.DiskExportPending}
	switch why := s.exportFault(); {
	case why != nil:
		is.Reason, is.Message = why.Reason, why.Message
	case pod != nil && !ours:
		is.Reason, is.Message = ReasonPodTaken, fmt.Sprintf("there is a pod %s already, which is not this %s's: "+
			"delete it", pod.Name, s.nounForPeople())
	case s.NoExporter != nil:
		is.Reason, is.Message = s.NoExporter.Reason, s.NoExporter.Message
	case ours && Gated(pod) && pod.DeletionTimestamp == nil && s.mayExport():
		is.Pod = pod.UID
		is.Reason, is.Message = ReasonStarting, fmt.Sprintf("the pod %s is being started", pod.Name)
	default:
		is.Reason, is.Message = ReasonStarting, fmt.Sprintf("the pod %s is being created", ExporterOf(s.Disk))
	}
	return &is
}

// exportProgress returns the phase of an export while its pod may be running.
func (s Situation) exportProgress(pod *corev1.Pod) (phase v1.DiskExportPhase, reason, message string) {
	request, _ := s.exportRequest()
	name := ExporterOf(s.Disk)
	switch {
	case pod == nil, pod.DeletionTimestamp != nil, request != s.exportStatus().Request:
		return v1.DiskExportPending, ReasonEnding, "the pod " + name + " is being deleted"
	case pod.Status.Phase == corev1.PodRunning:
		return v1.DiskExportReady, ReasonFetchable, "the data can be fetched from the pod " + name
	}
	if reason, why := Unstarted(pod); reason != "" {
		return v1.DiskExportPending, reason, why
	}
	return v1.DiskExportPending, ReasonStarting, fmt.Sprintf("the pod %s is being started: if it stays so, its "+
		"events show the reason (kubectl describe pod %[1]s)", name)
}

// exportEnded returns the status of a finished export; nil if its request is gone.
func (s Situation) exportEnded(o Outcome) *v1.DiskExport {
	was := s.exportStatus().Request
	if request, _ := s.exportRequest(); request != was {
		return nil
	}
	return &v1.DiskExport{Request: was, Phase: v1.DiskExportEnded, Reason: o.Reason, Message: o.Message}
}

// exportOutcome returns the outcome of a finished export pod.
func exportOutcome(pod *corev1.Pod) Outcome {
	if pod.Status.Phase == corev1.PodSucceeded {
		return Outcome{Reason: ReasonNotFetched, Message: "the data is no longer being downloaded"}
	}
	return OutcomeOf(pod)
}

// ExportPod returns the pod that sends a disk or image to a user. It meets the Pod Security level "restricted", and
// can't start until its scheduling gate is removed.
func ExportPod(d *v1.VirtualDisk, w Worker) *corev1.Pod {
	pod, c := newPod(d, ExporterOf(d), "export", w)
	c.Resources = memoryAndCPU()
	b := builder{d, pod, &c, w.Authorities}
	b.mountVolume("scratch", scratchFolder, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	b.openPort()
	b.addArguments(b.mountOrigin(d))
	pod.Spec.Containers = []corev1.Container{c}
	return pod
}
