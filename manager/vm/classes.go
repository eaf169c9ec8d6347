package vm

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/apply"
	"vmop/manager/class"
	"vmop/manager/decide"
	"vmop/manager/store"
	"vmop/vmtypes"
)

// classes keeps what is said about classes, and protects those that VMs of the namespace use.
// It compares all classes with all nodes and VMs whenever one of them has changed: there are
// few classes.
type classes struct {
	store  *store.Store
	writer apply.ClassWriter
	types  TypeChecker
	now    func() time.Time
	last   map[string]class.Last
	said   string // why the classes are not known, as it was logged
}

// Times of the loop: changes are taken together, and what failed is tried again.
const (
	classesTogether = 500 * time.Millisecond
	classesRetry    = 30 * time.Second
)

// Start implements manager.Runnable: it runs while this manager leads.
func (k *classes) Start(ctx context.Context) error {
	if k.store.Await(ctx) != nil {
		return nil // ctx is done
	}
	for {
		var timer <-chan time.Time
		if again := k.keep(ctx); !again.IsZero() {
			timer = time.After(again.Sub(k.now()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.store.ClassesChanged():
		case <-timer:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(classesTogether):
		}
	}
}

// keep writes what is to be written, and returns when to do so again; zero: after a change.
func (k *classes) keep(ctx context.Context) (again time.Time) {
	all, unavailable := k.store.Classes()
	if unavailable != k.said {
		k.said = unavailable
		log.FromContext(ctx).Info("VirtualMachineClasses: "+unavailable, "known", unavailable == "")
	}
	if unavailable != "" {
		return again
	}
	var in class.Cluster
	in.Nodes, in.NodesUnknown = k.store.Nodes()
	preset, names := class.DefaultOf(all)
	if in.Defaults = names; preset != nil {
		in.Default = preset.Name
	}
	users := k.store.UsersOfClasses()
	for _, c := range all {
		in.Fault = k.fault(ctx, c)
		at, err := k.write(ctx, c, in, class.Use(k.writer.Namespace, users[c.Name]))
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "the class is not as it should be")
			at = k.now().Add(classesRetry)
		}
		if !at.IsZero() && (again.IsZero() || at.Before(again)) {
			again = at
		}
	}
	return again
}

// write writes what of a class is not as it should be.
func (k *classes) write(ctx context.Context, c *v1.VirtualMachineClass, in class.Cluster, use v1.ClassUse) (
	again time.Time, err error,
) {
	now, last := k.now(), k.last[c.Name]
	status := class.Status(c, in, now)
	w := class.Differences(c, status, use, last, now)
	if w.Protect && use.Count > 0 { // before anything says that it is used
		err = errors.Join(err, k.writer.Protect(ctx, c, true))
	}
	if w.Status {
		last.Status = now
		err = errors.Join(err, k.writer.Status(ctx, c, status))
	}
	if w.Use {
		last.Use = now
		err = errors.Join(err, k.writer.Use(ctx, c, use))
	}
	if w.Protect && use.Count == 0 { // the last: the class may be gone after it
		err = errors.Join(err, k.writer.Protect(ctx, c, false))
	}
	k.last[c.Name] = last
	return w.Again, err
}

// fault returns why the VM type of a class makes no machine of its defaults, in terms of the
// class; "" if it does. A custom type is one of a namespace, which its VMs show.
func (k *classes) fault(ctx context.Context, c *v1.VirtualMachineClass) string {
	if t := c.Spec.VMType; class.Usable(c) != "" || t != nil && t.Source != "" && !vmtypes.IsStock(t.Source) {
		return ""
	}
	vm := &v1.VirtualMachine{}
	vm.Name, vm.Spec.VM.MaximumCPUs = c.Name, new(int32(1))
	vm.Spec.VM.MaximumRAM = new(resource.MustParse("1Gi"))
	resolved, err := class.Resolve(vm, class.Extract(c, vm))
	if err == nil {
		_, err = k.types.CheckType(ctx, resolved, nil)
	}
	var refused TypeRefused
	if err == nil || !errors.As(err, &refused) && ctx.Err() != nil {
		return ""
	}
	text := strings.ReplaceAll(err.Error(), "spec.vm.cpuModel", "spec.cpu")
	return decide.Readable(strings.ReplaceAll(text, "spec.vm.", "spec.defaults."))
}
