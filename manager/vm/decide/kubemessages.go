package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vmop/manager/vm/objects"
)

// This file contains everything that the manager recognizes in human-readable messages of other programs. Kubernetes
// offers no alternative:
//
//   - The scheduler has a single reason, Unschedulable, for everything that keeps a pod from a node.
//   - Why the StatefulSet's controller could not create a pod is only in the note of an event.
//   - The kubelet's reasons are open-ended.
//   - When etcd refuses a large object, the API server returns an internal error.
//
// Such messages change between versions. Therefore only messages and reasons for users may depend on them, and an
// unrecognized message is passed on unchanged. Tests with a real API server, scheduler and kubelet
// (manager/vm/controller, test/e2e) detect changed messages.

// unscheduledReason returns why a pod has no node, from the condition PodScheduled.
func unscheduledReason(c *corev1.PodCondition) string {
	contains := func(part string) bool { return strings.Contains(c.Message, part) }
	switch {
	case contains("persistentvolumeclaim ") && contains("not found"):
		return ReasonMissingClaim
	case contains("unbound immediate PersistentVolumeClaims"),
		contains("didn't find available persistent volumes to bind"), contains("binding volumes"):
		return ReasonClaimPending
	case c.Reason == "":
		return ReasonUnschedulable
	}
	return c.Reason
}

// Unplaced reads the scheduler's message and returns the VM's fields that make all nodes unsuitable; "" if it finds
// no such field.
func Unplaced(s *Snapshot, message string) string {
	contains := func(part string) bool { return strings.Contains(message, part) }
	var all []string
	if contains("Insufficient") {
		all = append(all, objects.Requests(s.VM, s.Settings))
	}
	if contains("node affinity/selector") {
		if selector := s.VM.Spec.NodeSelector; len(selector) > 0 {
			var labels []string
			for _, key := range slices.Sorted(maps.Keys(selector)) {
				labels = append(labels, key+"="+selector[key])
			}
			all = append(all, "spec.nodeSelector requires the labels "+strings.Join(labels, ", "))
		}
		if a := s.VM.Spec.Affinity; a != nil && a.NodeAffinity != nil {
			all = append(all, "spec.affinity.nodeAffinity restricts the nodes")
		}
		if of := objects.NodeArchitecture(s.VM); of != "" {
			all = append(all, fmt.Sprintf("a guest for %s needs nodes with %s=%[1]s (docs/tasks/placement.md)", of,
				corev1.LabelArchStable))
		}
	}
	for _, known := range []struct{ said, field string }{
		{"pod affinity rules", "spec.affinity.virtualMachineAndPodAffinity or podAffinity requires what no such node runs"},
		{
			"pod anti-affinity rules",
			"spec.affinity.virtualMachineAndPodAntiAffinity or podAntiAffinity refuses what such nodes run",
		},
		{
			"existing pods anti-affinity rules",
			"a VM or pod that runs there has an anti-affinity to this VM's labels",
		},
		{"topology spread constraints", "spec.topologySpreadConstraints limits how unevenly they are spread"},
		{"untolerated taint", "spec.tolerations lists the taints that the VM tolerates"},
		{"PersistentVolume's node affinity", "a volume of the VM is available on certain nodes only (kubectl get pv)"},
	} {
		if contains(known.said) {
			all = append(all, known.field)
		}
	}
	return strings.Join(all, "; ")
}

// PodRejected returns why a pod could not be created, and which fields of the VM are the cause. note is the note of
// the event about it.
func PodRejected(s *Snapshot, note string) (message string) {
	if _, why, found := strings.Cut(note, " failed error: "); found { // before: controller and pod
		note = why
	}
	message = "the pod is rejected: " + note
	if fields := rejectedFor(s, note); fields != "" {
		message += "; " + fields
	}
	return message
}

// rejectedFor returns the VM's fields that cause its pod to be rejected by Pod Security, for its priority, or by a
// quota or limit range.
func rejectedFor(s *Snapshot, note string) string {
	contains := func(part string) bool { return strings.Contains(note, part) }
	switch {
	case contains("violates PodSecurity"):
		var fields []string
		for _, p := range objects.Privileges(s.VM, s.Settings) {
			if !slices.Contains(fields, p.Reason) {
				fields = append(fields, p.Reason)
			}
		}
		return "it needs this for " + strings.Join(fields, ", ") + " (status.privileges); " +
			"the namespace's label pod-security.kubernetes.io/enforce sets what is allowed"
	case contains("PriorityClass"):
		return "it is set by spec.priorityClassName"
	case contains("quota"), contains("memory"), contains("cpu"):
		return objects.Requests(s.VM, s.Settings)
	}
	return ""
}

// MissingClaim returns where the claim is defined that the scheduler can't find; "" for a disk's claim.
func MissingClaim(s *Snapshot, message string) string {
	if strings.Contains(message, fmt.Sprintf("%q", s.Settings.ImageRepository)) {
		return "it holds CD images and kernels, and is created together with the namespace (imageRepository of the manager's configuration)"
	}
	return ""
}

// ImageSetting returns which setting contains the image that could not be pulled.
func ImageSetting(s *Snapshot, message string) string {
	if strings.Contains(message, s.Settings.Image) {
		return "it is set by image.source of the manager's configuration, or VMOP_RUNNER_IMAGE of its Deployment"
	}
	return "it is set by spec.image"
}

// beingCreated reports whether a container waits for its regular creation.
func beingCreated(w *corev1.ContainerStateWaiting) bool {
	return w.Reason == "ContainerCreating" || w.Reason == "PodInitializing"
}

// imageMissing reports whether a container waits for its image: ErrImagePull, ImagePullBackOff, InvalidImageName and
// others.
func imageMissing(w *corev1.ContainerStateWaiting) bool {
	return strings.Contains(w.Reason, "Image") || w.Reason == "RegistryUnavailable"
}

// tooLarge reports whether a write failed because the object is too large. If etcd refuses it, the API server
// returns an internal error with etcd's message.
func tooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) ||
		err != nil && strings.Contains(err.Error(), "etcdserver: request is too large")
}

// Refused returns an obstacle if the API server permanently rejects a request. It returns nil for errors that may
// pass.
func Refused(err error) Obstacle {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || tooLarge(err) {
		return Stalled{ReasonRefused, Readable(err.Error())}
	}
	return nil
}

// RefusedFor works like Refused, and adds the VM field that describes the object.
func RefusedFor(field string, err error) Obstacle {
	o, is := Refused(err).(Stalled)
	if !is {
		return nil
	}
	o.Message = field + ": " + o.Message
	return o
}
