package vm

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/class"
	"vmop/manager/decide"
	"vmop/manager/objects"
	"vmop/test/tier"
	"vmop/test/wait"
)

// class makes a class for this world: other tests have the same API server.
func (w *world) class(name string, edit func(*v1.VirtualMachineClassSpec)) string {
	w.t.Helper()
	c := &v1.VirtualMachineClass{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + w.Name}}
	c.Spec.CPU.Type = v1.CPUHost
	edit(&c.Spec)
	w.create(c)
	w.t.Cleanup(func() {
		c.Finalizers = nil
		_ = w.client.Delete(w.playing(), c)
	})
	return c.Name
}

// changeClass changes a class.
func (w *world) changeClass(name string, change func(*v1.VirtualMachineClass)) {
	w.t.Helper()
	wait.For(w.t, "class "+name+" is changed", func() error {
		c := &v1.VirtualMachineClass{}
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, c); err != nil {
			return err
		}
		change(c)
		return w.client.Update(w.t.Context(), c)
	})
}

func (w *world) classIs(name, what string, is func(*v1.VirtualMachineClass) bool) *v1.VirtualMachineClass {
	w.t.Helper()
	c := &v1.VirtualMachineClass{}
	wait.Until(w.t, func() bool {
		c = &v1.VirtualMachineClass{}
		err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, c)
		return err == nil && is(c)
	}, "%s: %s", name, what)
	return c
}

// configOf returns the runner's configuration.
func (w *world) configOf(vm string) string {
	w.t.Helper()
	files, is := get(w, vm, &corev1.ConfigMap{})
	require.True(w.t, is)
	return files.Data[objects.ConfigKey]
}

func sizing(vm *v1.VirtualMachine) metav1.Condition {
	if c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionSizingMatched); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func firmware(name string) func(*v1.VirtualMachineClass) {
	return func(c *v1.VirtualMachineClass) { c.Spec.Defaults = &v1.ClassDefaults{Firmware: name} }
}

// A VM waits for its class. What it has taken stays while it runs, also for a manager that is
// started again, and the next start takes the class as it is by then.
func TestChangedClassWaitsForRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := w.manage(nil)
	name := "web-" + w.Name
	w.vm("web", func(vm *v1.VirtualMachine) { vm.Spec.VirtualMachineClassName = name })
	vm := w.phase("web", v1.PhasePending, decide.ReasonClassMissing)
	require.Contains(t, vm.Status.Message, "there is no VirtualMachineClass "+name)
	_, made := get(w, "web", &corev1.ConfigMap{})
	require.False(t, made, "nothing is known of it yet")
	w.vm("other")
	w.boot("other")

	w.class("web", func(s *v1.VirtualMachineClassSpec) {
		s.Defaults = &v1.ClassDefaults{Firmware: "bios"}
		s.NodeSelector = &v1.NodeLabels{MatchLabels: map[string]v1.LabelValue{"disk": "ssd"}}
	})
	pod := w.boot("web")
	require.Contains(t, w.configOf("web"), "firmware: bios")
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	require.Equal(t, "disk", terms[0].MatchExpressions[0].Key)
	eventually(w, "web", &v1.VirtualMachine{}, "its class is said", func(vm *v1.VirtualMachine) bool {
		return vm.Status.VirtualMachineClassName == name && sizing(vm).Status == metav1.ConditionTrue
	})

	waits := func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.RestartAwaitingChanges) == 1 &&
			vm.Status.RestartAwaitingChanges[0].Path == "virtualMachineClass.defaults.firmware"
	}
	w.changeClass(name, firmware("uefi"))
	vm = eventually(w, "web", &v1.VirtualMachine{}, "the change waits", func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.RestartAwaitingChanges) > 0
	})
	require.True(t, len(vm.Status.RestartAwaitingChanges) == 2 || waits(vm), "%+v", vm.Status.RestartAwaitingChanges)
	end()
	w.manage(nil) // which remembers nothing
	w.changeClass(name, func(c *v1.VirtualMachineClass) { c.Spec.Defaults.Firmware = "secure" })
	vm = eventually(w, "web", &v1.VirtualMachine{}, "the newer change waits", func(vm *v1.VirtualMachine) bool {
		changes := vm.Status.RestartAwaitingChanges
		return len(changes) > 0 && string(changes[0].DesiredValue.Raw) == `"secure"`
	})
	require.Equal(t, `"bios"`, string(vm.Status.RestartAwaitingChanges[0].CurrentValue.Raw))
	require.Contains(t, w.configOf("web"), "firmware: bios")
	// What the VM says itself reaches it meanwhile.
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.PowerdownTimeout = new(int32(77)) })
	eventually(w, "web", &corev1.ConfigMap{}, "it follows its definition", func(files *corev1.ConfigMap) bool {
		return strings.Contains(files.Data[objects.ConfigKey], "powerdownTimeout: 77")
	})
	require.Contains(t, w.configOf("web"), "firmware: bios")

	require.NoError(t, w.client.Delete(t.Context(), pod))
	eventually(w, "web", &corev1.ConfigMap{}, "the next start takes the class", func(files *corev1.ConfigMap) bool {
		return strings.Contains(files.Data[objects.ConfigKey], "firmware: secure")
	})
	eventually(w, "web", &v1.VirtualMachine{}, "nothing waits", func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.RestartAwaitingChanges) == 0
	})
}

