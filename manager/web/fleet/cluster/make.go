package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// Types gives access to the VM types of the namespace. Its methods are safe for concurrent use.
type Types interface {
	// Names returns the sorted names.
	Names(ctx context.Context) ([]string, error)
	// Describe returns the description of a type.
	Describe(ctx context.Context, name string) (vmtypes.Description, error)
	// Plan returns the arguments of QEMU for the next start of a VM. If the type refuses the definition, the error has
	// type fleet.Faults, with paths in the resource.
	Plan(ctx context.Context, vm *v1.VirtualMachine) (*plan.Plan, error)
	// Module returns the source of a module of a VM's type, by the name in origins.
	Module(ctx context.Context, vm *v1.VirtualMachine, name string) (string, error)
}

// defaultType is the type of a VM that names none (api/v1).
const defaultType = "standard"

// Offer implements fleet.Fleet.
func (f *Fleet) Offer(ctx context.Context) (*fleet.Offer, error) {
	names, err := f.opts.Types.Names(ctx)
	if err != nil {
		return nil, err
	}
	return &fleet.Offer{
		Types: names, Type: defaultType, Networks: []string{"user", "masquerade", "tap", fleet.NoNetwork},
		RunPolicies: []string{string(v1.AlwaysOnUnlessStoppedManually), string(v1.Manual), string(v1.AlwaysOff)},
		Classes:     f.storageClasses(ctx),
		VMClasses:   f.vmClasses(), Sources: f.diskSources(),
	}, nil
}

// VMType implements fleet.Fleet.
func (f *Fleet) VMType(ctx context.Context, name string) (*fleet.VMType, error) {
	about, err := f.opts.Types.Describe(ctx, name)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, fleet.Refusal(err.Error())
	}
	return describe.Type(about), nil
}

// Draft implements fleet.Fleet.
func (f *Fleet) Draft(ctx context.Context, d *fleet.Draft) (string, error) {
	machine := map[string]any{"state": v1.Stopped}
	if d.CPUs != 0 {
		machine["maximumCpus"] = d.CPUs
	}
	if d.RAM != 0 {
		machine["maximumRam"] = formatQuantity(d.RAM)
	}
	switch d.Network {
	case "", fleet.NoNetwork:
	default:
		machine["networks"] = []any{map[string]any{d.Network: map[string]any{}}}
	}
	disks, refs, made, err := f.draftDisks(d)
	if err != nil {
		return "", err
	}
	if disks != nil {
		machine["disks"] = disks
	}
	if !d.Screen {
		machine["display"] = map[string]any{}
	}
	options, err := optionsOf(d)
	if err != nil {
		return "", err
	}
	f.addDriverOptions(ctx, d, options)
	if len(options) > 0 {
		machine["options"] = options
	}
	spec := map[string]any{"vm": machine}
	if refs != nil {
		spec["blockDeviceRefs"] = refs
	}
	if d.RunPolicy != "" {
		spec["runPolicy"] = d.RunPolicy
	}
	if d.Class != "" {
		spec["virtualMachineClassName"] = d.Class
	}
	if d.Fraction != "" {
		spec["cpu"] = map[string]any{"coreFraction": d.Fraction}
	}
	if d.Type != "" {
		spec["vmType"] = map[string]any{"source": d.Type}
	}
	if d.User != "" {
		spec["cloudInit"] = map[string]any{"userData": map[string]any{"users": []any{cloudInitUser(d)}}}
	}
	text, err := yaml.Marshal(document{
		APIVersion: v1.GroupVersion().String(), Kind: kindOfVM, Spec: spec,
		Metadata: map[string]any{"name": d.Name, "namespace": f.opts.Namespace},
	})
	return made + string(text), err
}

// addDriverOptions adds the options for a setup from a CD that lacks drivers, unless the VM or its class sets them.
func (f *Fleet) addDriverOptions(ctx context.Context, d *fleet.Draft, options map[string]any) {
	copied := slices.ContainsFunc(d.Disks, func(disk fleet.Disk) bool {
		return disk.From != fleet.FromVM && disk.From != fleet.FromBlank
	})
	if d.Medium == "" || copied {
		return
	}
	var class fleet.VMClass
	for _, c := range f.vmClasses() {
		if c.Name == d.Class || d.Class == "" && c.Preset {
			class = c
		}
	}
	about, err := f.opts.Types.Describe(ctx, cmp.Or(d.Type, class.Type, defaultType))
	if err != nil {
		return // the check of the definition reports it
	}
	missing := about.Drivers.Missing(func(name string) bool {
		_, set := options[name]
		return set || slices.Contains(class.Options, name) || slices.Contains(class.Locked, name)
	})
	for name, value := range missing {
		options[name] = value
	}
}

// optionsOf returns the options of a draft.
func optionsOf(d *fleet.Draft) (options map[string]any, err error) {
	var faults fleet.Faults
	options = map[string]any{}
	for name, text := range d.Options {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			faults = append(faults, fleet.Fault{Path: "spec.vm.options." + name, Message: err.Error()})
		}
		options[name] = value
	}
	if faults != nil {
		return nil, faults
	}
	return options, nil
}

func formatQuantity(bytes int64) string {
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}

// cloudInitUser returns the user of a draft in cloud-init's format.
func cloudInitUser(d *fleet.Draft) map[string]any {
	made := map[string]any{"name": d.User, "sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash"}
	if len(d.Keys) > 0 {
		made["ssh_authorized_keys"] = d.Keys
	}
	if d.Password {
		made["passwd"], made["lock_passwd"] = fleet.NewPassword, false
	}
	return made
}

