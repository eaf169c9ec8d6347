package prepare

import (
	"errors"
	"fmt"
	"net/url"
	"os"

	"vmop/internal/outbound"
	"vmop/vmspec"
)

// Reach returns which addresses QEMU may reach for a URL in the configuration. A user who starts a VM on this
// computer may name a server on it. A user who defines a VM in a cluster must not name the pod or the node.
func (vm *VM) Reach(address string) outbound.Rule {
	if vm.Config.Resource != "" {
		return outbound.Rule{}
	}
	return outbound.NamedBy(address)
}

// refusedAddresses returns an error for each URL with an internal address, for media and for images of disks to
// create. Names are resolved at the start.
func (vm *VM) refusedAddresses() (faults []vmspec.Fault) {
	for i, d := range vm.Spec.Drives {
		at := fmt.Sprintf("vm.drives[%d].", i)
		if u := urlOf(d.File); u != nil {
			if fault := MediumFault(at+"file", vm.Reach(d.File).CheckSpelling(u)); fault != nil {
				faults = append(faults, *fault)
			}
			continue
		}
		if _, err := os.Lstat(d.File); err == nil {
			continue // it is not created
		}
		if u := urlOf(d.Source); u != nil {
			if err := outbound.NamedBy(d.Source).CheckSpelling(u); errors.As(err, new(*outbound.RefusedError)) {
				faults = append(faults, vmspec.Fault{Path: at + "source", Message: err.Error(), Hint: otherServer})
			}
		}
	}
	return faults
}

const otherServer = "name a server at another address"

// MediumFault returns the error of a field with the URL of a medium, nil if the address wasn't refused.
func MediumFault(path string, err error) *vmspec.Fault {
	if !errors.As(err, new(*outbound.RefusedError)) {
		return nil
	}
	return &vmspec.Fault{Path: path, Message: fmt.Sprintf("cannot read the medium: %v", err), Hint: otherServer}
}

// urlOf returns the URL of a file or source, nil if it isn't a URL.
func urlOf(file string) *url.URL {
	if vmspec.SourceKindOf(file) != vmspec.SourceURL {
		return nil
	}
	u, err := url.Parse(file)
	if err != nil {
		return nil // QEMU or the check of the configuration reports the error
	}
	return u
}
