package controller

import (
	"context"
	"errors"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/store"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/class"
	"vmop/manager/vm/decide"
	"vmop/vmtypes"
)

// classes maintains the status of classes, and protects the classes that VMs of the namespace use. Since there are
// few classes, it compares all classes with all nodes and VMs after each change.
type classes struct {
	store  *store.Store
	writer apply.ClassWriter
	types  TypeChecker
	now    func() time.Time
	last   map[string]class.Last
	said   string // the last logged reason why the classes are unknown
}

// classesTogether is how long changes are collected, and classesRetry is the delay after an error.
const (
	classesTogether = 500 * time.Millisecond
	classesRetry    = 30 * time.Second
)

// Start implements manager.Runnable: it runs while this manager is the leader.
func (k *classes) Start(ctx context.Context) error {
	if k.store.Await(ctx) != nil || k.store.AwaitNodes(ctx) != nil {
		return nil // ctx is done
	}
	for {
		var timer <-chan time.Time
		if again := k.keepClasses(ctx); !again.IsZero() {
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

// keepClasses updates all classes. It returns when to do so again; zero means after the next change.
func (k *classes) keepClasses(ctx context.Context) (again time.Time) {
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
		in.Fault = k.classFault(ctx, c)
		at, err := k.writeClass(ctx, c, in, class.Use(k.writer.Namespace, users[c.Name]))
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

// writeClass writes the parts of a class that are out of date.
func (k *classes) writeClass(ctx context.Context, c *v1.VirtualMachineClass, in class.Cluster, use v1.ClassUse) (
	again time.Time, err error,
) {
	now, last := k.now(), k.last[c.Name]
	status := class.Status(c, in, now)
	w := class.Differences(c, status, use, last, now)
	if w.Protect && use.Count > 0 { // before the status shows its use
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
	if w.Protect && use.Count == 0 { // last: the class may be gone afterward
		err = errors.Join(err, k.writer.Protect(ctx, c, false))
	}
	k.last[c.Name] = last
	return w.Again, err
}

// classFault returns why the VM type of a class rejects a VM with the class's defaults, in field names of the class. It
// returns "" if the type accepts it. A custom type belongs to a namespace, and its errors are shown by the VMs
// there.
func (k *classes) classFault(ctx context.Context, c *v1.VirtualMachineClass) string {
	if t := c.Spec.VMType; class.Usable(c) != "" || t != nil && t.Source != "" && !vmtypes.IsStock(t.Source) {
		return ""
	}
	vm := &v1.VirtualMachine{}
	vm.Name = c.Name
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
