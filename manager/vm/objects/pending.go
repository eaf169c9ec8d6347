package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"

	v1 "vmop/api/v1"
)

// powerdownPath is the path of a change that only counts if the pod's grace period would be too short.
const powerdownPath = "vm.powerdownTimeout"

// claimSuffixPath is the path of the field that changes the VM's volumes.
const claimSuffixPath = "claimNameSuffix"

// longestValue limits the JSON of a value, in bytes. longestText is the shown part of a longer value.
const (
	longestValue = 512
	longestText  = 120
)

// OfPod reports whether the path of a pending change belongs to the pod or the class: such a change comes from
// PodChanges or ClassChanges, and never from a runner. The admission policy in deploy contains the same list.
func OfPod(path string) bool {
	switch path {
	case "nodeName", "priorityClassName", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints",
		"vmType.configMap", "vmType.image", "vm.display.secret", powerdownPath, "cpu.coreFraction", claimSuffixPath,
		"virtualMachineClassName":
		return true
	}
	return strings.HasPrefix(path, "image.") || strings.HasPrefix(path, "resources.") ||
		strings.HasPrefix(path, classPath)
}

// NeedsPod reports whether a change of the definition requires a new pod. path is relative to spec. It must match
// OfPod, or be inside a path that does. A running VM applies a powerdownTimeout.
func NeedsPod(path string) bool {
	for i, c := range path + "." {
		if (c == '.' || c == '[') && path != powerdownPath && (OfPod(path[:i]) || OfPod(path[:i]+".")) {
			return true
		}
	}
	return false
}

// OtherVolumes reports whether a pending change replaces the VM's volumes.
func OtherVolumes(c v1.RestartAwaitingChange) bool { return c.Path == claimSuffixPath }

// reachesGuest reports whether a migration to another pod applies a pending change to a running guest. It doesn't
// for changes of the class, which affect the machine, of the volumes, which contain other files, and of nodeName,
// since the guest is already on a node.
func reachesGuest(c v1.RestartAwaitingChange) bool {
	switch c.Path {
	case claimSuffixPath, "nodeName", "virtualMachineClassName":
		return false
	}
	return OfPod(c.Path) && !strings.HasPrefix(c.Path, classPath)
}

// ofPlace reports whether a pending change may require that the VM runs on another node.
func ofPlace(c v1.RestartAwaitingChange) bool {
	switch c.Path {
	case "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints":
		return true
	}
	return false
}

// podDefinition returns the VM's values that require a new pod when they change, as JSON by path. It omits what the
// runner compares itself (disks, networks, displays …). It also omits computed requests: the next pod gets other
// requests, but the running pod needs no change. Each path matches OfPod. vm.display.secret is not a field; it
// represents the secret that is found by its labels.
func podDefinition(vm *v1.VirtualMachine, s Settings, secret string) (string, error) {
	image, policy := imageOf(vm, s)
	values := map[string]any{
		"image.source":              image,
		"image.pullPolicy":          policy,
		"nodeName":                  vm.Spec.NodeName,
		"priorityClassName":         vm.Spec.PriorityClassName,
		"vmType.configMap":          "",
		"vmType.image":              pinnedTypes(vm),
		"vm.display.secret":         secret,
		powerdownPath:               powerdownTimeout(vm),
		"nodeSelector":              vm.Spec.NodeSelector,
		"affinity":                  vm.Spec.Affinity,
		"tolerations":               vm.Spec.Tolerations,
		"topologySpreadConstraints": vm.Spec.TopologySpreadConstraints,
		"cpu.coreFraction":          coreFraction(vm),
		claimSuffixPath:             vm.Spec.ClaimNameSuffix,
	}
	if vm.Spec.VMType.Image == "" {
		values["vmType.configMap"] = TypesConfigMap(vm, s)
	}
	if own := vm.Spec.Resources; own != nil {
		addResources(values, "resources.requests.", own.Requests)
		addResources(values, "resources.limits.", own.Limits)
	}
	shown := map[string]json.RawMessage{}
	for path, value := range values {
		text, err := boundedJSON(value)
		if err != nil {
			return "", fmt.Errorf("write %s: %w", path, err)
		}
		if text != nil {
			shown[path] = text
		}
	}
	all, err := json.Marshal(shown)
	return string(all), err
}

func addResources(to map[string]any, prefix string, list corev1.ResourceList) {
	for name, quantity := range list {
		to[prefix+string(name)] = quantity.String()
	}
}

// boundedJSON returns the JSON of a value, or nil for an empty value. A long value is shortened to a text with its
// beginning and a hash that distinguishes it from other values.
func boundedJSON(value any) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	switch string(text) {
	case "null", "{}", "[]", `""`:
		return nil, err
	}
	if err != nil || len(text) <= longestValue {
		return text, err
	}
	hash, err := hashOf(value)
	if err != nil {
		return nil, err
	}
	return json.Marshal(string(text[:longestText]) + "… (" + hash[:8] + ")")
}

// PodChanges returns the VM's changes that its running pod can't apply, sorted by path. pod is the running pod, and
// next is the StatefulSet to apply. A pod that the manager has not created has no record of its definition, so
// PodChanges returns nil.
func PodChanges(pod *metav1.ObjectMeta, next *applyappsv1.StatefulSetApplyConfiguration) []v1.RestartAwaitingChange {
	var is, willBe map[string]json.RawMessage
	if json.Unmarshal([]byte(pod.Annotations[AnnotationDefinition]), &is) != nil ||
		json.Unmarshal([]byte(next.Spec.Template.Annotations[AnnotationDefinition]), &willBe) != nil {
		return nil
	}
	if !isLonger(is[powerdownPath], willBe[powerdownPath]) {
		willBe[powerdownPath] = is[powerdownPath]
	}
	return definitionChanges(is, willBe)
}

// definitionChanges returns the changes from one definition to another, sorted by path.
func definitionChanges(is, willBe map[string]json.RawMessage) []v1.RestartAwaitingChange {
	paths := maps.Clone(is)
	maps.Copy(paths, willBe)
	var changes []v1.RestartAwaitingChange
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		current, was := is[path]
		desired, stays := willBe[path]
		change := v1.RestartAwaitingChange{Path: path, Operation: "replace"}
		switch {
		case bytes.Equal(current, desired):
			continue
		case !was:
			change.Operation = "add"
		case !stays:
			change.Operation = "remove"
		}
		if was {
			change.CurrentValue = &runtime.RawExtension{Raw: current}
		}
		if stays {
			change.DesiredValue = &runtime.RawExtension{Raw: desired}
		}
		changes = append(changes, change)
	}
	return changes
}

// NamesNode reports whether a pod was created for a VM that names its node. No scheduler has checked such a pod, and
// the node may not exist.
func NamesNode(pod *metav1.ObjectMeta) bool {
	var from map[string]json.RawMessage
	return json.Unmarshal([]byte(pod.Annotations[AnnotationDefinition]), &from) == nil && from["nodeName"] != nil
}

// Outdated reports whether a pod was created from another template than the next pod, even if only the requests
// differ.
func Outdated(pod *metav1.ObjectMeta, next *applyappsv1.StatefulSetApplyConfiguration) bool {
	was := pod.Annotations[annotationTemplate]
	return was != "" && was != next.Spec.Template.Annotations[annotationTemplate]
}

func isLonger(than, seconds json.RawMessage) bool {
	a, errA := strconv.Atoi(string(than))
	b, errB := strconv.Atoi(string(seconds))
	return errA != nil || errB != nil || b > a
}
