package disk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/printable"
)

// Progress is the progress of an import, as its pod reports it.
type Progress struct {
	Percent      int   // 0 to 100
	Bytes, Total int64 // transferred and expected; Total is 0 if unknown
	Left         time.Duration
	Format       string
	Waits        bool   // the pod is waiting for an upload
	Message      string // why the last upload failed; "" if none failed
}

// A Secret describes the Secret that a disk's source refers to.
type Secret struct {
	// Name and Type of the required Secret; an empty Name means that no Secret is required. Path is the field that
	// names it.
	Name string
	Type corev1.SecretType
	Path string
	// Version is the resource version of the existing Secret; "" if it doesn't exist.
	Version string
	// Hosts lists the servers that may receive its contents (v1.AnnotationHosts).
	Hosts string
}

// SecretOf returns the Secret that a disk's source names, without Version and Hosts.
func SecretOf(d *v1.VirtualDisk) Secret {
	source := d.Spec.DataSource
	switch {
	case source == nil:
	case source.HTTP != nil && source.HTTP.SecretRef != nil:
		return Secret{Name: source.HTTP.SecretRef.Name, Type: v1.SecretTypeHTTP, Path: "spec.dataSource.http.secretRef"}
	case source.ContainerImage != nil && source.ContainerImage.ImagePullSecret != nil:
		return Secret{
			Name: source.ContainerImage.ImagePullSecret.Name, Type: corev1.SecretTypeDockerConfigJson,
			Path: "spec.dataSource.containerImage.imagePullSecret",
		}
	}
	return Secret{}
}

// isImported reports whether a pod fills the disk.
func isImported(d *v1.VirtualDisk) bool { return d.Spec.DataSource != nil && !isRestored(d) }

// Whole reports whether a disk has all its data. A blank disk always does.
func Whole(d *v1.VirtualDisk) bool {
	return !isImported(d) || d.Status.Import != nil && d.Status.Import.CompletionTime != nil
}

// nextOfImport returns the next step for the import pod of an incomplete disk with a claim. A pod can start only after
// the status records its UID. If several managers believe that they lead, the API server lets only one write it.
func (s Situation) nextOfImport() Step {
	pod, recorded := s.Pod, s.importStatus().Pod
	switch {
	case s.isAttemptDue() && s.tooSmall():
		return Grow
	case pod == nil && recorded == "" && s.isAttemptDue() && !s.awaitsGrowth():
		return MakePod
	case pod == nil, !metav1.IsControlledBy(pod, s.Disk), pod.DeletionTimestamp != nil:
		return Nothing
	case pod.UID == recorded && Gated(pod):
		return StartPod
	case pod.UID == recorded, Gated(pod) && recorded == "" && s.isAttemptDue():
		return Nothing // its outcome is written to the status first
	}
	return RemovePod
}

// importStatus returns a copy of the status of the import; zero if there is none.
func (s Situation) importStatus() v1.DiskImport {
	if s.Disk.Status.Import == nil {
		return v1.DiskImport{}
	}
	return *s.Disk.Status.Import.DeepCopy()
}

// isAttemptDue reports whether the next import attempt may start now.
func (s Situation) isAttemptDue() bool {
	is := s.importStatus()
	switch {
	case is.Pod != "", is.CompletionTime != nil, s.secretMissing(), !s.secretFits(), s.copyFault() != nil:
		return false
	case s.Claim.Status.Phase != corev1.ClaimBound && (!s.waitsForPod() || !s.Wanted):
		return false
	case is.Failures == 0, is.Inputs != s.importInputs():
		return true
	}
	return is.RetryTime != nil && !s.Now.Before(is.RetryTime.Time)
}

// tooSmall reports whether the request of the claim must grow before the import.
func (s Situation) tooSmall() bool {
	return s.Claim.Status.Phase == corev1.ClaimBound &&
		s.Disk.Spec.PersistentVolumeClaim.Size.Cmp(*s.Claim.Spec.Resources.Requests.Storage()) > 0
}

