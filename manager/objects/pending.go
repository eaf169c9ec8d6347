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

// powerdownPath is the path of a change that counts only if the pod would have too
// little time.
const powerdownPath = "vm.powerdownTimeout"

// claimSuffixPath is the path of what gives a VM other volumes.
const claimSuffixPath = "claimNameSuffix"

// longestValue bounds the JSON of a value, in bytes; longestText is how much is shown of a
// longer one.
const (
	longestValue = 512
	longestText  = 120
)

// OfPod reports whether a pending change is one of a pod or of a class, by its path:
// PodChanges or ClassChanges returns it, and no runner reports it. The admission policy in
// deploy has the same list.
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

// OtherVolumes reports whether a pending change gives the VM other volumes.
func OtherVolumes(c v1.RestartAwaitingChange) bool { return c.Path == claimSuffixPath }

// reachesGuest reports whether a pending change reaches a running guest that is moved to another pod. Classes decide
// about the machine, other volumes have other files, and a node that is named is where the guest is already.
func reachesGuest(c v1.RestartAwaitingChange) bool {
	switch c.Path {
	case claimSuffixPath, "nodeName", "virtualMachineClassName":
		return false
	}
	return OfPod(c.Path) && !strings.HasPrefix(c.Path, classPath)
}

// ofPlace reports whether a pending change may be that the VM is to run on another node.
func ofPlace(c v1.RestartAwaitingChange) bool {
	switch c.Path {
	case "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints":
		return true
	}
	return false
}

// definition returns what in a VM its pod must be made anew for, by path, as JSON.
// What the runner compares itself (disks, networks, displays …) is not there, nor are
// computed requests: the next pod gets others, the running one needs none. Each path
// is one OfPod; vm.display.secret, which is no field, stands for the secret that
// is found by its labels.
func definition(vm *v1.VirtualMachine, s Settings, secret string) (string, error) {
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
		text, err := bounded(value)
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

// bounded returns the JSON of a value, nil of one that is empty. Of a long one it is a text:
// the beginning, and a hash that tells it apart from others.
func bounded(value any) (json.RawMessage, error) {
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

// PodChanges returns what in a VM has changed that its running pod can't follow,
// sorted by path: pod is the running one, next the StatefulSet as it is to be. A pod
// that the manager has not made doesn't say what it was made from, and has none.
func PodChanges(pod *metav1.ObjectMeta, next *applyappsv1.StatefulSetApplyConfiguration) []v1.RestartAwaitingChange {
	var is, willBe map[string]json.RawMessage
	if json.Unmarshal([]byte(pod.Annotations[AnnotationDefinition]), &is) != nil ||
		json.Unmarshal([]byte(next.Spec.Template.Annotations[AnnotationDefinition]), &willBe) != nil {
		return nil
	}
	if !longer(is[powerdownPath], willBe[powerdownPath]) {
		willBe[powerdownPath] = is[powerdownPath]
	}
	return differences(is, willBe)
}

// differences returns what of one definition is not in another one, sorted by path.
func differences(is, willBe map[string]json.RawMessage) []v1.RestartAwaitingChange {
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

// NamesNode reports whether a pod was made for a VM that names its node: no scheduler has
// seen it then, and the node may not exist.
func NamesNode(pod *metav1.ObjectMeta) bool {
	var from map[string]json.RawMessage
	return json.Unmarshal([]byte(pod.Annotations[AnnotationDefinition]), &from) == nil && from["nodeName"] != nil
}

// Outdated reports whether a pod was made from something else than the next one will be,
// even if only its requests differ.
func Outdated(pod *metav1.ObjectMeta, next *applyappsv1.StatefulSetApplyConfiguration) bool {
	was := pod.Annotations[AnnotationTemplate]
	return was != "" && was != next.Spec.Template.Annotations[AnnotationTemplate]
}

func longer(than, seconds json.RawMessage) bool {
	a, errA := strconv.Atoi(string(than))
	b, errB := strconv.Atoi(string(seconds))
	return errA != nil || errB != nil || b > a
}