// A VM whose size its class doesn't allow stays as it is, and isn't started.
func TestSizingPolicy(t *testing.T) {
	t.Parallel()
	w := begin(t)
	name := w.class("small", func(s *v1.VirtualMachineClassSpec) {
		s.SizingPolicies = []v1.SizingPolicy{{
			Cores:         v1.CoreRange{Min: 1, Max: 2},
			CoreFractions: []v1.CoreFraction{"20%", "100%"}, DefaultCoreFraction: "20%",
		}}
	})
	w.vm("web", func(vm *v1.VirtualMachine) { vm.Spec.VirtualMachineClassName = name })
	pod := w.boot("web")
	resources := pod.Spec.Containers[0].Resources
	require.Equal(t, "400m", resources.Requests.Cpu().String())
	require.Equal(t, "2", resources.Limits.Cpu().String())
	require.Equal(t, corev1.PodQOSBurstable, pod.Status.QOSClass)

	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.MaximumCPUs = new(int32(4)) })
	vm := eventually(w, "web", &v1.VirtualMachine{}, "it violates the policy", func(vm *v1.VirtualMachine) bool {
		return sizing(vm).Status == metav1.ConditionFalse
	})
	require.Contains(t, sizing(vm).Message, "spec.vm.maximumCpus is 4: class "+name+" allows 1 to 2; the nearest is 2")
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
	require.Contains(t, w.configOf("web"), "maximumCpus: 2")
	w.edit("web", stopped)
	w.gone("web", pod)
	w.edit("web", running)
	w.phase("web", v1.PhaseFailed, decide.ReasonSizing)
	_, starts := get(w, "web-0", &corev1.Pod{})
	require.False(t, starts)
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.MaximumCPUs, vm.Spec.CPU = new(int32(1)), &v1.CPU{CoreFraction: "100%"}
		vm.Spec.VM.MaximumRAM = new(resource.MustParse("256Mi"))
	})
	pod = w.boot("web")
	require.Equal(t, corev1.PodQOSGuaranteed, pod.Status.QOSClass)
	require.Equal(t, "1", pod.Spec.Containers[0].Resources.Requests.Cpu().String())
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.CPU.CoreFraction = "20%" })
	vm = eventually(w, "web", &v1.VirtualMachine{}, "it needs another pod", func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.RestartAwaitingChanges) == 1
	})
	change := vm.Status.RestartAwaitingChanges[0]
	require.Equal(t, []string{"cpu.coreFraction", `"100%"`, `"20%"`},
		[]string{change.Path, string(change.CurrentValue.Raw), string(change.DesiredValue.Raw)})
}

