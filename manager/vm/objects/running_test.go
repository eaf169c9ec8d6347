package objects_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// pod returns the metadata of a VM's running pod.
func pod(t *testing.T, vm *v1.VirtualMachine) *metav1.ObjectMeta {
	t.Helper()
	template := statefulSet(t, vm, settings(), "secret").Spec.Template
	return &metav1.ObjectMeta{Name: vm.Name + "-0", Labels: template.Labels, Annotations: template.Annotations}
}

func raw(json string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(json)} }

func TestPodChanges(t *testing.T) {
	t.Parallel()
	running := pod(t, sample(t, nil))
	for name, row := range map[string]struct {
		change func(*v1.VirtualMachine)
		want   []v1.RestartAwaitingChange
	}{
		"nothing": {func(*v1.VirtualMachine) {}, nil},
		"what the runner follows or tells itself": {func(vm *v1.VirtualMachine) {
			vm.Spec.VM.CurrentCPUs, vm.Spec.VM.CurrentRAM, vm.Spec.VM.MaximumRAM = new(int32(4)), nil,
				new(resource.MustParse("16Gi"))
			vm.Spec.VM.Disks, vm.Spec.VM.Display.Spice.Port, vm.Spec.VM.Accelerator = nil, 5999, "tcg"
			vm.Labels = map[string]string{"a": "b"}
		}, nil},
		"image and resources": {func(vm *v1.VirtualMachine) {
			vm.Spec.Image = &v1.Image{Source: "runner:2", PullPolicy: corev1.PullAlways}
			vm.Spec.Resources = &v1.Resources{Requests: corev1.ResourceList{"memory": resource.MustParse("4Gi")}}
		}, []v1.RestartAwaitingChange{
			{Path: "image.pullPolicy", Operation: "add", DesiredValue: raw(`"Always"`)},
			{
				Path: "image.source", Operation: "replace", CurrentValue: raw(`"example.test/vmop/runner:1.2.3"`),
				DesiredValue: raw(`"runner:2"`),
			},
			{Path: "resources.requests.memory", Operation: "add", DesiredValue: raw(`"4Gi"`)},
		}},
		"place": {func(vm *v1.VirtualMachine) {
			vm.Spec.NodeSelector = map[string]string{"zone": "b"}
		}, []v1.RestartAwaitingChange{{Path: "nodeSelector", Operation: "add", DesiredValue: raw(`{"zone":"b"}`)}}},
		"more time to shut down": {func(vm *v1.VirtualMachine) {
			vm.Spec.VM.PowerdownTimeout = new(int32(1000))
		}, []v1.RestartAwaitingChange{{
			Path: "vm.powerdownTimeout", Operation: "replace", CurrentValue: raw("900"),
			DesiredValue: raw("1000"),
		}}},
		"less time": {func(vm *v1.VirtualMachine) { vm.Spec.VM.PowerdownTimeout = new(int32(99)) }, nil},
	} {
		vm := sample(t, row.change)
		require.Equal(t, row.want, objects.PodChanges(running, statefulSet(t, vm, settings(), "secret")), name)
	}
	require.Equal(t, []v1.RestartAwaitingChange{{
		Path: "vm.display.secret", Operation: "remove", CurrentValue: raw(`"secret"`),
	}},
		objects.PodChanges(running, statefulSet(t, sample(t, nil), settings(), "")))
	require.Empty(t, objects.PodChanges(&metav1.ObjectMeta{}, statefulSet(t, sample(t, nil), settings(), "")),
		"a pod that the manager has not made")
}

// The manager and the admission policy treat every path that affects a pod as the manager's part of the pending
// changes, which runners can't write.
func TestPathsOfPods(t *testing.T) {
	t.Parallel()
	policy, err := os.ReadFile("../../../deploy/admission-policy.yaml")
	require.NoError(t, err)
	vm := sample(t, func(vm *v1.VirtualMachine) {
		s := &vm.Spec
		s.NodeName, s.PriorityClassName, s.VMType.ConfigMap, s.NodeSelector = "a", "a", "a", map[string]string{"a": "b"}
		s.ClaimNameSuffix = "a"
		s.Affinity, s.Tolerations = &v1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
			[]corev1.Toleration{{Key: "a"}}
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "a"}}
		s.Image, s.Resources = &v1.Image{Source: "a", PullPolicy: corev1.PullAlways},
			&v1.Resources{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}
	})
	var from map[string]any
	require.NoError(t, json.Unmarshal([]byte(pod(t, vm).Annotations[objects.AnnotationDefinition]), &from))
	require.Len(t, from, 13)
	for path := range from {
		require.True(t, objects.OfPod(path), path)
		for _, prefix := range []string{"image.", "resources."} {
			if strings.HasPrefix(path, prefix) {
				path = prefix
			}
		}
		require.Equal(t, 2, strings.Count(string(policy), "'"+path+"'"), "%s, before the change and after it", path)
	}
	require.False(t, objects.OfPod("vm.firmware"))
	for path, want := range map[string]bool{
		"nodeSelector.zone": true, "tolerations[0].key": true, "resources.limits.cpu": true, "resources": true,
		"image": true, "vm.powerdownTimeout": false, "vm.firmware": false, "nodeSelectors": false, "runPolicy": false,
	} {
		require.Equal(t, want, objects.NeedsPod(path), path)
	}
}

