package objects

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"

	v1 "vmop/api/v1"
)

// powerdownPath is the path of a change that counts only if the pod would have too
// little time.
const powerdownPath = "spec.vm.powerdownTimeout"

// longestValue bounds how much of a value is shown, in bytes.
const longestValue = 120

// OfPod reports whether a pending change is one of a pod, by its path: PodChanges returns
// it, and no runner reports it. The admission policy in deploy has the same list.
func OfPod(path string) bool {
	switch path {
	case "spec.nodeName", "spec.priorityClassName", "spec.nodeSelector", "spec.affinity", "spec.tolerations",
		"spec.topologySpreadConstraints", "spec.vmType.configMap", "spec.vm.display.secret", powerdownPath:
		return true
	}
	return strings.HasPrefix(path, "spec.image.") || strings.HasPrefix(path, "spec.resources.")
}

// definition returns what in a VM its pod must be made anew for, by path, as JSON.
// What the runner compares itself (disks, networks, displays …) is not there, nor are
// computed requests: the next pod gets others, the running one needs none. Each path
// is one OfPod; spec.vm.display.secret, which is no field, stands for the secret that
// is found by its labels.
func definition(vm *v1.VirtualMachine, s Settings, secret string) (string, error) {
	image, policy := imageOf(vm, s)
	values := map[string]any{
		"spec.image.source":              image,
		"spec.image.pullPolicy":          policy,
		"spec.nodeName":                  vm.Spec.NodeName,
		"spec.priorityClassName":         vm.Spec.PriorityClassName,
		"spec.vmType.configMap":          TypesConfigMap(vm, s),
		"spec.vm.display.secret":         secret,
		powerdownPath:                    strconv.Itoa(powerdownTimeout(vm)),
		"spec.nodeSelector":              vm.Spec.NodeSelector,
		"spec.affinity":                  vm.Spec.Affinity,
		"spec.tolerations":               vm.Spec.Tolerations,
		"spec.topologySpreadConstraints": vm.Spec.TopologySpreadConstraints,
	}
	if own := vm.Spec.Resources; own != nil {
		addResources(values, "spec.resources.requests.", own.Requests)
		addResources(values, "spec.resources.limits.", own.Limits)
	}
	texts := map[string]string{}
	for path, value := range values {
		text, err := shown(value)
		if err != nil {
			return "", fmt.Errorf("write %s: %w", path, err)
		}
		if text != "" {
			texts[path] = text
		}
	}
	all, err := json.Marshal(texts)
	return string(all), err
}

func addResources(to map[string]any, prefix string, list corev1.ResourceList) {
	for name, quantity := range list {
		to[prefix+string(name)] = quantity.String()
	}
}

// shown returns a value as people read it; a long one is cut, and told apart from
// others by its hash.
func shown(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case corev1.PullPolicy:
		return string(v), nil
	}
	text, err := json.Marshal(value)
	if err != nil || string(text) == "null" || string(text) == "{}" || string(text) == "[]" {
		return "", err
	}
	if len(text) <= longestValue {
		return string(text), nil
	}
	hash, err := hashOf(value)
	return string(text[:longestValue]) + "… (" + hash[:8] + ")", err
}

// PodChanges returns what in a VM has changed that its running pod can't follow,
// sorted by path: pod is the running one, next the StatefulSet as it is to be. A pod
// that the manager has not made doesn't say what it was made from, and has none.
func PodChanges(pod *metav1.ObjectMeta, next *applyappsv1.StatefulSetApplyConfiguration) []v1.PendingChange {
	var is, willBe map[string]string
	if json.Unmarshal([]byte(pod.Annotations[AnnotationDefinition]), &is) != nil ||
		json.Unmarshal([]byte(next.Spec.Template.Annotations[AnnotationDefinition]), &willBe) != nil {
		return nil
	}
	paths := maps.Clone(is)
	maps.Copy(paths, willBe)
	var changes []v1.PendingChange
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		current, was := is[path]
		desired, stays := willBe[path]
		change := v1.PendingChange{Path: path, Operation: "replace", Current: current, Desired: desired}
		switch {
		case current == desired:
			continue
		case path == powerdownPath && !longer(current, desired):
			continue
		case !was:
			change.Operation = "add"
		case !stays:
			change.Operation = "remove"
		}
		changes = append(changes, change)
	}
	return changes
}

// NamesNode reports whether a pod was made for a VM that names its node: no scheduler has
// seen it then, and the node may not exist.
func NamesNode(pod *metav1.ObjectMeta) bool {
	var from map[string]string
	return json.Unmarshal([]byte(pod.Annotations[AnnotationDefinition]), &from) == nil && from["spec.nodeName"] != ""
}

// Outdated reports whether a pod was made from something else than the next one will be,
// even if only its requests differ.
func Outdated(pod *metav1.ObjectMeta, next *applyappsv1.StatefulSetApplyConfiguration) bool {
	was := pod.Annotations[AnnotationTemplate]
	return was != "" && was != next.Spec.Template.Annotations[AnnotationTemplate]
}

func longer(than, seconds string) bool {
	a, errA := strconv.Atoi(than)
	b, errB := strconv.Atoi(seconds)
	return errA != nil || errB != nil || b > a
}
