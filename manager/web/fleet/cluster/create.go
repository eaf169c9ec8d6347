package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/web/fleet"
)

// A making is a new VM with its new disks.
type making struct {
	vm    *document
	disks []*document
}

// mostDisks is the maximum number of new disks: as many as a VM can refer to.
const mostDisks = 16

// parseNew parses the definition of a new VM and of its disks, each in its own YAML document.
func (f *Fleet) parseNew(name, text string) (*making, error) {
	m := &making{}
	for _, document := range splitDocuments(text) {
		d, err := decodeDocument(document)
		switch {
		case err != nil:
		case d.Kind == kindOfDisk:
			m.disks = append(m.disks, d)
			err = d.checkDisk(f.opts.Namespace)
		case m.vm != nil:
			err = fleet.Faults{d.faultAt("kind", "there is another VM above: create one VM at a time, with its disks (kind: "+
				kindOfDisk+")")}
		default:
			m.vm, err = d, d.checkKind(kindOfVM, name, f.opts.Namespace)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case m.vm == nil:
		return nil, fleet.Refusal("the definition has no " + kindOfVM)
	case len(m.disks) > mostDisks:
		return nil, fleet.Refusal(fmt.Sprintf("%d new disks for one VM are too many: create at most %d", len(m.disks),
			mostDisks))
	case m.vm.Spec["runPolicy"] == string(v1.AlwaysOn):
		return nil, fleet.Refusal("spec.runPolicy: AlwaysOn would start the VM immediately, which needs another right: " +
			"create it with another run policy, and edit it then")
	}
	if machine, ok := m.vm.Spec["vm"].(map[string]any); ok {
		machine["state"] = string(v1.Stopped) // starting it needs another permission
	}
	return m, m.vm.restoreSecrets(&document{})
}

// Create implements fleet.Fleet. It creates the VM last, so that a VM never lacks its disks.
func (f *Fleet) Create(ctx context.Context, user, name, text string, _ fleet.Data) error {
	m, err := f.parseNew(name, text)
	if err != nil {
		return err
	}
	if m.disks != nil {
		if _, err := f.tryCreate(ctx, m); err != nil {
			return err
		}
	}
	var disks []client.Object
	for _, d := range m.disks {
		made, err := f.createDocument(ctx, d)
		if err != nil {
			return f.undoDisks(ctx, disks, err)
		}
		disks = append(disks, made)
	}
	object, err := f.createDocument(ctx, m.vm)
	switch {
	case err == nil:
	case isRefusal(err):
		return f.undoDisks(ctx, disks, err)
	case disks != nil:
		return fmt.Errorf("it is not known whether the VM %s was created; its disks, such as %s, were: %w", name,
			disks[0].GetName(), err)
	default:
		return err
	}
	vm, err := asVM(object)
	if err != nil {
		return err
	}
	f.recordEvent(ctx, user, found{VirtualMachine: vm}, "create", "create")
	return f.awaitStored(ctx, name)
}

// isRefusal reports whether an error means that nothing was created.
func isRefusal(err error) bool {
	var said apierrors.APIStatus
	return errors.As(err, new(fleet.Faults)) || errors.As(err, new(fleet.Refusal)) || errors.Is(err, fleet.ErrExists) ||
		errors.As(err, &said) && said.Status().Code < http.StatusInternalServerError
}

// undoTime is the time limit for removing the disks again.
const undoTime = 10 * time.Second

// undoDisks removes the disks of a VM that wasn't created. It returns why, with its own errors appended.
func (f *Fleet) undoDisks(ctx context.Context, disks []client.Object, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime) // the user may have left
	defer cancel()
	for _, d := range disks {
		uid := d.GetUID()
		err := f.opts.Client.Delete(ctx, d, client.Preconditions{UID: &uid})
		if err != nil && !apierrors.IsNotFound(err) {
			f.opts.Log.Error("the disk of a VM that was not created is not removed", "disk", d.GetName(), "err", err)
			why = fmt.Errorf("%w\nthe VirtualDisk %s was created, and is not removed: %w", why, d.GetName(), err)
		}
	}
	return why
}

// tryCreate returns the VM that the API server would create. The error contains the problems of all disks and the VM.
func (f *Fleet) tryCreate(ctx context.Context, m *making) (client.Object, error) {
	var all fleet.Faults
	for _, d := range m.disks {
		_, err := f.createDocument(ctx, d, client.DryRunAll)
		var faults fleet.Faults
		if err != nil && !errors.As(err, &faults) {
			return nil, err
		}
		all = append(all, faults...)
	}
	object, err := f.createDocument(ctx, m.vm, client.DryRunAll)
	var faults fleet.Faults
	if err != nil && !errors.As(err, &faults) {
		return nil, err
	}
	if all = append(all, faults...); all != nil {
		return nil, all
	}
	return object, nil
}

func (f *Fleet) createDocument(ctx context.Context, d *document, more ...client.CreateOption) (client.Object, error) {
	object := d.asObject()
	err := f.opts.Client.Create(ctx, object, append(more, owner, client.FieldValidation("Strict"))...)
	switch {
	case !apierrors.IsAlreadyExists(err):
		return object, d.locateFaults(err)
	case d.Kind == kindOfDisk:
		return nil, fleet.Faults{d.faultAt("metadata.name", "a VirtualDisk with this name already exists: "+
			"give this disk another name, here and in spec.blockDeviceRefs of the VM, or leave its definition out")}
	}
	return nil, fleet.ErrExists
}
