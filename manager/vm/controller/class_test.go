package controller

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/class"
	"vmop/manager/vm/decide"
	"vmop/test/wait"
)

// class creates a class with a name unique to this world, because other tests use the same API server.
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

func sizing(vm *v1.VirtualMachine) metav1.Condition {
	if c := condition(vm, v1.ConditionSizingMatched); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// A class without VMs has no users and no finalizer of the manager.
func TestTheLastVMOfAClassIsDeleted(t *testing.T) {
	t.Parallel()
	w := begin(t)
	name := w.class("last", func(*v1.VirtualMachineClassSpec) {})
	w.vm("web", func(vm *v1.VirtualMachine) {
		stopped(vm)
		vm.Spec.VirtualMachineClassName = name
	})
	w.classIs(name, "the VM uses it", func(c *v1.VirtualMachineClass) bool {
		return len(c.Status.UsedBy) == 1 && len(c.Finalizers) == 1
	})
	require.NoError(t, w.client.Delete(t.Context(), machine(w.Name, "web")))
	w.classIs(name, "no VM uses it", func(c *v1.VirtualMachineClass) bool {
		return len(c.Status.UsedBy) == 0 && len(c.Finalizers) == 0
	})
}

// Managers of two namespaces record the users of a class once. The class's deletion waits for the VMs of both, and a VM
// keeps running if the class is deleted by force.
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
	c := one.classIs(name, "both use it", func(c *v1.VirtualMachineClass) bool { // a node can be unready for a moment
		return len(c.Status.UsedBy) == 2 && len(c.Finalizers) == 2 && slices.Contains(c.Status.AvailableNodes, node)
	})
	for _, use := range c.Status.UsedBy {
		require.Equal(t, class.Use(use.Namespace, []string{"web"}), use)
	}
	watching, err := one.client.Watch(t.Context(), &v1.VirtualMachineClassList{},
		client.MatchingFields{"metadata.name": name})
	require.NoError(t, err)
	defer watching.Stop()
	<-watching.ResultChan() // the initial state
	one.vm("idle", stopped)
	one.phase("idle", v1.PhaseStopped, decide.ReasonStopped)
	one.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.BootMenu = new(true) })
	eventually(one, "web", &v1.VirtualMachine{}, "it is seen", func(vm *v1.VirtualMachine) bool {
		return vm.Status.ObservedGeneration == vm.Generation
	})
	select {
	case e := <-watching.ResultChan():
		require.Fail(t, "no new event is expected", "%+v", e.Object)
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
	reconciled := condition(vm, v1.ConditionReconciled)
	require.Equal(t, metav1.ConditionFalse, reconciled.Status)
	require.Contains(t, reconciled.Message, "there is no VirtualMachineClass")
	require.Equal(t, name, vm.Status.VirtualMachineClassName)
}
