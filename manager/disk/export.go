package disk

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A user asks for an export of a disk, or an image, by an annotation, and gets the data from a pod that
// reads the claim, by a program in it. While the status names that pod no VM gets the disk.
//
// See docs/decisions/0142-exports-of-disks.md.

// Reasons of the phases of an export, besides those of copies and imports.
const (
	ReasonFetchable  = "Fetchable"
	ReasonNotFetched = "NotFetched"
	ReasonEnding     = "Ending"
)

// Exported reports whether a pod may read a disk for a user.
func Exported(d *v1.VirtualDisk) bool { return d.Status.Export != nil && d.Status.Export.Pod != "" }

// exportRequest returns the request to export a disk, "" if there is none, and until when it may begin. One that
// isn't a time has passed.
func (s Situation) exportRequest() (request string, until time.Time) {
	request = s.Disk.Annotations[v1.AnnotationExport]
	until, _ = time.Parse(time.RFC3339Nano, request)
	return request, until
}

// UntilForgotten returns after which time a request to export a disk has passed; 0 if there is none.
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

// exportFault says why a disk can't be exported now; nil if it can.
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

// mayExport reports whether an export may begin that hasn't.
func (s Situation) mayExport() bool {
	request, until := s.exportRequest()
	is := s.exportStatus()
	return request != "" && s.Now.Before(until) && is.Pod == "" &&
		(is.Request != request || is.Phase != v1.DiskExportEnded) && s.exportFault() == nil
}

// NextOfExport returns what is to be done about the pod that exports a disk: as with imports, it can
// start when the status has its uid.
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
		return Nothing // what has become of it is written into the status first
	}
	return RemovePod
}

// exportOf returns what the status says about the export; nil if there is none.
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

// exportProgress is for an export whose pod may run.
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
		"events say why (kubectl describe pod %[1]s)", name)
}

// exportEnded returns how an export has ended; nil if no one asks for it any more.
func (s Situation) exportEnded(o Outcome) *v1.DiskExport {
	was := s.exportStatus().Request
	if request, _ := s.exportRequest(); request != was {
		return nil
	}
	return &v1.DiskExport{Request: was, Phase: v1.DiskExportEnded, Reason: o.Reason, Message: o.Message}
}

// exportOutcome returns how a pod that exports has ended.
func exportOutcome(pod *corev1.Pod) Outcome {
	if pod.Status.Phase == corev1.PodSucceeded {
		return Outcome{Reason: ReasonNotFetched, Message: "the data is no longer being downloaded"}
	}
	return OutcomeOf(pod)
}

// ExportPod returns the pod from which a user fetches the data of a disk or an image. It passes Pod Security's
// "restricted", and can't start before its gate is removed.
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