// awaitsGrowth reports whether the volume is growing, and needs no pod to finish.
func (s Situation) awaitsGrowth() bool {
	if s.Claim.Status.Phase != corev1.ClaimBound || !s.isVolumeSmaller() {
		return false
	}
	for _, c := range s.Claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending {
			return false
		}
	}
	return true
}

func (s Situation) secretMissing() bool { return s.Secret.Name != "" && s.Secret.Version == "" }

// secretFits reports whether the Secret for a web server may be sent to the server of this disk. The user who creates a
// disk chooses the server, but may lack permission to read Secrets.
func (s Situation) secretFits() bool {
	if s.Secret.Type != v1.SecretTypeHTTP {
		return true
	}
	server := serverOf(s.Disk.Spec.DataSource.HTTP.URL)
	for host := range strings.SplitSeq(s.Secret.Hosts, ",") {
		if host = strings.ToLower(strings.TrimSpace(host)); host == "" {
			continue
		}
		if u := (&url.URL{Host: host}); u.Port() == "" {
			host += ":443"
		}
		if host == server {
			return true
		}
	}
	return false
}

// serverOf returns the host and port of a URL; "" if it is invalid.
func serverOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
	return strings.ToLower(net.JoinHostPort(u.Hostname(), port))
}

// importInputs identifies the inputs that a user can change to repair an import: disk, Secret and source.
func (s Situation) importInputs() string {
	text := fmt.Sprint(s.Disk.Generation)
	if s.Secret.Name != "" {
		text += "/" + s.Secret.Version
	}
	if s.From != nil {
		text += "/" + string(s.From.Status.Target.UID)
	}
	return text
}

// importOf returns the import part of the status; nil for a blank disk.
func (s Situation) importOf() *v1.DiskImport {
	if !isImported(s.Disk) {
		return nil
	}
	is := s.importStatus()
	ours := s.Pod != nil && metav1.IsControlledBy(s.Pod, s.Disk)
	switch {
	case is.CompletionTime != nil, s.Claim == nil, !s.ownsClaim():
	case is.Pod == "" && ours && Gated(s.Pod) && s.Pod.DeletionTimestamp == nil && s.isAttemptDue():
		s.beginAttempt(&is)
	case is.Pod == "":
	case s.Pod == nil, s.Pod.UID != is.Pod:
		s.failAttempt(&is, Outcome{Reason: ReasonPodGone, Message: "the import pod was deleted before it had finished"})
	case Finished(s.Pod):
		s.finishAttempt(&is, OutcomeOf(s.Pod))
	case s.disturbedOutcome() != nil && Gated(s.Pod): // a writer came first, and the pod has not started
		is.Pod, is.Source = "", ""
	case s.disturbedOutcome() != nil:
		s.failAttempt(&is, *s.disturbedOutcome())
	case s.Progress != nil:
		s.noteProgress(&is)
	}
	return &is
}

// beginAttempt records the pod as the only pod that may write to the disk.
func (s Situation) beginAttempt(is *v1.DiskImport) {
	failed := *is
	*is = v1.DiskImport{Pod: s.Pod.UID}
	s.beginCopy(is)
	if failed.Inputs == s.importInputs() {
		is.Failures, is.Reason, is.Message, is.Inputs = failed.Failures, failed.Reason, failed.Message, failed.Inputs
	}
}

// noteProgress records the progress of the import, at most once per percent.
func (s Situation) noteProgress(is *v1.DiskImport) {
	if formatPercent(s.Progress.Percent) == s.Disk.Status.Progress {
		return
	}
	is.Bytes, is.Total, is.Format = s.Progress.Bytes, s.Progress.Total, s.Progress.Format
	is.TimeLeft = ""
	if s.Progress.Left > 0 {
		is.TimeLeft = s.Progress.Left.Round(time.Second).String()
	}
}

func formatPercent(n int) string { return fmt.Sprintf("%d%%", n) }