// Check implements fleet.Fleet. The API server validates the definition with a dry run, and the VM type makes the plan.
func (f *Fleet) Check(ctx context.Context, name string, d *fleet.Definition) (*fleet.Check, error) {
	check, err := f.checkDefinition(ctx, name, d)
	var faults fleet.Faults
	if errors.As(err, &faults) {
		return &fleet.Check{Faults: faults}, nil
	}
	return check, err
}

func (f *Fleet) checkDefinition(ctx context.Context, name string, d *fleet.Definition) (*fleet.Check, error) {
	var before *document
	var is *fleet.VM
	wanted, object, err := (*document)(nil), client.Object(nil), error(nil)
	if d.Version == "" {
		var m *making
		if m, err = f.parseNew(name, d.Text); err == nil {
			wanted = m.vm
			object, err = f.tryCreate(ctx, m)
		}
	} else if wanted, object, err = f.replaceDefinition(ctx, name, d, client.DryRunAll); err == nil {
		if is, err = f.Get(name); err == nil {
			before, err = f.definitionOf(name)
		}
	}
	if err != nil {
		return nil, err
	}
	vm, err := asVM(object)
	if err != nil {
		return nil, err
	}
	made, err := f.opts.Types.Plan(ctx, vm)
	if err != nil {
		return nil, wanted.locateFaults(err)
	}
	check := &fleet.Check{Plan: describe.Plan(made)}
	for _, w := range made.Warnings {
		check.Warnings = append(check.Warnings, "spec."+w.Path+" "+w.Message)
	}
	if p := objects.TightLimit(vm); p != nil {
		check.Warnings = append(check.Warnings, p.String())
	}
	if is != nil && is.State.Up() {
		check.Running = true
		after, err := documentOf(vm)
		if err != nil {
			return nil, err
		}
		effect, err := f.effectOf(ctx, name, vm)
		if err != nil {
			return nil, err
		}
		check.Now, check.Later = changesByTime(before, after, effect.live)
		if effect.refused != "" {
			check.Warnings = append(check.Warnings, "the running VM doesn't accept this definition: "+effect.refused)
		}
	}
	return check, nil
}

// arrivalTime is how long to wait for a new VM to appear in the store.
const arrivalTime = 10 * time.Second

// awaitStored waits until the store contains a VM.
func (f *Fleet) awaitStored(ctx context.Context, name string) error {
	over := time.NewTimer(arrivalTime)
	defer over.Stop()
	for {
		changed := f.Changed()
		if vm, err := f.opts.Store.VM(name); vm != nil || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-over.C:
			return nil // it exists, and pages will show it
		case <-ctx.Done():
			return nil
		}
	}
}

// Replace implements fleet.Fleet.
func (f *Fleet) Replace(ctx context.Context, user, name string, d *fleet.Definition) error {
	_, object, err := f.replaceDefinition(ctx, name, d)
	if err != nil {
		return err
	}
	vm, err := asVM(object)
	if err == nil {
		f.recordEvent(ctx, user, found{VirtualMachine: vm}, "edit", "edit")
	}
	return err
}

// attempts limits retries of a write after conflicts with status updates.
const attempts = 10

// replaceDefinition writes the differences between the version that was edited and the new definition.
func (f *Fleet) replaceDefinition(ctx context.Context, name string, d *fleet.Definition, more ...client.PatchOption) (
	*document, client.Object, error,
) {
	for range attempts {
		changed := f.Changed()
		vm, err := f.findVM(name)
		switch {
		case err != nil:
			return nil, nil, err
		case versionOf(vm.VirtualMachine) != d.Version:
			return nil, nil, fleet.ErrChanged
		}
		before, err := documentOf(vm.VirtualMachine)
		if err != nil {
			return nil, nil, err
		}
		wanted, err := parseDefinition(name, f.opts.Namespace, d.Text)
		if err == nil {
			err = wanted.restoreSecrets(before)
		}
		if err != nil {
			return nil, nil, err
		}
		was, object := before.asObject(), wanted.asObject()
		was.SetResourceVersion(vm.ResourceVersion)
		object.SetResourceVersion(vm.ResourceVersion)
		patch := client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{})
		err = f.opts.Client.Patch(ctx, object, patch, append(more, owner, client.FieldValidation("Strict"))...)
		if !apierrors.IsConflict(err) {
			return wanted, object, wanted.locateFaults(err)
		}
		select { // the store doesn't have the latest status yet
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	return nil, nil, changedMeanwhile
}

func (f *Fleet) definitionOf(name string) (*document, error) {
	vm, err := f.findVM(name)
	if err != nil {
		return nil, err
	}
	return documentOf(vm.VirtualMachine)
}

// asVM converts an object that the API server returned.
func asVM(object client.Object) (*v1.VirtualMachine, error) {
	vm := &v1.VirtualMachine{}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(tree, vm)
	}
	if err != nil {
		return nil, fmt.Errorf("read the definition of VM %s: %w", object.GetName(), err)
	}
	return vm, nil
}

// locateFaults converts an error about the definition to fleet.Faults, with lines.
func (d *document) locateFaults(err error) error {
	var faults fleet.Faults
	if !errors.As(err, &faults) {
		if faults = faultsOf(err); faults == nil {
			return asRefusal(err)
		}
	}
	for i, f := range faults {
		faults[i] = d.faultAt(f.Path, f.Message)
	}
	return faults
}
