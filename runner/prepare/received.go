package prepare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"vmop/internal/printable"
	"vmop/internal/readfile"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// An Offer is another runner's description of the VM with the guest that it sends. Its content is not trusted.
type Offer struct {
	UUID   string `json:"uuid"`
	VMType string `json:"vmType"`
	// Archive contains the VM type.
	Archive []byte `json:"archive"`
	// Machines are the machine versions, by their aliases.
	Machines map[string]string `json:"machines"`
	// GenerationID identifies the guest's disks; see vmtypes.Host.
	GenerationID string `json:"generationId,omitempty"`
}

// CompleteAs computes everything else of a VM with a guest from another runner. It doesn't store anything before
// the guest has arrived. If trusted is true, the offer may contain another version of the VM type than the local
// version; its plans are limited to what the local version does.
//
// See docs/decisions/0171-received-types.md.
func (vm *VM) CompleteAs(ctx context.Context, opts Options, o Offer, trusted bool) error {
	if err := o.checkOffer(vm.Config.VMType); err != nil {
		return err
	}
	archive, err := vm.admitType(ctx, opts.VMTypes, vmtypes.Unmarked(o.Archive), trusted)
	if err != nil {
		return err
	}
	if vm.Config.VM.UUID == "" {
		vm.Config.VM.UUID = o.UUID
	}
	vm.Pin, vm.Facts.GenerationID = &Pin{Archive: archive, Machines: o.Machines}, &o.GenerationID
	return vm.Complete(ctx, opts, false)
}

// mostMachines limits the machine versions of an offer.
const mostMachines = 100

// checkOffer returns an error for content that is impossible for a VM of the type vmType.
func (o Offer) checkOffer(vmType string) error {
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
	if o.GenerationID != "" && !vmspec.ValidUUID(o.GenerationID) {
		return errors.New("the source's generation id is not a uuid")
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

// baseType returns the name of a type without its folder.
func baseType(vmType string) string { return strings.TrimSuffix(filepath.Base(vmType), ".star") }

// isMachine reports whether a text can be the name of one of QEMU's machines.
func isMachine(name string) bool {
	return name != "" && len(name) < 100 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz"+
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-") == ""
}

// admitType returns the archive of the VM type for a guest from another runner. The archive has the mark of
// vmtypes.MarkReceived unless this side has the same type.
func (vm *VM) admitType(ctx context.Context, vmTypes string, offered []byte, trusted bool) ([]byte, error) {
	kept, err := readfile.ReadFile(filepath.Join(vm.DataDir, pinnedType), LargestRecord)
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
		if !vmtypes.IsReceived(kept) && bytes.Equal(offered, vmtypes.Unmarked(kept)) {
			return kept, nil // with its signature
		}
		return offered, nil
	case limited:
		return vmtypes.MarkReceived(offered), nil
	}
	return nil, refusedType(vm.Config.VMType, vmTypes, missing)
}

// trust is how far a VM type from another runner is trusted.
type trust int

const (
	refused trust = iota // not used
	limited              // limited to what the local version does
	asOwn                // unlimited: it is identical to the local type
)

// trustOf decides on an archive from another runner. library and kept are the local archives: of the VM type, and
// in the VM's data directory. They are nil if they don't exist.
func trustOf(offered, library, kept []byte, trusted bool) trust {
	switch {
	case library != nil && bytes.Equal(offered, library):
		return asOwn
	case kept != nil && bytes.Equal(offered, vmtypes.Unmarked(kept)):
		if vmtypes.IsReceived(kept) {
			return limited
		}
		return asOwn
	case trusted && library != nil: // without a local type, there are no limits to compare with
		return limited
	}
	return refused
}

// refusedType returns the reason why a VM type from another runner is not used. missing is why there is no local
// type with that name.
func refusedType(name, vmTypes string, missing error) error {
	const danger = "a VM type chooses which programs run"
	if missing != nil {
		return fmt.Errorf("this side lacks the source's VM type %s, and %s: copy the type's files to %s on the target "+
			"(%w)", name, danger, vmTypes, missing)
	}
	whose, how := "the one in "+vmTypes, "copy the source's files there"
	if vmtypes.IsStock(name) {
		whose, how = "the type of this vmrunner", "use the version of vmrunner that first started the source"
	}
	return fmt.Errorf("the source's VM type %s is not %s, and %s: on the target, %s, or, if you trust the source, add "+
		"--trust-source to vmrunner receive; or on the source, use the target's version, with updateVmType: true, and "+
		"restart the VM", name, whose, danger, how)
}

// ownType returns the local VM type with a name, without regard to the kept copy.
func ownType(types *evaluate.Group, vmTypes, name string) (*evaluate.Member, error) {
	found, err := evaluate.Find(vmTypes, name)
	if err != nil {
		return nil, err
	}
	return types.Add(found)
}

// isReceived reports whether another runner has sent the type, and it isn't identical to the local type.
func (p *Pin) isReceived() bool { return p != nil && vmtypes.IsReceived(p.Archive) }

// ownPlan returns the local type's plan for a VM with a type from another runner.
func (vm *VM) ownPlan(ctx context.Context, vmTypes string, spec vmspec.Spec) (*plan.Plan, error) {
	types := evaluate.NewGroup(ctx)
	defer types.Close()
	own, err := ownType(types, vmTypes, vm.Config.VMType)
	if err != nil {
		return nil, err
	}
	return own.Launch(ctx, spec, vm.Host())
}
