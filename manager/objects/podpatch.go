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

// podLabels are the VM's own and, before them, those by which a pod is found.
func podLabels(vm *v1.VirtualMachine) map[string]string {
	labels := taken(vm.Labels)
	maps.Copy(labels, with(Labels(vm), LabelComponent, ComponentRunner))
	return labels
}

// podAnnotations are the VM's own and those with which a pod begins.
func podAnnotations(vm *v1.VirtualMachine, s Settings, secret string) (map[string]string, error) {
	from, err := definition(vm, s, secret)
	if err != nil {
		return nil, err
	}
	annotations := taken(vm.Annotations)
	annotations[AnnotationDefinition] = from
	annotations[AnnotationTaken] = takenKeys(vm)
	annotations[AnnotationDiskTLSVersion] = "0"
	return annotations, nil
}

// taken returns the labels or annotations of a VM that its pod gets: not those that
// belong to the resource itself, nor those by which a pod says to Kubernetes or to
// the node what it may do.
func taken(of map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range of {
		if !reserved(key) {
			all[key] = value
		}
	}
	return all
}

// reserved reports whether a label or an annotation has a meaning for pods that the VM's
// user must not choose: Kubernetes' own, and those that configure container runtimes.
func reserved(key string) bool {
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

// takenKeys lists what a pod has of its VM's metadata.
func takenKeys(vm *v1.VirtualMachine) string {
	labels := slices.Sorted(maps.Keys(taken(vm.Labels)))
	annotations := slices.Sorted(maps.Keys(taken(vm.Annotations)))
	return strings.Join(labels, ",") + ";" + strings.Join(annotations, ",")
}

// PodPatch returns the merge patch (RFC 7386) for a running pod that gives it the
// VM's labels and annotations as they are now, and the versions of the files that it
// mounts (AnnotationConfigVersion and its like). Nil: it has all that.
func PodPatch(vm *v1.VirtualMachine, pod *metav1.ObjectMeta, versions map[string]string) ([]byte, error) {
	hadLabels, hadAnnotations, _ := strings.Cut(pod.Annotations[AnnotationTaken], ";")
	annotations := taken(vm.Annotations)
	maps.Copy(annotations, versions)
	annotations[AnnotationTaken] = takenKeys(vm)
	changes := map[string]any{}
	for what, change := range map[string]map[string]any{
		"labels":      difference(pod.Labels, podLabels(vm), strings.Split(hadLabels, ",")),
		"annotations": difference(pod.Annotations, annotations, strings.Split(hadAnnotations, ",")),
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

// difference is what makes have what is wanted; of the rest, the keys given go.
func difference(have, wanted map[string]string, given []string) map[string]any {
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

// FileVersion returns the value of the annotation of a pod for the version of a file that it mounts, of which the pod
// knows one. With again it is another one, so that the kubelet looks once more.
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

// mostLooks is how often a kubelet is made to look at a file again that it may have missed.
const mostLooks = 5

// LookAgain returns how long after the last time a kubelet is made to look at a file again, by the annotation of the
// pod; false: it isn't.
func LookAgain(known string) (after time.Duration, is bool) {
	_, looks, _ := strings.Cut(known, ".")
	n, _ := strconv.Atoi(looks)
	return 2 * time.Second << n, known != "" && n < mostLooks
}
