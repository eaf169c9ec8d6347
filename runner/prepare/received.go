package prepare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"vmop/printable"
	"vmop/regular"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// An Offer is what another runner says of the VM whose guest it sends. Nothing of it is trusted.
type Offer struct {
	UUID   string `json:"uuid"`
	VMType string `json:"vmType"`
	// Archive is that of the VM type.
	Archive []byte `json:"archive"`
	// Machines are the machine versions, by their aliases.
	Machines map[string]string `json:"machines"`
}

// CompleteAs computes everything else of a VM whose guest comes from another runner. Nothing is kept before the guest
// is here. trusted: the offer may have another version of the VM type than this side has; its plans are limited to what
// this side's own version does.
//
// See docs/decisions/0171-received-types.md.
func (vm *VM) CompleteAs(ctx context.Context, opts Options, o Offer, trusted bool) error {
	if err := o.check(vm.Config.VMType); err != nil {
		return err
	}
	archive, err := vm.admitType(ctx, opts.VMTypes, vmtypes.Unmarked(o.Archive), trusted)
	if err != nil {
		return err
	}
	if vm.Config.VM.UUID == "" {
		vm.Config.VM.UUID = o.UUID
	}
	vm.Pin = &Pin{Archive: archive, Machines: o.Machines}
	return vm.Complete(ctx, opts, false)
}

// mostMachines is how many machine versions an offer may have.
const mostMachines = 100

// check returns an error for what can't be true of a VM of the type vmType.
func (o Offer) check(vmType string) error {
	if here, there := baseType(vmType), baseType(o.VMType); here != there {
		return fmt.Errorf("vmType is %s here, and %s at the source", vmType,
			printable.Clip(printable.Line(o.VMType), 100))
	}
	name, err := vmtypes.ArchivedName(o.Archive)
	if err != nil {
		return fmt.Errorf("read the source's VM type: %w", err)
	}
	if name != baseType(vmType) {
		return fmt.Errorf("the source's VM type %s has another name, %s", baseType(vmType),
			printable.Clip(printable.Line(name), 100))
	}
	if !vmspec.ValidUUID(o.UUID) {
		return errors.New("the source's uuid is not a uuid")
	}
	if len(o.Machines) > mostMachines {
		return errors.New("the source has too many machine versions")
	}
	for alias, version := range o.Machines {
		if !isMachine(alias) || !isMachine(version) {
			return errors.New("the source's machine versions have a name that no machine has")
		}
	}
	return nil
}

// baseType is the name of a type without its folder.
func baseType(vmType string) string { return strings.TrimSuffix(filepath.Base(vmType), ".star") }

// isMachine reports whether a text can be the name of one of QEMU's machines.
func isMachine(name string) bool {
	return name != "" && len(name) < 100 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz"+
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-") == ""
}

// admitType returns the archive of the VM type that a guest from another runner gets. It has the mark of
// vmtypes.MarkReceived unless it is one that this side has.
func (vm *VM) admitType(ctx context.Context, vmTypes string, offered []byte, trusted bool) ([]byte, error) {
	kept, err := regular.ReadFile(filepath.Join(vm.DataDir, pinnedType), LargestRecord)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read pinned VM type: %w", err)
	}
	types := evaluate.NewGroup(ctx)
	defer types.Close()
	var library []byte
	own, missing := ownType(types, vmTypes, vm.Config.VMType)
	if missing == nil {
		library, missing = own.Archive()
	}
	switch trustOf(offered, library, kept, trusted) {
	case asOwn:
		return offered, nil
	case limited:
		return vmtypes.MarkReceived(offered), nil
	}
	return nil, refusedType(vm.Config.VMType, vmTypes, missing)
}

// trust is what a VM type may do that another runner has sent.
type trust int

const (
	refused trust = iota // nothing
	limited              // what this side's own version does
	asOwn                // everything: it is this side's own
)

// trustOf decides on an archive that another runner has sent. library and kept are this side's own, for the VM type and
// in the VM's data directory; nil: there is none.
func trustOf(offered, library, kept []byte, trusted bool) trust {
	switch {
	case library != nil && bytes.Equal(offered, library):
		return asOwn
	case kept != nil && bytes.Equal(offered, vmtypes.Unmarked(kept)):
		if vmtypes.IsReceived(kept) {
			return limited
		}
		return asOwn
	case trusted && library != nil: // without a type of its own, this side knows no limits
		return limited
	}
	return refused
}

// refusedType is why a VM type from another runner is not used. missing is why this side has none of that name.
func refusedType(name, vmTypes string, missing error) error {
	const danger = "a VM type chooses which programs run"
	if missing != nil {
		return fmt.Errorf("this side lacks the source's VM type %s, and %s: copy the type's files to %s on the target "+
			"(%w)", name, danger, vmTypes, missing)
	}
	whose, how := "the one in "+vmTypes, "copy the source's files there"
	if vmtypes.IsStock(name) {
		whose, how = "that of this vmrunner", "use the version of vmrunner by which the source was first started"
	}
	return fmt.Errorf("the source's VM type %s is not %s, and %s: on the target, %s, or, if you trust the source, add "+
		"--trust-source to vmrunner receive; or on the source, use the target's version, with updateVmType: true, and "+
		"restart the VM", name, whose, danger, how)
}

// ownType returns the VM type that this side has by a name, whatever is kept of it.
func ownType(types *evaluate.Group, vmTypes, name string) (*evaluate.Member, error) {
	found, err := evaluate.Find(vmTypes, name)
	if err != nil {
		return nil, err
	}
	return types.Add(found)
}

// isReceived reports whether the type is one that another runner has sent, and that is not this side's own.
func (p *Pin) isReceived() bool { return p != nil && vmtypes.IsReceived(p.Archive) }

// ownPlan returns the plan that this side's own type makes of a VM whose type another runner has sent.
func (vm *VM) ownPlan(ctx context.Context, vmTypes string, spec vmspec.Spec) (*plan.Plan, error) {
	types := evaluate.NewGroup(ctx)
	defer types.Close()
	own, err := ownType(types, vmTypes, vm.Config.VMType)
	if err != nil {
		return nil, err
	}
	return own.Launch(ctx, spec, vm.Host())
}