// Managers of two namespaces say who uses a class, and write nothing when all is said. Its
// deletion waits for the VMs of both. One that is gone by force leaves a VM running.
func TestClassOfTwoNamespaces(t *testing.T) {
	t.Parallel()
	one, two := begin(t), begin(t)
	name := one.class("shared", func(s *v1.VirtualMachineClassSpec) {
		s.Tolerations = []v1.Toleration{{Operator: "Exists"}}
	})
	one.classIs(name, "ready", func(c *v1.VirtualMachineClass) bool { return c.Status.Phase == v1.ClassReady })
	for _, w := range []*world{one, two} {
		w.vm("web", func(vm *v1.VirtualMachine) { vm.Spec.VirtualMachineClassName = name })
		w.boot("web")
	}
	c := one.classIs(name, "both use it", func(c *v1.VirtualMachineClass) bool { // a node may not be ready for a moment
		return len(c.Status.UsedBy) == 2 && len(c.Finalizers) == 2 && slices.Contains(c.Status.AvailableNodes, node)
	})
	for _, use := range c.Status.UsedBy {
		require.Equal(t, class.Use(use.Namespace, []string{"web"}), use)
	}
	watching, err := one.client.Watch(t.Context(), &v1.VirtualMachineClassList{},
		client.MatchingFields{"metadata.name": name})
	require.NoError(t, err)
	defer watching.Stop()
	<-watching.ResultChan() // as it is
	one.vm("idle", stopped)
	one.phase("idle", v1.PhaseStopped, decide.ReasonStopped)
	one.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.BootMenu = new(true) })
	eventually(one, "web", &v1.VirtualMachine{}, "it is seen", func(vm *v1.VirtualMachine) bool {
		return vm.Status.ObservedGeneration == vm.Generation
	})
	select {
	case e := <-watching.ResultChan():
		require.Fail(t, "nothing new is to be said", "%+v", e.Object)
	default:
	}

	require.NoError(t, one.client.Delete(t.Context(), c))
	one.classIs(name, "it waits", func(c *v1.VirtualMachineClass) bool { return c.Status.Phase == v1.ClassTerminating })
	require.NoError(t, two.client.Delete(t.Context(), machine(two.Name, "web")))
	one.classIs(name, "one still uses it", func(c *v1.VirtualMachineClass) bool {
		return len(c.Finalizers) == 1 && c.Finalizers[0] == class.Finalizer(one.Name) && len(c.Status.UsedBy) == 1
	})
	one.changeClass(name, func(c *v1.VirtualMachineClass) { c.Finalizers = nil })
	vm := eventually(one, "web", &v1.VirtualMachine{}, "its class is gone", func(vm *v1.VirtualMachine) bool {
		return sizing(vm).Reason == decide.ReasonClassMissing
	})
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
	reconciled := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled)
	require.Equal(t, metav1.ConditionFalse, reconciled.Status)
	require.Contains(t, reconciled.Message, "there is no VirtualMachineClass")
	require.Equal(t, name, vm.Status.VirtualMachineClassName)
}

// The status of a class has a default that its VM type refuses, with the path in the class.
func TestClassTellsWrongDefaults(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := begin(t)
	w.types.refuse("pc", TypeRefused{"spec.vm.options.sound: unknown option"})
	name := w.class("faulty", func(s *v1.VirtualMachineClassSpec) { s.VMType = &v1.VMType{Source: "pc"} })
	wait.Until(t, func() bool {
		c := &v1.VirtualMachineClass{}
		require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: name}, c))
		ready := meta.FindStatusCondition(c.Status.Conditions, v1.ConditionReady)
		return ready != nil && ready.Message == "spec.defaults.options.sound: unknown option"
	})
}
