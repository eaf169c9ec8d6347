package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/manager/vm/class"
	"vmop/manager/vm/objects"
)

// known provides classes, or the reason why they are unavailable.
type known struct {
	all         map[string]*v1.VirtualMachineClass
	preset      string
	unavailable string
}

func (k known) Class(name string) *v1.VirtualMachineClass { return k.all[name] }
func (k known) DefaultClass() *v1.VirtualMachineClass     { return k.all[k.preset] }
func (k known) ClassesUnavailable() string                { return k.unavailable }
func (k known) LogsIn(pool string) bool                   { return pool == "desktops" }

// A VM's values from its class depend on its recorded values, its pod, and the known classes.
func TestResolveClass(t *testing.T) {
	t.Parallel()
	of := func(firmware string) *v1.VirtualMachineClass {
		c := &v1.VirtualMachineClass{ObjectMeta: metav1.ObjectMeta{Name: firmware}}
		c.Spec.Defaults = &v1.ClassDefaults{Firmware: firmware}
		return c
	}
	classes := known{all: map[string]*v1.VirtualMachineClass{"bios": of("bios"), "uefi": of("uefi")}, preset: "uefi"}
	waiting := &v1.VirtualMachineClass{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	waiting.Spec.CPU.Type = v1.CPUDiscovery
	classes.all["new"] = waiting
	unknown := known{unavailable: "no right"}
	up := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	ends := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	unplaced := &corev1.Pod{}
	old := class.Taken{Class: "old", CPUModel: "host", Defaults: &v1.ClassDefaults{Firmware: "secure"}}
	oldBios := class.Taken{Class: "bios", CPUModel: "host", Defaults: &v1.ClassDefaults{Firmware: "secure"}}
	preset := class.Taken{Class: "uefi", ByDefault: true, Defaults: &v1.ClassDefaults{Firmware: "uefi"}}
	for name, row := range map[string]struct {
		class   string
		was     *class.Taken // nil: no ConfigMap exists
		seen    bool
		pod     *corev1.Pod
		classes known

		firmware, inForce, obstacle string
		changes                     int
		follows, frozen             bool
	}{
		"none":                 {classes: known{}, follows: true},
		"named":                {class: "bios", classes: classes, firmware: "bios", inForce: "bios", follows: true},
		"new, default":         {classes: classes, firmware: "uefi", inForce: "uefi", follows: true},
		"seen, no default":     {seen: true, classes: classes, follows: true},
		"has none, no default": {was: &class.Taken{}, classes: classes, follows: true},
		"default stays": {
			was: &preset, seen: true, classes: classes,
			firmware: "uefi", inForce: "uefi", follows: true,
		},
		"running keeps": {
			class: "bios", was: &oldBios, pod: up, classes: classes,
			firmware: "secure", inForce: "bios", changes: 1, follows: true,
		},
		"running, another class": {
			class: "bios", was: &old, pod: up, classes: classes,
			firmware: "secure", inForce: "old", changes: 2, follows: true,
		},
		"running, no longer with a class": {
			was: &old, seen: true, pod: up, classes: classes,
			firmware: "secure", inForce: "old", changes: 3, follows: true,
		},
		"ending takes": {
			class: "bios", was: &old, pod: ends, classes: classes,
			firmware: "bios", inForce: "bios", follows: true,
		},
		"not placed takes": {
			class: "bios", was: &old, pod: unplaced, classes: classes,
			firmware: "bios", inForce: "bios", follows: true,
		},
		"stopped takes": {
			class: "bios", was: &old, classes: classes,
			firmware: "bios", inForce: "bios", follows: true,
		},
		"missing": {
			class: "gone", classes: classes,
			inForce: "gone", obstacle: ReasonClassMissing, frozen: true,
		},
		"running, missing": {
			class: "old", was: &old, pod: up, classes: classes,
			firmware: "secure", inForce: "old", obstacle: ReasonClassMissing, follows: true, frozen: true,
		},
		"stopped, missing": {
			class: "old", was: &old, classes: classes,
			firmware: "secure", inForce: "old", obstacle: ReasonClassMissing, frozen: true,
		},
		"not ready": {
			class: "new", classes: classes,
			inForce: "new", obstacle: reasonClassNotReady, frozen: true,
		},
		"not known": {
			class: "bios", classes: unknown,
			inForce: "bios", obstacle: reasonClassUnavailable, frozen: true,
		},
		"running, not known": {
			class: "old", was: &old, pod: up, classes: unknown,
			firmware: "secure", inForce: "old", obstacle: reasonClassUnavailable, follows: true,
		},
		"others, not known": {classes: unknown, follows: true},
	} {
		vm := &v1.VirtualMachine{}
		vm.Spec.VirtualMachineClassName = row.class
		if row.seen {
			vm.Status.ObservedGeneration = 1
		}
		var config *objects.Metadata
		if row.was != nil {
			record, err := row.was.Record()
			require.NoError(t, err)
			config = objects.NewMetadata(objects.KindConfigMap)
			config.Annotations = map[string]string{objects.AnnotationClass: record}
		}
		resolved, c, err := Resolve(vm, row.pod, config, row.classes)
		require.NoError(t, err, name)
		require.Equal(t, row.firmware, resolved.Spec.VM.Firmware, name)
		require.Equal(t, row.inForce, c.inForce(), name)
		require.Len(t, c.Changes, row.changes, name)
		require.Equal(t, []bool{row.follows, row.frozen}, []bool{c.Follows(), c.Frozen()}, name)
		if waits, is := c.Check().Obstacle.(Waiting); is || row.obstacle != "" {
			require.Equal(t, row.obstacle, waits.Reason, name)
		}
	}
}

// A VM that sets an option that its class locks doesn't start. A running VM keeps its configuration.
func TestLockedOptionStopsAVM(t *testing.T) {
	t.Parallel()
	c := &v1.VirtualMachineClass{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}
	c.Spec.LockedOptions = []v1.OptionName{"env"}
	classes := known{all: map[string]*v1.VirtualMachineClass{"prod": c}}
	for options, stops := range map[string]bool{`{"env": "dev"}`: true, `{"other": 1}`: false} {
		vm := &v1.VirtualMachine{}
		vm.Spec.VirtualMachineClassName = "prod"
		vm.Spec.VM.Options = &runtime.RawExtension{Raw: []byte(options)}
		_, of, err := Resolve(vm, nil, nil, classes)
		require.NoError(t, err)
		require.Equal(t, []bool{!stops, stops}, []bool{of.Follows(), of.Frozen()}, options)
		stalled, is := of.Check().Obstacle.(Stalled)
		require.Equal(t, stops, is, options)
		if stops {
			require.Equal(t, reasonOptionLocked, stalled.Reason)
			require.Contains(t, stalled.Message, `spec.vm.options.env is "dev": class prod locks it`)
		}
	}
}
