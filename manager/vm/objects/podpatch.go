package objects

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// podLabels returns the VM's own labels, overridden by the labels that select its pod.
func podLabels(vm *v1.VirtualMachine) map[string]string {
	labels := copiedMetadata(vm.Labels)
	maps.Copy(labels, withEntry(Labels(vm), LabelComponent, ComponentRunner))
	return labels
}

// podAnnotations returns the VM's own annotations and the initial annotations of a pod.
func podAnnotations(vm *v1.VirtualMachine, s Settings, secret string) (map[string]string, error) {
	from, err := podDefinition(vm, s, secret)
	if err != nil {
		return nil, err
	}
	annotations := copiedMetadata(vm.Annotations)
	annotations[AnnotationDefinition] = from
	annotations[annotationTaken] = takenKeys(vm)
	annotations[AnnotationDiskTLSVersion] = "0"
	return annotations, nil
}

// copiedMetadata returns the VM's labels or annotations that its pod inherits. It omits keys that belong to the VM
// resource, and keys that give a pod permissions in Kubernetes or on the node.
func copiedMetadata(of map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range of {
		if !isReservedKey(key) {
			all[key] = value
		}
	}
	return all
}

// isReservedKey reports whether a label or an annotation has a meaning for pods that the VM's user must not control:
// Kubernetes' own keys, and keys that configure container runtimes.
func isReservedKey(key string) bool {
	switch key {
	case "controller-revision-hash":
		return true
	case "kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth":
		return false
	}
	runtimes := []string{"io.kubernetes.", "io.containerd.", "io.katacontainers.", "run.oci.", "dev.gvisor.", "krun."}
	for _, runtime := range runtimes {
		if strings.HasPrefix(key, runtime) {
			return true
		}
	}
	domain, _, given := strings.Cut(key, "/")
	if !given || domain == "app.kubernetes.io" || domain == "cluster-autoscaler.kubernetes.io" {
		return false
	}
	for _, of := range []string{v1.GroupName, "vmrunner.jdrupes.org", "kubernetes.io", "k8s.io", "nri.io"} {
		if domain == of || strings.HasSuffix(domain, "."+of) {
			return true
		}
	}
	return false
}

// takenKeys lists the keys that a pod inherits from its VM's metadata.
func takenKeys(vm *v1.VirtualMachine) string {
	labels := slices.Sorted(maps.Keys(copiedMetadata(vm.Labels)))
	annotations := slices.Sorted(maps.Keys(copiedMetadata(vm.Annotations)))
	return strings.Join(labels, ",") + ";" + strings.Join(annotations, ",")
}

// PodPatch returns the merge patch (RFC 7386) that updates a running pod with the VM's current labels and
// annotations, and the versions of its mounted files (AnnotationConfigVersion and similar annotations). It returns
// nil if the pod is up to date.
func PodPatch(vm *v1.VirtualMachine, pod *metav1.ObjectMeta, versions map[string]string) ([]byte, error) {
	hadLabels, hadAnnotations, _ := strings.Cut(pod.Annotations[annotationTaken], ";")
	annotations := copiedMetadata(vm.Annotations)
	maps.Copy(annotations, versions)
	annotations[annotationTaken] = takenKeys(vm)
	changes := map[string]any{}
	for what, change := range map[string]map[string]any{
		"labels":      metadataPatch(pod.Labels, podLabels(vm), strings.Split(hadLabels, ",")),
		"annotations": metadataPatch(pod.Annotations, annotations, strings.Split(hadAnnotations, ",")),
	} {
		if len(change) > 0 {
			changes[what] = change
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": changes})
	if err != nil {
		return nil, fmt.Errorf("write the patch of the pod %s: %w", pod.Name, err)
	}
	return patch, nil
}

// metadataPatch returns the changes that turn have into wanted. From the remaining keys of have, it removes only the
// given keys.
func metadataPatch(have, wanted map[string]string, given []string) map[string]any {
	changes := map[string]any{}
	for key, value := range wanted {
		if old, is := have[key]; !is || old != value {
			changes[key] = value
		}
	}
	for _, key := range given {
		_, is := have[key]
		if _, stays := wanted[key]; is && !stays {
			changes[key] = nil
		}
	}
	return changes
}

// FileVersion returns the value of a pod's annotation for the version of a mounted file. known is the current value.
// If again is set, the result differs from known, so that the kubelet checks the file once more.
func FileVersion(known, version string, again bool) string {
	base, looks, _ := strings.Cut(known, ".")
	switch {
	case base != version:
		return version
	case again:
		n, _ := strconv.Atoi(looks)
		return fmt.Sprintf("%s.%d", version, n+1)
	}
	return known
}

// mostLooks is the maximum number of times that a kubelet is asked again to check a file that it may have missed.
const mostLooks = 5

// LookAgain returns how long after the last time a kubelet must be asked again to check a file. known is the pod's
// annotation. It returns false if the kubelet must not be asked again.
func LookAgain(known string) (after time.Duration, is bool) {
	_, looks, _ := strings.Cut(known, ".")
	n, _ := strconv.Atoi(looks)
	return 2 * time.Second << n, known != "" && n < mostLooks
}
