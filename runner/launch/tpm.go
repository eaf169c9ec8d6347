package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vmop/durable"
	"vmop/vmtypes/plan"
)

// swtpmState is the file in which swtpm keeps the state of a TPM 2.0, in the directory
// in which it works.
const swtpmState = "tpm2-00.permall"

// tpmState returns the file with the state of a machine's TPM; "" if it has none.
func tpmState(p *plan.Plan) string {
	for _, h := range p.Helpers {
		if h.Role == plan.RoleTPM && h.Dir != "" {
			return filepath.Join(h.Dir, swtpmState)
		}
	}
	return ""
}

// findTPM finds out whether the TPM is a new one. swtpm doesn't sync what it writes, and
// refuses what a power failure leaves of its first state: an empty file.
//
// See docs/decisions/0051-power-cuts.md.
func (l *Launch) findTPM() error {
	file := tpmState(l.vm.Plan)
	if file == "" {
		return nil
	}
	info, err := os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.started.newTPM = file
		return nil
	case err != nil:
		return fmt.Errorf("look for the state of the TPM: %w", err)
	case info.Size() > 0 || !info.Mode().IsRegular():
		return nil
	}
	l.log.Warn("the state of the TPM was empty, as a power failure leaves it; the VM gets a new TPM", "file", file)
	l.started.newTPM = file
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("remove the empty state of the TPM: %w", err)
	}
	return nil
}

// Sync makes the state of a new TPM, which QEMU has had made, survive a power failure; the
// guest has not seen the TPM yet. Later states replace it, which file systems care for.
func (p *Processes) Sync() error {
	if p.newTPM == "" {
		return nil
	}
	// Other emulators than swtpm keep their state elsewhere.
	if err := durable.Sync(p.newTPM); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sync the state of the TPM: %w", err)
	}
	return nil
}
