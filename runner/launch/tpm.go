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

	"vmop/durable"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// tpmState returns the file with the state of a machine's TPM; "" if it has none.
func tpmState(p *plan.Plan) string {
	for _, h := range p.Helpers {
		if h.Role == plan.RoleTPM && h.Dir != "" {
			return filepath.Join(h.Dir, prepare.SwtpmState)
		}
	}
	return ""
}

// takeTPM makes the folder in which swtpm works. The original system, and earlier
// versions, have the state in the data directory: it is copied into the folder, and a
// link takes its place. By the link they find the state when they run the VM again, and
// swtpm then replaces the link by a file: a file there is always the newest state, and
// whenever the power fails one of both is whole.
//
// See docs/decisions/0060-tpm-folder.md.
func takeTPM(vm *prepare.VM, log *slog.Logger) error {
	folder := filepath.Join(vm.DataDir, plan.TPMFolder)
	if !slices.ContainsFunc(vm.Plan.Helpers, func(h plan.Process) bool { return h.Dir == folder }) {
		return nil
	}
	err := os.Mkdir(folder, 0o700)
	if err == nil {
		err = durable.SyncFolder(vm.DataDir) // before the link leads there
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := durable.RemoveTemporary(folder, prepare.SwtpmState); err != nil {
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
		return fmt.Errorf("%s is no regular file: put the TPM's state there, or remove it", before)
	case info.Size() > 0 || isAbsent(state):
		if err := copyFile(before, state); err != nil {
			return err
		}
		log.Info("the state of the TPM was moved to a folder of its own", "from", before, "to", state)
	}
	return leadTo(before)
}

func isAbsent(file string) bool {
	_, err := os.Lstat(file)
	return errors.Is(err, fs.ErrNotExist)
}

// leadTo puts a link in the place of the file in which earlier versions have the state,
// or removes the file where there are no links. It must not come back: it would be taken
// for a newer state.
func leadTo(before string) error {
	err := durable.Link(filepath.Join(plan.TPMFolder, prepare.SwtpmState), before)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		if err = os.Remove(before); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(before))
}

// findTPM finds out whether the TPM is a new one. swtpm doesn't sync what it writes, and
// refuses what a power failure leaves of its first state: an empty file.
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