// finishAttempt records the outcome of a pod.
func (s Situation) finishAttempt(is *v1.DiskImport, o Outcome) {
	if why := s.changedOutcome(is); why != nil && o.Reason == reasonImported {
		o = *why
	}
	if o.Reason != reasonImported {
		s.failAttempt(is, o)
		return
	}
	if isCopy(s.Disk) {
		o.Format = is.Format
	}
	*is = v1.DiskImport{
		CompletionTime: new(metav1.NewTime(s.Now.Truncate(time.Second))),
		Bytes:          o.Transferred, Total: o.Transferred,
		Format: o.Format, VirtualSize: o.VirtualSize, Checksum: o.Checksum,
	}
	for _, w := range o.Warnings[:min(len(o.Warnings), mostWarnings)] {
		is.Warnings = append(is.Warnings, printable.Clip(printable.Line(w), longestWarning))
	}
}

// Limits for the text kept from a pod, in warnings and characters.
const (
	mostWarnings   = 10
	longestWarning = 300
	longestMessage = 1000
)

// failAttempt records a failure, and when the next attempt starts.
func (s Situation) failAttempt(is *v1.DiskImport, o Outcome) {
	n := is.Failures + 1
	if is.Inputs != s.importInputs() {
		n = 1
	}
	*is = v1.DiskImport{Failures: n, Reason: o.Reason, Message: o.Message, Inputs: s.importInputs()}
	if wait, again := backoffAfter(remedyOf(o.Reason), n); again {
		is.RetryTime = new(metav1.NewTime(s.Now.Add(wait).Truncate(time.Second)))
	}
}

// An Outcome is the result of an import pod: the termination message of vmimport.
type Outcome struct {
	Reason      string   `json:"reason"`
	Message     string   `json:"message"`
	Format      string   `json:"format"`
	VirtualSize int64    `json:"virtualSize"` // bytes
	Transferred int64    `json:"transferred"` // bytes
	Checksum    string   `json:"checksum"`
	Warnings    []string `json:"warnings"`
}

// OutcomeOf returns the outcome of a finished pod.
func OutcomeOf(pod *corev1.Pod) Outcome {
	o, ended := Outcome{}, containerOf(pod).State.Terminated
	said := ended != nil && json.Unmarshal([]byte(ended.Message), &o) == nil && o.Reason != ""
	switch {
	case said && (o.Reason != reasonImported) == (pod.Status.Phase == corev1.PodFailed) && pod.Status.Reason == "":
		o.Reason = printable.Clip(printable.Line(o.Reason), longestReason)
	case pod.Status.Reason != "": // Evicted, DeadlineExceeded, Preempting, …
		o.Reason = ReasonPodFailed
		o.Message = "the import pod was ended: " + pod.Status.Reason + ": " + pod.Status.Message
	case ended != nil && ended.Reason == "OOMKilled":
		o.Reason = "LimitExceeded"
		o.Message = "the import exceeded its pod's memory limit of " + memoryLimit
	case ended != nil:
		o.Reason = ReasonPodFailed
		o.Message = fmt.Sprintf("the import pod ended with exit code %d and no message", ended.ExitCode)
	default:
		o.Reason, o.Message = ReasonPodFailed, "the import pod ended, and its node has not reported how"
	}
	o.Message = printable.Clip(printable.Line(o.Message), longestMessage)
	return o
}

const longestReason = 60

// Finished reports whether a pod has ended for good.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Runs reports whether a pod may be running.
func Runs(pod *corev1.Pod) bool { return !Gated(pod) && !Finished(pod) }

// Gated reports whether a scheduling gate keeps the pod from starting.
func Gated(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 }

// containerOf returns the status of a pod's container; zero if it has none yet.
func containerOf(pod *corev1.Pod) corev1.ContainerStatus {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == containerName {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

// Fetchable returns the IP address at which the import pod reports its progress; "" if it isn't running.
func (s Situation) Fetchable() string {
	if s.Pod == nil || s.importStatus().Pod != s.Pod.UID || s.Pod.Status.Phase != corev1.PodRunning {
		return ""
	}
	return s.Pod.Status.PodIP
}