// Differences are found even in values that are too long to be shown.
func TestPodChangesOfLongValues(t *testing.T) {
	t.Parallel()
	tolerating := func(last string) *v1.VirtualMachine {
		return sample(t, func(vm *v1.VirtualMachine) {
			for range 12 {
				vm.Spec.Tolerations = append(vm.Spec.Tolerations, corev1.Toleration{
					Key:      "example.test/dedicated",
					Operator: corev1.TolerationOpExists,
				})
			}
			vm.Spec.Tolerations[11].Key = last
		})
	}
	changes := objects.PodChanges(pod(t, tolerating("one")), statefulSet(t, tolerating("two"), settings(), "secret"))
	require.Len(t, changes, 1)
	require.Less(t, len(changes[0].CurrentValue.Raw), 160)
}

func TestPodPatch(t *testing.T) {
	t.Parallel()
	before := sample(t, func(vm *v1.VirtualMachine) {
		vm.Labels = map[string]string{"goes": "x", "changes": "x", objects.LabelName: "mine"}
		vm.Annotations = map[string]string{
			"goes": "x", "kubectl.kubernetes.io/restartedAt": "x",
			"vmoperator.jdrupes.org/own": "x",
		}
	})
	running := pod(t, before)
	require.NotContains(t, running.Annotations, "kubectl.kubernetes.io/restartedAt")
	require.Equal(t, objects.AppName, running.Labels[objects.LabelName])
	running.Labels["apps.kubernetes.io/pod-index"], running.Annotations["other/program"] = "0", "x"

	patch := func(vm *v1.VirtualMachine, versions map[string]string) string {
		text, err := objects.PodPatch(vm, running, versions)
		require.NoError(t, err)
		return string(text)
	}
	require.Empty(t, patch(before, nil), "it was made with all that")
	require.JSONEq(t, `{"metadata":{"annotations":{"vmrunner.jdrupes.org/cmVersion":"7"}}}`,
		patch(before, map[string]string{objects.AnnotationConfigVersion: "7"}))
	after := sample(t, func(vm *v1.VirtualMachine) { vm.Labels = map[string]string{"changes": "y", "comes": "y"} })
	changed := patch(after, nil)
	require.JSONEq(t, `{"metadata":{"labels":{"goes":null,"changes":"y","comes":"y"},"annotations":{"goes":null,"vmoperator.jdrupes.org/taken":"changes,comes;"}}}`, changed)

	var is struct {
		Metadata struct{ Labels, Annotations map[string]*string }
	}
	require.NoError(t, json.Unmarshal([]byte(changed), &is))
	for have, change := range map[*map[string]string]map[string]*string{
		&running.Labels:      is.Metadata.Labels,
		&running.Annotations: is.Metadata.Annotations,
	} {
		for key, value := range change {
			if value == nil {
				delete(*have, key)
			} else {
				(*have)[key] = *value
			}
		}
	}
	require.Empty(t, patch(after, nil), "the patch has brought all")
}

// When the kubelet must read a file again, the pod's annotation gets another version, at most five times in about a
// minute.
func TestFilesAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	require.Equal(t, "7", objects.FileVersion("", "7", false))
	require.Equal(t, "8", objects.FileVersion("7.3", "8", true))
	require.Equal(t, "7.3", objects.FileVersion("7.3", "7", false))
	known, total := "7", time.Duration(0)
	for range 5 {
		after, is := objects.LookAgain(known)
		require.True(t, is)
		total += after
		known = objects.FileVersion(known, "7", true)
	}
	require.Equal(t, "7.5", known)
	require.Equal(t, 62*time.Second, total)
	_, is := objects.LookAgain(known)
	require.False(t, is)
	_, is = objects.LookAgain("")
	require.False(t, is, "the pod was made with the file as it is")
}
