package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"vmop/internal/atomicfile"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// tpmState returns the file with the state of the machine's TPM, or "" if it has no TPM.
func tpmState(p *plan.Plan) string {
	for _, h := range p.Helpers {
		if h.Role == plan.RoleTPM && h.Dir != "" {
			return filepath.Join(h.Dir, prepare.SwtpmState)
		}
	}
	return ""
}

// takeTPM creates swtpm's working folder. The original system and earlier versions keep the state directly in the
// data directory. takeTPM copies that state into the folder and replaces it with a link, so that those systems
// find the state when they run the VM again. In that case their swtpm replaces the link with a file. A regular
// file there is therefore always the newest state. After a power failure at any moment, at least one copy is
// complete.
//
// See docs/decisions/0060-tpm-folder.md.
func takeTPM(vm *prepare.VM, log *slog.Logger) error {
	folder := filepath.Join(vm.DataDir, plan.TPMFolder)
	if !slices.ContainsFunc(vm.Plan.Helpers, func(h plan.Process) bool { return h.Dir == folder }) {
		return nil
	}
	err := os.Mkdir(folder, 0o700)
	if err == nil {
		err = atomicfile.SyncFolder(vm.DataDir) // before the link leads there
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := atomicfile.RemoveTemporary(folder, prepare.SwtpmState); err != nil {
		return err
	}
	state, before := filepath.Join(folder, prepare.SwtpmState), filepath.Join(vm.DataDir, prepare.SwtpmState)
	info, err := os.Lstat(before)
	switch target, _ := os.Readlink(before); {
	case target == filepath.Join(plan.TPMFolder, prepare.SwtpmState):
		return nil
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: put the TPM's state there, or remove it", before)
	case info.Size() > 0 || isAbsent(state):
		if err := copyFile(before, state); err != nil {
			return err
		}
		log.Info("the state of the TPM was moved to a separate folder", "from", before, "to", state)
	}
	return leadTo(before)
}

func isAbsent(file string) bool {
	_, err := os.Lstat(file)
	return errors.Is(err, fs.ErrNotExist)
}

// leadTo replaces the state file of earlier versions with a link, or removes the file if the file system has no
// links. The file must not reappear, because it would be taken for a newer state.
func leadTo(before string) error {
	err := atomicfile.Link(filepath.Join(plan.TPMFolder, prepare.SwtpmState), before)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		if err = os.Remove(before); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return atomicfile.SyncFolder(filepath.Dir(before))
}

// findTPM finds out whether the TPM is new. swtpm does not sync its files. After a power failure its first state
// may be an empty file, which swtpm refuses.
//
// See docs/decisions/0051-power-cuts.md.
func (l *Launch) findTPM() error {
	if l.Incoming {
		if err := l.expectTPM(); err != nil {
			return fmt.Errorf("make room for the state of the TPM: %w", err)
		}
	}
	file := tpmState(l.vm.Plan)
	if file == "" {
		return nil
	}
	if err := takeTPM(l.vm, l.log); err != nil {
		return fmt.Errorf("take over the state of the TPM: %w", err)
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

// Sync makes the state of a new TPM survive a power failure. QEMU has already initialized the TPM, but the guest
// has not seen it yet. Later states replace the file, and file systems protect such replacements.
func (p *Processes) Sync() error {
	if p.newTPM == "" {
		return nil
	}
	// Emulators other than swtpm keep their state elsewhere.
	if err := atomicfile.Sync(p.newTPM); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sync the state of the TPM: %w", err)
	}
	return nil
}
